// What programs did with 1.x, with MSMQ and with Chronicle Queue, and how it is done here.
// Run it with: dotnet run samples/moving.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Text;
using MappedFileQueues;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    return FromVersionOne(Path.Combine(folder, "quotes")) && FromMsmq(Path.Combine(folder, "orders"))
        && FromChronicle(Path.Combine(folder, "events")) ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

static bool FromVersionOne(string path)
{
    var options = new MappedFileQueueOptions { StorePath = path, ProducerForceFlushIntervalCount = 1000 };
    using var queue = MappedFileQueue.Create<Quote>(options);
    var quote = new Quote { Id = 1, Price = 101.25 };
    queue.Producer.Produce(ref quote);
    queue.Consumer.Consume(out Quote read);
    queue.Consumer.Commit();
    return read.Price == 101.25;
}

static bool FromMsmq(string path)
{
    using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = path });   // Exists, Create
    var recoverable = new ProduceOptions { Durability = DurabilityLevel.Group };
    queue.Producer.Produce("order 1"u8, recoverable);                                         // Send

    MappedFileConsumer consumer = queue.Consumer;
    bool found = consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromSeconds(3));   // Receive within a transaction
    string body = Encoding.UTF8.GetString(message);
    bool same = consumer.TryConsume(out ReadOnlySpan<byte> again) && again.SequenceEqual("order 1"u8);   // Abort: it comes again
    consumer.Commit(durable: true);                                                              // Commit
    return found && same && body == "order 1";
}

static bool FromChronicle(string path)
{
    using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = path });
    MappedFileProducer appender = queue.Producer;                           // createAppender
    appender.Produce("first"u8);                                            // writeText
    long index = appender.Produce(8, 42L, static (bytes, number) => BitConverter.TryWriteBytes(bytes, number));   // writeDocument

    using MappedFileConsumer tailer = queue.OpenConsumer("billing");        // createTailer("billing"): its place is stored
    tailer.AdjustOffset(index);                                             // moveToIndex
    long number = BitConverter.ToInt64(tailer.Consume());
    tailer.Commit();

    using MappedFileReader reader = MappedFileReader.Open(path);            // createTailer(): no place is stored
    bool found = reader.TryRead(out ReadOnlySpan<byte> text);
    return number == 42 && found && text.SequenceEqual("first"u8);
}

internal struct Quote
{
    public int Id;
    public double Price;
}
