// A group of workers on one queue: each job goes to one of them. A job that fails is tried again later, by whichever worker is
// free, and at last it is a dead letter. When the cause is mended, the letters go back to the queue.
// Run it with: dotnet run samples/work-group.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Collections.Concurrent;
using MappedFileQueues;

const int Count = 10_000;
const int WorkerCount = 4;
string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "jobs");
    using var queue = new MappedFileQueue<Job>(new MappedFileQueueOptions { StorePath = path });
    ConcurrentDictionary<int, int> done = [];
    bool isMended = false;
    using var stop = new CancellationTokenSource();
    // Threads here; processes do the same. Each has a member of its own.
    Task[] workers = [.. Enumerable.Range(0, WorkerCount).Select(worker => Task.Run(() => Work(worker)))];

    for (int number = 0; number < Count; number++)
        queue.Producer.Produce(new Job(number));
    MappedFileGroupInfo group = WaitUntilDone(queue);
    Console.WriteLine($"{done.Count} jobs done, {group.DeadLetteredCount} dead letters, {group.GivenBackCount} times given back");

    Volatile.Write(ref isMended, true);
    var letters = new DeadLetterStore(new MappedFileQueueOptions { StorePath = path + "-dead-letters" });
    foreach (DeadLetter letter in letters.Read())
        Console.WriteLine($"  offset {letter.Offset}, {letter.Attempts} attempts: {letter.Error}");
    long retried = letters.Retry(queue);               // like `mfq deadletters retry`; repeated after a kill, none comes twice
    WaitUntilDone(queue);
    await stop.CancelAsync();
    await Task.WhenAll(workers);
    Console.WriteLine($"{retried} letters retried, {done.Count} jobs done, by {done.Values.Distinct().Count()} workers");
    return done.Count == Count && retried == 10 ? 0 : 1;

    async Task Work(int worker)
    {
        using MappedFileGroupMember<Job> member = queue.OpenGroupMember("workers", new GroupOptions { DeliveriesMax = 3 });
        try
        {
            while (true)
            {
                Job job = await member.ConsumeAsync(stop.Token);   // nobody else gets it, unless this process dies
                try
                {
                    if (job.Number % 1000 == 13 && !Volatile.Read(ref isMended))
                        throw new InvalidOperationException($"Job {job.Number} cannot be done.");
                    done[job.Number] = worker;
                    member.Acknowledge();
                }
                catch (InvalidOperationException error)
                {
                    TimeSpan delay = TimeSpan.FromMilliseconds(10 << member.DeliveryCount);
                    member.Reject(member.MessageOffset, delay, deadLetter: member.DeliveryCount == 3, error.Message);
                }
            }
        }
        catch (OperationCanceledException)
        {
            // The end. What is in hand is given back.
        }
    }
}
finally
{
    Directory.Delete(folder, recursive: true);
}

static MappedFileGroupInfo WaitUntilDone(MappedFileQueue<Job> queue)
{
    while (true)
    {
        if (queue.GetInfo().Groups is [{ Lag: 0 } group])
            return group;
        Thread.Sleep(10);
    }
}

internal readonly record struct Job(int Number);
