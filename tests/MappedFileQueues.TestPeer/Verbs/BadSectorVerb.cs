using System.Globalization;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// Uses a store of which the disk cannot give a part any more, in one way, and tells in a line how far it came and what it met:
/// `count=N errno=E MESSAGE`. What it must not do is to end otherwise.
/// </summary>
internal static class BadSectorVerb
{
    public static int Run(string[] arguments)
    {
        string path = arguments[0];
        long offset = long.Parse(arguments[2], CultureInfo.InvariantCulture);
        int count = 0;
        Action action = arguments[1] switch
        {
            "open" => () => Open(path).Dispose(),
            "read" => () => Read(path, ref count),
            "consume" => () => WithQueue(path, queue => Consume(queue.Consumer, ref count)),
            "batch" => () => WithQueue(path, queue => ConsumeBatch(queue.Consumer, ref count)),
            "async" => () => WithQueue(path, queue => ConsumeAsync(queue.Consumer, ref count)),
            "name" => () => WithQueue(path, queue => queue.OpenConsumer("stays").Dispose()),
            "seek" => () => WithQueue(path, queue => queue.Consumer.AdjustOffset(offset)),
            "produce" => () => WithQueue(path, queue => queue.Producer.Produce([1, 2, 3])),
            "flush" => () => WithQueue(path, queue => queue.Flush()),
            "group" => () => WithQueue(path, queue => ConsumeReturned(queue, path, offset, ref count)),
            string other => throw new ArgumentException(other),
        };
        // Twice: what cannot be read stays so, and the place too.
        for (int round = 0; round < 2; round++)
            Console.WriteLine(Try(action, ref count));
        return 0;
    }

    private static string Try(Action action, ref int count)
    {
        count = 0;
        try
        {
            action();
            return $"count={count} errno=0 nothing";
        }
        catch (Exception error) when (error is QueueDiskException or QueueCorruptException)
        {
            int errno = error is QueueDiskException disk ? disk.Errno : 0;
            string message = error.Message.ReplaceLineEndings(" ");
            return string.Create(CultureInfo.InvariantCulture, $"count={count} errno={errno} {message}");
        }
    }

    private static MappedFileQueue Open(string path) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        Durability = DurabilityLevel.PageCache,
    });

    private static void WithQueue(string path, Action<MappedFileQueue> action)
    {
        using MappedFileQueue queue = Open(path);
        action(queue);
    }

    private static void Read(string path, ref int count)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        for (; reader.TryRead(out _); count++)
        {
        }
    }

    private static void Consume(MappedFileConsumer consumer, ref int count)
    {
        for (; consumer.TryConsume(out _); count++)
            consumer.Advance();
    }

    private static void ConsumeBatch(MappedFileConsumer consumer, ref int count)
    {
        foreach (ReadOnlySpan<byte> _ in consumer.ConsumeBatch())
            count++;
    }

    /// <summary>
    /// One member takes the first message and one far behind it. What another took in between comes back to it, when the segment
    /// has lost that.
    /// </summary>
    private static void ConsumeReturned(MappedFileQueue queue, string path, long length, ref int count)
    {
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        using (MappedFileGroupMember other = queue.OpenGroupMember("workers"))
        {
            Consume(member, 1);
            Consume(other, 4_000);
            Consume(member, 1);
            using FileStream segment = new(
                Path.Combine(path, "commitlog", $"{0:D20}.log"), FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
            segment.SetLength(length);
        }

        for (; member.TryConsume(out _); count++)
            member.Acknowledge();

        static void Consume(MappedFileGroupMember member, int count)
        {
            for (int i = 0; i < count; i++)
                member.Consume();
        }
    }

    private static void ConsumeAsync(MappedFileConsumer consumer, ref int count)
    {
        for (; ; count++)
        {
            _ = consumer.ConsumeAsync().AsTask().GetAwaiter().GetResult();
            consumer.Advance();
        }
    }
}
