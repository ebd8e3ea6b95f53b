using System.Runtime.CompilerServices;
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
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 64 * 1024 };
        using var queue = new MappedFileQueue(options);
        queue.Producer.Produce([1]);
        // The first flush opens its lock and the checkpoint, which stay open.
        queue.Flush();
        int descriptors = 0;
        List<WeakReference> ended = [];
        for (int round = 0; round < 600; round++)
        {
            ended.AddRange(OpenAndClose(queue, $"name-{round % 5}"));
            if (round == 100)
                descriptors = LocksAndCursors(store);
        }

        GC.Collect();
        // The background opens files for a moment now and then, on either look.
        Eventually.True(() => LocksAndCursors(store) <= descriptors, "no more descriptors than 500 rounds before");
        // The queue once kept all of them; the runtime may keep the last few.
        Assert.True(ended.Count(reference => reference.IsAlive) < 20, "The queue keeps what was disposed.");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static WeakReference[] OpenAndClose(MappedFileQueue queue, string name)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        using MappedFileConsumer consumer = queue.OpenConsumer(name);
        producer.Produce([2]);
        Assert.Equal(1, consumer.Consume().Length);
        consumer.Commit();
        return [new WeakReference(producer), new WeakReference(consumer)];
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
