using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Queues;

/// <summary>
/// A thread is known by its stack, and the system gives the stack of a thread that has ended to the next one. That one calls
/// under the mark of the ended thread.
/// </summary>
[Collection(nameof(LifetimeTests))]
public sealed class EndedThreadTests : IDisposable
{
    private const int Segment = 64 * 1024;
    private const int MessageLength = 20_000;

    private static readonly TimeSpan s_limit = Eventually.DefaultDeadline;

    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    /// <summary>
    /// Whoever disposed the consumer or took it over held the span for the ended thread's, and unmapped it under the eyes of
    /// the one that lived.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Consume_WithTheStackOfAnEndedThread_SpanStaysMapped(bool isTakenOver)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        Produce(10);
        using MappedFileQueue queue = Open();
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        using var hasSpan = new ManualResetEventSlim();
        using var mayEnd = new ManualResetEventSlim();
        BackgroundCall successor = StartOnStackOf(
            () =>
            {
                // So that the next message is in the segment that the reader is in: it is found without looking for the thread.
                consumer.SeekToStart();
                consumer.Consume();
            },
            () =>
            {
                Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
                hasSpan.Set();
                Assert.True(mayEnd.Wait(s_limit));
                Assert.Equal(MessageLength, message.Length);
            });
        Assert.True(hasSpan.Wait(s_limit));

        if (!isTakenOver)
            consumer.Dispose();
        for (int i = 0; isTakenOver && i < 6; i++)
        {
            consumer.Commit();
            BackgroundCall.Start(() => consumer.Consume()).Join();
        }

