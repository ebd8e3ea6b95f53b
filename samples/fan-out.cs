// Fan-out: ten consumers read one log, each at its own pace and from its own place. The log is there once, however many read it;
// retention removes what all of them have read.
// Run it with: dotnet run samples/fan-out.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using MappedFileQueues;

const int Count = 200_000;
const int ConsumerCount = 10;
string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    using var queue = new MappedFileQueue<Tick>(new MappedFileQueueOptions
    {
        StorePath = Path.Combine(folder, "ticks"),
        SegmentSize = 1 << 20,
        Retention = new RetentionOptions { MaxBytes = 2 << 20 },   // never what a consumer has not read
    });
    string[] names = [.. Enumerable.Range(0, ConsumerCount).Select(number => $"reader-{number}")];
    foreach (string name in names)
        queue.OpenConsumer(name).Dispose();                        // from now on the log keeps for it what it has not read

    Task<long>[] readers = [.. names.Select(name => Task.Run(() => Read(queue, name, Count)))];
    long sum = 0;
    for (int i = 1; i <= Count; i++)
    {
        queue.Producer.Produce(new Tick(i % 16, i));
        sum += i;
    }

    long[] sums = await Task.WhenAll(readers);
    MappedFileQueueInfo info = queue.GetInfo();
    Console.WriteLine($"{ConsumerCount} consumers, {Count} ticks each, sums equal: {sums.All(one => one == sum)}");
    Console.WriteLine($"the slowest is {info.Consumers.Max(consumer => consumer.Lag)} bytes behind; "
        + $"{info.PublishedOffset} bytes appended, from offset {info.LogStart} on they are kept");

    // A new name begins with the oldest message that is kept; here it looks at the last five only.
    using MappedFileConsumer<Tick> late = queue.OpenConsumer("late", QueueStart.FromEnd(5));
    int count = 0;
    while (late.TryConsume(out _))
    {
        late.Advance();
        count++;
    }

    return sums.All(one => one == sum) && info.Consumers.All(consumer => consumer.Lag == 0) && count == 5 ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

// Each in a process of its own would be the same.
static async Task<long> Read(MappedFileQueue<Tick> queue, string name, int count)
{
    using MappedFileConsumer<Tick> consumer = queue.OpenConsumer(name);
    var batch = new Tick[256];
    long sum = 0;
    for (int read = 0; read < count;)
    {
        await consumer.WaitToConsumeAsync();                       // no thread waits
        int length = consumer.ConsumeBatch(batch);
        foreach (Tick tick in batch.AsSpan(0, length))
            sum += tick.Price;
        read += length;
        consumer.Commit();
    }

    return sum;
}

internal readonly record struct Tick(int Instrument, long Price);
