// A queue of messages of any length: bytes, objects through a serializer, filling in place, named consumers, a reader that leaves
// no trace.
// Run it with: dotnet run samples/message-queue.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Buffers;
using System.Buffers.Binary;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;
using MappedFileQueues;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "orders");
    using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = path });
    MappedFileProducer producer = queue.Producer;
    producer.Produce("plain bytes"u8);
    producer.Produce(new Order("A-1", 19.9m), new OrderSerializer());
    long offset = producer.Produce(8, 42L, static (place, number) => BinaryPrimitives.WriteInt64LittleEndian(place, number));
    producer.ProduceBatch(["one"u8.ToArray(), "two"u8.ToArray(), ReadOnlyMemory<byte>.Empty]);

    MappedFileConsumer billing = queue.OpenConsumer("billing");   // each name has its own place in the log
    ReadOnlySpan<byte> text = billing.Consume();                  // a view into the mapped file, valid until Commit
    Console.WriteLine(Encoding.UTF8.GetString(text));
    billing.Commit();
    Order order = billing.Consume(new OrderSerializer());
    Console.WriteLine(order);
    billing.Commit();

    // Reading ahead of the commit: three messages are taken in, then committed together, or read again after a Rewind.
    int seen = 0;
    foreach (ReadOnlySpan<byte> message in billing.ConsumeBatch(countMax: 3))
        seen += message.Length;
    billing.Rewind();
    foreach (ReadOnlySpan<byte> message in billing.ConsumeBatch())
        seen += message.Length;
    billing.Commit();

    using MappedFileReader reader = queue.OpenReader(QueueStart.FromOffset(offset));   // no name, no lock, nothing stored
    bool found = reader.TryRead(out ReadOnlySpan<byte> number);
    long value = found ? BinaryPrimitives.ReadInt64LittleEndian(number) : 0;

    MappedFileQueueInfo info = queue.GetInfo();
    Console.WriteLine($"value {value}; billing is {info.Consumers.Single(c => c.Name == "billing").Lag} bytes behind");
    return (order, seen, value) == (new Order("A-1", 19.9m), 8 + 3 + 3 + 8 + 3 + 3, 42) && !billing.TryConsume(out _) ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

internal sealed record Order(string Id, decimal Amount);

/// <summary>Writes into the queue's own buffer, so the queue allocates nothing a message.</summary>
internal sealed class OrderSerializer : IBufferedMessageSerializer<Order>, IMessageDeserializer<Order>
{
    public ReadOnlySpan<byte> Serialize(Order message) => JsonSerializer.SerializeToUtf8Bytes(message, OrderJson.Default.Order);

    public void Serialize(Order message, IBufferWriter<byte> destination)
    {
        using var writer = new Utf8JsonWriter(destination);
        JsonSerializer.Serialize(writer, message, OrderJson.Default.Order);
    }

    public Order Deserialize(ReadOnlySpan<byte> buffer) => JsonSerializer.Deserialize(buffer, OrderJson.Default.Order)!;
}

[JsonSerializable(typeof(Order))]
internal sealed partial class OrderJson : JsonSerializerContext;
