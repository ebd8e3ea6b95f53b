// What is on disk when: a level for the queue, another one for a single message, and consumers that see only what is on disk.
// Run it with: dotnet run samples/durability.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using MappedFileQueues;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "orders");
    using var queue = new MappedFileQueue(new MappedFileQueueOptions
    {
        StorePath = path,
        Durability = DurabilityLevel.Interval,          // a power loss takes at most …
        FlushInterval = TimeSpan.FromMilliseconds(200), // … this much
    });
    MappedFileProducer producer = queue.Producer;
    producer.Produce("a price"u8);
    producer.Produce("a payment"u8, new ProduceOptions { Durability = DurabilityLevel.Group });   // on disk when it returns

    long offset = 0;
    for (int i = 0; i < 1_000; i++)
        offset = producer.Produce("one of many"u8);
    await producer.FlushAsync(offset);                  // one flush for all of them
    Console.WriteLine(producer.ConfirmedOffset > offset);

    var onDisk = new ConsumerOptions { DurableOnly = true };
    using MappedFileConsumer mirror = queue.OpenConsumer("mirror", onDisk);
    string first = System.Text.Encoding.UTF8.GetString(mirror.Consume());   // no power loss takes it back
    mirror.Commit(durable: true);                       // and none makes it come again

    return first == "a price" && producer.ConfirmedOffset > offset ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}
