// Replay from a time: each message has the time in its headers, so "yesterday from 14:00 on" is found without reading what is
// before it.
// Run it with: dotnet run samples/replay-from-time.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Diagnostics;
using MappedFileQueues;

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    using var queue = new MappedFileQueue<Reading>(new MappedFileQueueOptions
    {
        StorePath = Path.Combine(folder, "readings"),
        StampTime = true,                      // each message gets the time at which it is appended, unless it has one
    });

    // Two days, a reading every 100 ms. They get their own times here; a program that appends as it measures needs none.
    DateTimeOffset today = new(DateTime.UtcNow.Date, TimeSpan.Zero);
    DateTimeOffset start = today.AddDays(-2);
    var headers = new MessageHeaders();
    const int CountADay = 10 * 60 * 60 * 24;
    for (int i = 0; i < 2 * CountADay; i++)
    {
        headers.Time = start.AddMilliseconds(100.0 * i);
        queue.Producer.Produce(new Reading(i), new ProduceOptions { Headers = headers });
    }

    queue.Flush();                             // the index of times follows what is on disk
    DateTimeOffset from = today.AddDays(-1).AddHours(14);
    long began = Stopwatch.GetTimestamp();
    long offset = queue.FindOffset(from);
    TimeSpan took = Stopwatch.GetElapsedTime(began);
    Console.WriteLine($"{from:u}: offset {offset} of {queue.GetInfo().PublishedOffset}, found in {took.TotalMilliseconds:F1} ms");

    // A reader leaves no trace; a consumer with a name keeps its place.
    using MappedFileReader<Reading> reader = queue.OpenReader(QueueStart.FromOffset(offset));
    int count = 0;
    while (reader.TryRead(out _))
    {
        if (count++ == 0)
            Console.WriteLine($"the first one is of {reader.Headers!.Time:O}");
    }

    using MappedFileConsumer<Reading> consumer = queue.OpenConsumer("replay", QueueStart.FromTime(from));
    consumer.Consume(out Reading first);
    consumer.Seek(QueueStart.FromTime(today.AddHours(-1)));   // an hour before midnight
    consumer.Consume(out Reading later);
    Console.WriteLine($"{count} readings from then on; the replay begins with number {first.Number}, later {later.Number}");
    return count == CountADay * 10 / 24 && first.Number == 2 * CountADay - count && later.Number == 2 * CountADay - CountADay / 24
        ? 0
        : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

internal readonly record struct Reading(int Number);
