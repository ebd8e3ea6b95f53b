using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `open attach|produce|read STORE`: opens a store of messages as this process's user and prints `OK` with the number of
/// messages that it read, or `ERROR` with the exception's name, its errno and what it says.
/// `first-append STORE SEGMENT`: opens or makes the store, appends one message, prints the milliseconds that the two took, by
/// the clock and of processor time.
/// </summary>
internal static class OpenVerb
{
    public static int Open(string[] arguments)
    {
        try
        {
            int count = arguments[0] switch
            {
                "read" => Read(arguments[1]),
                "produce" => Produce(arguments[1]),
                _ => Attach(arguments[1]),
            };
            Console.WriteLine($"OK {count}");
        }
        catch (MappedFileQueueException error)
        {
            int errno = error is QueueDiskException disk ? disk.Errno : 0;
            Console.WriteLine($"ERROR {error.GetType().Name} {errno} {error.Message}");
        }

        return 0;
    }

    public static int FirstAppend(string[] arguments)
    {
        var options = new MappedFileQueueOptions
        {
            StorePath = arguments[0],
            SegmentSize = long.Parse(arguments[1], CultureInfo.InvariantCulture),
        };
        TimeSpan usedBefore = Environment.CpuUsage.TotalTime;
        long began = Stopwatch.GetTimestamp();
        using MappedFileQueue queue = new(options);
        queue.Producer.Produce("first"u8);
        double milliseconds = Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        double used = (Environment.CpuUsage.TotalTime - usedBefore).TotalMilliseconds;
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{milliseconds:F3} {used:F3}"));
        return 0;
    }

    private static int Read(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        int count = 0;
        while (reader.TryRead(out ReadOnlySpan<byte> _))
            count++;
        return count;
    }

    private static int Produce(string path)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = path, DangerouslyAllowFileSystem = true });
        queue.Producer.Produce("one"u8);
        queue.Flush();
        return Count(queue.OpenConsumer("counter"));
    }

    private static int Attach(string path)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = path });
        return Count(queue.OpenConsumer("counter"));
    }

    private static int Count(MappedFileConsumer consumer)
    {
        int count = 0;
        while (consumer.TryConsume(out ReadOnlySpan<byte> _))
        {
            count++;
            consumer.Commit();
        }

        return count;
    }
}
