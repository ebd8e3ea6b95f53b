using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Queues;

/// <summary>What a queue holds of the process, and what outlives it: spans of other threads.</summary>
[Collection(nameof(LifetimeTests))]
[Trait("Category", "Slow")]
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

    /// <summary>
    /// A queue that was disposed while another thread had a span of it kept all its descriptors and the control page for the
    /// life of the process: 60 disposals left 3,840 descriptors, and a long run ended without memory. What the span is in is
    /// all that has to stay.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public unsafe void Dispose_SixtyTimesWithSpansAndClaimsOut_KeepsTheirSegmentsMappedAndNothingElse(ProducerMode mode)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process holds is read from /proc.");
        PlatformScope.Use(portable: false);
        const int Rounds = 60;
        using TempStore store = new();
        var options = new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 64 * 1024,
            ProducerMode = mode,
            LockTimeout = TimeSpan.Zero,
        };
        byte[] expected = Payload.Bytes(1000, 1);
        List<Action> nextCalls = [];
        nint[] spans = new nint[2 * Rounds];
        for (int round = 0; round < Rounds; round++)
        {
            var queue = new MappedFileQueue(options);
            if (round == 0)
                queue.Producer.Produce(expected);
            MappedFileConsumer consumer = queue.Consumer;
            MappedFileReader reader = MappedFileReader.Open(store.StorePath);
            spans[2 * round] = AddressOf(consumer.Consume());
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> inReader));
            spans[(2 * round) + 1] = AddressOf(inReader);
            MessageClaim claim = queue.Producer.DangerousClaim(100);
            BackgroundCall.Start(queue.Dispose).Join();
            BackgroundCall.Start(reader.Dispose).Join();

            claim.Span.Fill(1);
            bool isOrdered = false;
            try
            {
                claim.Publish(100);
            }
            catch (ProducerFencedException)
            {
                isOrdered = true;
            }

            Assert.True(isOrdered);
            nextCalls.Add(() => consumer.TryConsume(out _));
            nextCalls.Add(() => reader.TryRead(out _));
        }

        // The queue's, for span and claim, and the reader's.
        Assert.Equal(0, Descriptors(store));
        Assert.Equal(2 * Rounds, Mappings(store));
        Assert.Equal(2 * Rounds, Mappings(store, "/commitlog/"));
        Assert.All(spans, span => Assert.Equal(expected, new ReadOnlySpan<byte>((byte*)span, expected.Length)));
        Assert.All(nextCalls, call => Assert.Throws<ObjectDisposedException>(call));
        // A callback may still write where a claim was taken away.
        Assert.Equal(Rounds, Mappings(store));
        Assert.Equal(0, Descriptors(store));
    }

    /// <summary>
    /// Whoever maps a segment for writing keeps its descriptor until it is flushed, because an error of the disk is told only to
    /// descriptors that were open before. Leaders of flushes alone let go of them: a queue that consumes what others write and
    /// flush held 65, for ever.
    /// </summary>
    [Fact]
    public void Consume_ManySegments_AreKeptOpenUntilSomebodyHasFlushedThem()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process holds is read from /proc.");
        PlatformScope.Use(portable: false);
        const int Segments = 40;
        using TempStore store = new();
        var options = new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 64 * 1024,
            Durability = DurabilityLevel.PageCache,
        };
        using var consuming = new MappedFileQueue(options);
        using (StoreWords words = new(store.StorePath))
        {
            using PlatformLock? flush = words.TryLock(StoreNames.FlushLock, LockKind.Exclusive);
            Assert.NotNull(flush);
            Produce(options, Segments, flushes: false);
            Consume(consuming, Segments);
            Assert.InRange(OpenSegments(store), Segments - 1, Segments + 1);
        }

        Produce(options, Segments, flushes: true);
        Consume(consuming, Segments);
        Assert.InRange(OpenSegments(store), 1, 2);
    }

    private static void Produce(MappedFileQueueOptions options, int segments, bool flushes)
    {
        using var queue = new MappedFileQueue(options);
        for (int i = 0; i < segments * 2; i++)
            queue.Producer.Produce(Payload.Bytes(32_000, i));
        if (flushes)
            queue.Flush();
    }

    private static void Consume(MappedFileQueue queue, int segments)
    {
        for (int i = 0; i < segments * 2; i++)
        {
            Assert.Equal(32_000, queue.Consumer.Consume().Length);
            queue.Consumer.Commit();
        }
    }

    private static int OpenSegments(TempStore store) =>
        Targets(store).Count(path => path.Contains("/commitlog/", StringComparison.Ordinal));

    [Fact]
    public void OpenAndClose_HundredsOfQueues_LeaveNoDescriptorsAndMappings()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process holds is read from /proc.");
        PlatformScope.Use(portable: false);
        using TempStore store = TempStore.InMemory();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096, PrepareAhead = 0 };
        int descriptors = 0;
        int mappings = 0;
        for (int round = 0; round < 300; round++)
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

    private static int Mappings(TempStore store, string part = "") =>
        File.ReadLines("/proc/self/maps").Count(line => line.Contains(store.Root, StringComparison.Ordinal)
            && line.Contains(part, StringComparison.Ordinal));

    private static unsafe nint AddressOf(ReadOnlySpan<byte> span) =>
        (nint)Unsafe.AsPointer(ref MemoryMarshal.GetReference(span));

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
