// Asynchronous consumers: the simple loop over copies, and the loop that copies and allocates nothing. Waiting costs one thread
// a queue, however many consumers wait, and cancellation ends it at once.
// Run it with: dotnet run samples/async-consumer.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Text;
using MappedFileQueues;

const int Count = 1_000;
string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    await using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = Path.Combine(folder, "events") });
    using var stop = new CancellationTokenSource(TimeSpan.FromSeconds(30));
    Task<int> copies = CountCopies(queue.OpenConsumer("copies"), stop.Token);
    Task<int> inPlace = CountInPlace(queue.OpenConsumer("in-place"), stop.Token);
    for (int i = 0; i < Count; i++)
    {
        await queue.Producer.ProduceAsync(Encoding.UTF8.GetBytes($"event {i}"), stop.Token);
        if (i % 100 == 0)
            await Task.Delay(1, stop.Token);   // so that the consumers have something to wait for
    }

    await queue.Producer.ProduceAsync("end"u8.ToArray(), stop.Token);
    int[] counts = await Task.WhenAll(copies, inPlace);
    Console.WriteLine($"copies {counts[0]}, in place {counts[1]}");

    using var nothing = new CancellationTokenSource(TimeSpan.FromMilliseconds(50));
    bool cancelled = false;
    try
    {
        await queue.Consumer.ConsumeAsync(CancellationToken.None);   // the first message: "event 0"
        queue.Consumer.SeekToEnd();
        await queue.Consumer.ConsumeAsync(nothing.Token);
    }
    catch (OperationCanceledException)
    {
        cancelled = true;
    }

    return counts is [Count, Count] && cancelled ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

static async Task<int> CountCopies(MappedFileConsumer consumer, CancellationToken cancellationToken)
{
    int count = 0;
    await foreach (ReadOnlyMemory<byte> message in consumer.ReadAllAsync(cancellationToken))
    {
        if (message.Span.SequenceEqual("end"u8))
            break;
        count++;   // committed when the next one is asked for
    }

    consumer.Commit();
    return count;
}

static async Task<int> CountInPlace(MappedFileConsumer consumer, CancellationToken cancellationToken)
{
    int count = 0;
    while (await consumer.WaitToConsumeAsync(cancellationToken))
    {
        while (consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            bool isEnd = message.SequenceEqual("end"u8);
            consumer.Commit();   // the span ends here
            if (isEnd)
                return count;
            count++;
        }
    }

    return count;
}