        bool isMapped = MappedSegments().Contains(StoreNames.Segment(0));
        mayEnd.Set();
        successor.Join();
        Assert.True(isMapped);
    }

    /// <summary>Each thread that ended with a span left its segment mapped for the life of the consumer.</summary>
    [Fact]
    public void Consume_ByThreadsThatEndWithSpans_LeavesNoSegmentsMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        const int Rounds = 50;
        Produce(4 * Rounds);
        using MappedFileQueue queue = Open();
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        for (int i = 0; i < Rounds; i++)
        {
            using var hasSpan = new ManualResetEventSlim();
            using var mayEnd = new ManualResetEventSlim();
            BackgroundCall reader = BackgroundCall.Start(() =>
            {
                consumer.Consume();
                hasSpan.Set();
                Assert.True(mayEnd.Wait(s_limit));
            });
            Assert.True(hasSpan.Wait(s_limit));
            consumer.Commit();
            mayEnd.Set();
            reader.Join();
            for (int k = 0; k < 3; k++)
                consumer.Consume();
            consumer.Commit();
        }

        Assert.InRange(MappedSegments().Count(), 1, 5);
    }

    /// <summary>
    /// A Shared producer finds a thread's lane by its stack. The successor appends on the ended thread's lane, while others that
    /// append for the first time release the lanes of ended threads.
    /// </summary>
    [Fact]
    public void Produce_WithTheStackOfAnEndedThread_WhileItsLaneIsReleased_LosesNothing()
    {
        const int Count = 40_000;
        using MappedFileQueue<long> queue = OpenShared();
        MappedFileProducer<long> producer = queue.Producer;
        int others = 0;
        BackgroundCall successor = StartOnStackOf(() => producer.Produce(-1), () =>
        {
            for (long i = 0; i < Count; i++)
                producer.Produce(i);
        });
        while (!successor.HasEnded)
        {
            BackgroundCall.Start(() => producer.Produce(-1)).Join();
            others++;
        }

        successor.Join();
        long next = 0;
        int foreign = 0;
        while (queue.Consumer.TryConsume(out long number))
        {
            if (number == -1)
                foreign++;
            else
                Assert.Equal(next++, number);
            queue.Consumer.Commit();
        }

        Assert.Equal(Count, next);
        Assert.True(foreign > others, $"{foreign} messages of {others} other threads");
    }

    /// <summary>The ended thread left a claim open: its lane stays as it is, for the Dispose that takes the claim away.</summary>
    [Fact]
    public void Produce_WithTheStackOfAThreadThatEndedInAClaim_AppendsOnALaneOfItsOwn()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = _store.StorePath,
            LockTimeout = TimeSpan.FromMilliseconds(100),
        });
        MappedFileProducer producer = queue.Producer;
        StartOnStackOf(
            () =>
            {
                if (producer.Offset >= 0)
                    producer.Produce("before"u8);
                producer.DangerousClaim(100);
            },
            () =>
            {
                long first = producer.Produce("one"u8);
                Assert.Equal(first + 16, producer.Produce("two"u8));
                MessageClaim claim = producer.DangerousClaim(8);
                Assert.Throws<InvalidOperationException>(() => producer.Produce("three"u8));
                claim.Dispose();
            }).Join();

        producer.Dispose();
        Assert.Throws<ObjectDisposedException>(() => producer.Produce("four"u8));
    }

    /// <summary>
    /// The thread took the only way to end the claim with it. A Dispose waited for it as long as LockTimeout says: without a
    /// limit for ever.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Dispose_ClaimOfAnEndedThread_IsNotWaitedFor(ProducerMode mode)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = _store.StorePath,
            ProducerMode = mode,
            LockTimeout = TimeSpan.FromSeconds(60),
        });
        MappedFileProducer producer = queue.OpenProducer();
        producer.Produce("before"u8);
        BackgroundCall.Start(() => producer.DangerousClaim(100)).Join();

        long began = Stopwatch.GetTimestamp();
        producer.Dispose();

        Assert.InRange(Stopwatch.GetElapsedTime(began), TimeSpan.Zero, TimeSpan.FromSeconds(20));
        using MappedFileProducer next = queue.OpenProducer();
        next.Produce("behind"u8);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        Assert.Equal("before"u8, consumer.Consume());
        consumer.Commit();
        Assert.Equal("behind"u8, consumer.Consume());
    }

    /// <summary>
    /// The system divided the stack of an ended thread among smaller ones. Two of them called under its mark at once, and the
    /// first to end its call ended the other's too: a Dispose in between unmapped what that one was writing to.
    /// </summary>
    [Fact]
    public void CallMark_StackOfAnEndedThreadIsDividedAmongNewOnes_KnowsOneOfThem()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Where a stack ends is read from /proc.");
        const int GuardPage = 4096;
        nint firstFrames = 0;
        var thread = new Thread(() => firstFrames = EndOfStack() - Here(), maxStackSize: 256 * 1024);
        thread.Start();
        thread.Join();

        Assert.InRange(CallMark.StackLength, 1024u, (nuint)(GuardPage + firstFrames));
    }

    /// <summary>
    /// A damage handler let another thread read. The message that the handler's own call returned then passed for that thread's,
    /// and a Dispose unmapped it under the eyes of its reader.
    /// </summary>
    [Fact]
    public void Consume_DamageHandlerLetsAnotherThreadRead_SpanStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        Produce(3);
        DamageFirst();
        using MappedFileQueue queue = Open();
        MappedFileConsumer consumer = OpenSkipping(queue);
        int handled = 0;
        queue.CorruptionSkipped += (_, _) =>
        {
            handled++;
            BackgroundCall.Start(() => consumer.Consume()).Join();
        };
        ReadOnlySpan<byte> message = consumer.Consume();

        BackgroundCall.Start(consumer.Dispose).Join();

        Assert.Equal(1, handled);
        Assert.Contains(StoreNames.Segment(0), MappedSegments());
        Assert.Equal(MessageLength, message.Length);
    }

    /// <summary>The asynchronous call owns the reader. The handler's own call read on beside it, on another thread.</summary>
    [Fact]
    public async Task Consume_DamageHandlerBeginsAnAsynchronousCall_LeavesItTheReader()
    {
        Produce(2);
        DamageFirst();
        using MappedFileQueue queue = Open();
        using MappedFileConsumer consumer = OpenSkipping(queue);
        ValueTask<ReadOnlyMemory<byte>> pending = default;
        queue.CorruptionSkipped += (_, _) =>
        {
            consumer.Consume();
            consumer.Commit();
            pending = consumer.ConsumeAsync();
        };

        Assert.Throws<InvalidOperationException>(() => consumer.TryConsume(out _));

        queue.Producer.Produce("last"u8);
        Assert.Equal("last"u8.ToArray(), (await pending).ToArray());
    }

    /// <summary>Calls one thing on a thread, which ends, and starts another on a thread that got its stack.</summary>
    private static BackgroundCall StartOnStackOf(Action ended, Action call)
    {
        const int TriesMax = 200;
        for (int i = 0; i < TriesMax; i++)
        {
            nint stack = 0;
            BackgroundCall.Start(() =>
            {
                stack = Here();
                ended();
            }).Join();
            using var isKnown = new ManualResetEventSlim();
            bool isSame = false;
            BackgroundCall successor = BackgroundCall.Start(() =>
            {
                isSame = Math.Abs(Here() - stack) < 256;
                isKnown.Set();
                if (isSame)
                    Deeper(call);
            });
            Assert.True(isKnown.Wait(s_limit));
            if (isSame)
                return successor;
            successor.Join();
        }

        throw new InvalidOperationException("No thread got the stack of one that had ended.");
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static unsafe nint Here()
    {
        byte here;
        return (nint)(&here);
    }

    /// <summary>Below where the ended thread called: so far up its stack is not known.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static unsafe void Deeper(Action call)
    {
        byte* pad = stackalloc byte[512];
        pad[0] = 1;
        call();
        pad[1] = 1;
    }

    /// <summary>The end of the mapping that this thread's stack is in.</summary>
    private static nint EndOfStack()
    {
        nint here = Here();
        foreach (string line in File.ReadLines("/proc/self/maps"))
        {
            string[] ends = line.Split(' ')[0].Split('-');
            nint end = nint.Parse(ends[1], NumberStyles.HexNumber, CultureInfo.InvariantCulture);
            if (here < end && here >= nint.Parse(ends[0], NumberStyles.HexNumber, CultureInfo.InvariantCulture))
                return end;
        }

        throw new InvalidOperationException("No mapping holds the stack.");
    }

    private void DamageFirst()
    {
        using var words = new StoreWords(_store.StorePath);
        words.WriteAt(2 * FrameHeader.Size, 0xFF);
    }

    private static MappedFileConsumer OpenSkipping(MappedFileQueue queue) =>
        queue.OpenConsumer("c", new ConsumerOptions { Corruption = CorruptionPolicy.SkipMessage });

    /// <summary>By a queue of its own, which ends: a producer has segments mapped too.</summary>
    private void Produce(int count)
    {
        using MappedFileQueue queue = Open();
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(new byte[MessageLength]);
    }

    private MappedFileQueue<long> OpenShared() => new(new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        SegmentSize = Segment,
        ProducerMode = ProducerMode.Shared,
        Durability = DurabilityLevel.PageCache,
    });

    private IEnumerable<string> MappedSegments() => File.ReadLines("/proc/self/maps")
        .Select(line => line.IndexOf(_store.StorePath, StringComparison.Ordinal) is >= 0 and var at
            ? line[(at + _store.StorePath.Length + 1)..]
            : "")
        .Where(name => name.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal));

    private MappedFileQueue Open() => new(new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        SegmentSize = Segment,
        ProducerMode = ProducerMode.Exclusive,
    });
}
