using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>What a queue holds of the process, and what outlives it: spans of other threads.</summary>
[Collection(nameof(LifetimeTests))]
public sealed class LifetimeTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Dispose_FromAnotherThread_SpansThatAreOutStayReadable(bool portable)
    {
        PlatformScope.Use(portable);
        for (int round = 0; round < 20; round++)
        {
            using TempStore store = new();
            var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 64 * 1024 };
            byte[] expected = Payload.Bytes(60_000, round);
            var queue = new MappedFileQueue(options);
            queue.Producer.Produce(expected);
            MappedFileConsumer consumer = queue.Consumer;
            using MappedFileReader reader = MappedFileReader.Open(store.StorePath);

            ReadOnlySpan<byte> span = consumer.Consume();
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> inReader));
            BackgroundCall.Start(queue.Dispose).Join();
            BackgroundCall.Start(reader.Dispose).Join();
            MappedFileQueue.Delete(store.StorePath);

            Assert.Equal(expected, span);
            Assert.Equal(expected, inReader);
            Assert.Throws<ObjectDisposedException>(() => consumer.Consume());
            Assert.Throws<ObjectDisposedException>(() => reader.TryRead(out _));
        }
    }

    [Fact]
    public void OpenAndClose_FiveThousandQueues_LeaveNoDescriptorsAndMappings()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process holds is read from /proc.");
        PlatformScope.Use(portable: false);
        using TempStore store = Directory.Exists("/dev/shm") ? new TempStore("/dev/shm") : new TempStore();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096, PrepareAhead = 0 };
        int descriptors = 0;
        int mappings = 0;
        for (int round = 0; round < 5_000; round++)
        {
            using (var queue = new MappedFileQueue(options))
            {
                if (round % 20 == 0)
                    queue.Producer.Produce([1, 2, 3]);
                if (round % 20 == 0)
                    Assert.Equal(3, queue.Consumer.Consume().Length);
            }

            if (round == 100)
                (descriptors, mappings) = (Descriptors(store), Mappings(store));
        }

        Assert.Equal(descriptors, Descriptors(store));
        Assert.Equal(mappings, Mappings(store));
        Assert.Equal(0, descriptors + mappings);
    }

    [Fact]
    public void OpenAndClose_ProducersAndConsumersOfOneQueue_LeaveNothing()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process holds is read from /proc.");
        PlatformScope.Use(portable: false);
        using TempStore store = new();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 64 * 1024 });
        queue.Producer.Produce([1]);
        int descriptors = 0;
        long memory = 0;
        for (int round = 0; round < 600; round++)
        {
            using MappedFileProducer producer = queue.OpenProducer();
            using MappedFileConsumer consumer = queue.OpenConsumer($"name-{round % 5}");
            producer.Produce([2]);
            consumer.Take(1);
            if (round is 100 or 599)
            {
                GC.Collect();
                (descriptors, memory) = round == 100
                    ? (LocksAndCursors(store), GC.GetTotalMemory(forceFullCollection: true))
                    : (LocksAndCursors(store) - descriptors, GC.GetTotalMemory(forceFullCollection: true) - memory);
            }
        }

        Assert.True(descriptors <= 0, $"{descriptors} descriptors more");
        // 500 rounds that each left an object or two of a queue behind would be megabytes; other tests run beside this one.
        Assert.True(memory < 32 << 20, $"{memory} bytes more");
    }

    private static int Descriptors(TempStore store) => Targets(store).Count();

    /// <summary>Segments are kept open until they are flushed, and made ahead, so their number says nothing.</summary>
    private static int LocksAndCursors(TempStore store) =>
        Targets(store).Count(path => !path.Contains("/commitlog/", StringComparison.Ordinal));

    private static IEnumerable<string> Targets(TempStore store) =>
        Directory.EnumerateFileSystemEntries("/proc/self/fd").Select(Target)
            .Where(path => path.StartsWith(store.Root, StringComparison.Ordinal));

    private static int Mappings(TempStore store) =>
        File.ReadLines("/proc/self/maps").Count(line => line.Contains(store.Root, StringComparison.Ordinal));

    /// <summary>Empty for a descriptor that was closed since the listing.</summary>
    private static string Target(string path)
    {
        try
        {
            return new FileInfo(path).LinkTarget ?? "";
        }
        catch (IOException)
        {
            return "";
        }
    }
}

internal static class LifetimeConsumerExtensions
{
    public static void Take(this MappedFileConsumer consumer, int count)
    {
        for (int i = 0; i < count; i++)
        {
            consumer.Consume();
            consumer.Commit();
        }
    }
}
