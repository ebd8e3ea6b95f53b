// A queue of structs in one process: append, read, commit; then open it again and continue where the consumer stood.
// Run it with: dotnet run samples/struct-queue.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using MappedFileQueues;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    var options = new MappedFileQueueOptions { StorePath = Path.Combine(folder, "ticks") };
    long total = 0;
    using (var queue = MappedFileQueue.Create<Tick>(options))
    {
        queue.Producer.Produce(new Tick(Instrument: 7, Price: 101.25, Volume: 300));
        queue.Producer.ProduceBatch([new Tick(7, 101.5, 200), new Tick(8, 55.0, 100)]);   // readable all at once

        queue.Consumer.Consume(out Tick tick);   // waits until there is one
        Console.WriteLine($"{tick.Volume} at {tick.Price}");
        queue.Consumer.Commit();                 // done: nobody gets it again under this name
        total += tick.Volume;

        queue.Consumer.Consume(out _);           // read, but not committed before the queue is closed
    }

    using (var queue = new MappedFileQueue<Tick>(options))
    {
        while (queue.Consumer.TryConsume(out Tick tick))   // does not wait
        {
            Console.WriteLine($"{tick.Volume} at {tick.Price}");
            queue.Consumer.Commit();
            total += tick.Volume;
        }

        long confirmed = queue.Flush();          // from here on a power loss loses none of them either
        Console.WriteLine($"flushed up to offset {confirmed}, total volume {total}");
    }

    return total == 600 ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

/// <summary>Any struct without references is a message.</summary>
internal readonly record struct Tick(int Instrument, double Price, long Volume);
