// Many processes on one store: three that produce, two that want the same consumer's name. The one that has it is killed in the
// middle; the other one takes over where it last committed.
// Run it with: dotnet run samples/many-processes.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Diagnostics;
using MappedFileQueues;

const int Count = 60_000;
const int ProducerCount = 3;
if (args is ["produce", string producerPath, string first])
    return Produce(producerPath, int.Parse(first));
if (args is ["work", string workerPath])
    return await Work(workerPath);

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "jobs");
    Process[] workers = [StartThisProgram("work", path), StartThisProgram("work", path)];
    List<Process> producers = [StartThisProgram("produce", path, "0"), StartThisProgram("produce", path, "1")];
    using var queue = new MappedFileQueue<Job>(new MappedFileQueueOptions { StorePath = path });
    int holder;
    while ((holder = FindHolder(queue, workers)) < 0)
        await Task.Delay(1);
    workers[holder].Kill();   // SIGKILL
    producers.Add(StartThisProgram("produce", path, "2"));

    foreach (Process producer in producers)
        producer.WaitForExit();
    queue.Producer.Produce(Job.End);
    Process survivor = workers[1 - holder];
    survivor.WaitForExit();
    long lag = queue.GetInfo().Consumers.Single().Lag;
    Console.WriteLine($"worker {workers[holder].Id} was killed, worker {survivor.Id} went on; {lag} bytes are left");
    return lag == 0 ? survivor.ExitCode : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

// Any number of threads and processes may do this at once.
static int Produce(string path, int first)
{
    using var queue = new MappedFileQueue<Job>(new MappedFileQueueOptions { StorePath = path });
    for (int number = first; number < Count; number += ProducerCount)
        queue.Producer.Produce(new Job(number));
    return 0;
}

static async Task<int> Work(string path)
{
    var last = new long[] { -1, -1, -1 };
    using var queue = new MappedFileQueue<Job>(new MappedFileQueueOptions { StorePath = path });
    using MappedFileConsumer<Job> consumer = await queue.OpenConsumerAsync("work");   // waits while another process has the name
    while (await consumer.WaitToConsumeAsync())
    {
        consumer.TryConsume(out Job job);
        if (job.Equals(Job.End))
            break;
        ref long before = ref last[job.Number % ProducerCount];
        if (before >= 0 && job.Number != before + ProducerCount)
            return 1;              // each producer's messages stay in order, and none is missing
        before = job.Number;
        consumer.Commit();         // a process that dies before this line gives the job to its successor again
    }

    consumer.Commit();
    return last[2] == Count - 1 ? 0 : 1;   // the third producer came after the kill
}

// Whoever wants a name that another process has is told who that is.
static int FindHolder(MappedFileQueue<Job> queue, Process[] workers)
{
    if (queue.GetInfo().Consumers.SingleOrDefault() is not { Offset: > 0 })
        return -1;   // nobody has worked yet
    try
    {
        queue.OpenConsumer("work").Dispose();
        return -1;
    }
    catch (QueueInUseException inUse)
    {
        return Array.FindIndex(workers, worker => inUse.HolderProcessIds.Contains(worker.Id));
    }
}

static Process StartThisProgram(params string[] arguments)
{
    string program = Environment.ProcessPath!;
    string[] self = Path.GetFileNameWithoutExtension(program) == "dotnet" ? ["exec", Environment.GetCommandLineArgs()[0]] : [];
    return Process.Start(new ProcessStartInfo(program, [.. self, .. arguments]))!;
}

internal readonly record struct Job(int Number)
{
    public static Job End => new(-1);
}
