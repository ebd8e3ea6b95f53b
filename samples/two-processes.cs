// Two processes on one store: this program produces, and starts itself again as the consumer. The consumer commits as it goes, so
// if it were killed, its successor would continue after the last message that it committed.
// Run it with: dotnet run samples/two-processes.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Diagnostics;
using MappedFileQueues;

const int Count = 200_000;
if (args is ["consume", string storePath])
    return Consume(storePath);

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    string path = Path.Combine(folder, "readings");
    using Process consumer = StartThisProgram("consume", path);
    using (var queue = new MappedFileQueue<Reading>(new MappedFileQueueOptions { StorePath = path }))
    {
        for (int i = 1; i <= Count; i++)
            queue.Producer.Produce(new Reading(i, i * 0.5));
    }

    consumer.WaitForExit();
    return consumer.ExitCode;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

static int Consume(string path)
{
    using var queue = new MappedFileQueue<Reading>(new MappedFileQueueOptions { StorePath = path });
    using MappedFileConsumer<Reading> consumer = queue.OpenConsumer("sum");
    double sum = 0;
    bool inOrder = true;
    for (int i = 1; i <= Count; i++)
    {
        consumer.Consume(out Reading reading);   // sleeps in the kernel while there is nothing
        inOrder &= reading.Number == i;
        sum += reading.Value;
        consumer.Commit();                       // survives the death of this process at once
    }

    Console.WriteLine($"process {Environment.ProcessId} read {Count} messages, sum {sum}, in order: {inOrder}");
    return inOrder && sum == 0.25 * Count * (Count + 1.0) ? 0 : 1;
}

static Process StartThisProgram(params string[] arguments)
{
    string program = Environment.ProcessPath!;
    string[] self = Path.GetFileNameWithoutExtension(program) == "dotnet" ? ["exec", Environment.GetCommandLineArgs()[0]] : [];
    return Process.Start(new ProcessStartInfo(program, [.. self, .. arguments]))!;
}

internal readonly record struct Reading(int Number, double Value);
