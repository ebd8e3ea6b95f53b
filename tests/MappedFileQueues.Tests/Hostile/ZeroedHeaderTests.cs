using MappedFileQueues.Memory;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// The header at which a producer's thread stands is zeroed by damage while the thread is idle and others have long published
/// there. To the thread it looked like free room: it claimed, and its payload went over messages that others had written.
/// </summary>
public sealed unsafe class ZeroedHeaderTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>An interval's flush has passed the idle thread's place.</summary>
    [Fact]
    public void Produce_IdleWhileOthersWereFlushed_RefusesAndOverwritesNothing()
    {
        using MappedFileQueue idle = Open(DurabilityLevel.Interval);
        idle.Producer.Produce([1]);
        using MappedFileQueue busy = Open(DurabilityLevel.PageCache);
        long place = ProduceZeros(busy, 50);
        // Twice: the thread that confirms has then ended what it does after the first time.
        for (int i = 0; i < 2; i++)
        {
            long last = ProduceZeros(busy, 1);
            Eventually.True(() => idle.ConfirmedOffset > last, "the interval's flush confirms the message");
        }

        RefusesAt(place, () => idle.Producer.Produce(new byte[300]));
        RefusesAt(place, () => idle.Producer.ProduceBatch([new byte[20], new byte[20]]));
    }

    /// <summary>Nothing was flushed, but the thread's last message before the pause had woken a reader.</summary>
    [Fact]
    public void Produce_IdleSinceItWokeAReader_RefusesAndOverwritesNothing()
    {
        using MappedFileQueue idle = Open(DurabilityLevel.PageCache);
        using MappedFileQueue busy = Open(DurabilityLevel.PageCache);
        using MappedFileConsumer consumer = idle.OpenConsumer("reader");
        using var words = new StoreWords(_temp.StorePath);
        idle.Producer.Produce([1]);
        consumer.Consume();
        consumer.Commit();
        BackgroundCall read = BackgroundCall.Start(() => consumer.Consume());
        Eventually.True(() => words.WaiterFlag != 0, "the reader is about to sleep");
        idle.Producer.Produce([2]);
        read.Join();
        long place = busy.Producer.Produce([3, 3, 3]);
        busy.Producer.Produce([4, 4, 4]);

        RefusesAt(place, () => idle.Producer.Produce(new byte[300]));
    }

    /// <summary>The damage lies behind frames of others that the thread walks over.</summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Produce_DamageBehindOthersFrames_RefusesAndOverwritesNothing(bool flushed)
    {
        using MappedFileQueue idle = Open(DurabilityLevel.PageCache);
        idle.Producer.Produce([1]);
        using MappedFileQueue busy = Open(DurabilityLevel.PageCache);
        busy.Producer.Produce([2]);
        long place = flushed ? ProduceZeros(busy, 20) : busy.Producer.Produce([3]);
        busy.Producer.Produce([4]);
        if (flushed)
            busy.Flush();

        RefusesAt(place, () => idle.Producer.Produce(new byte[300]));
    }

    /// <summary>A thread that comes new is at the tail hint, below what was flushed.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Produce_NewProducerBelowConfirmed_RefusesAndOverwritesNothing(ProducerMode mode)
    {
        using MappedFileQueue busy = Open(DurabilityLevel.PageCache);
        long place = ProduceZeros(busy, 20);
        busy.Flush();
        busy.Producer.Dispose();
        using var words = new StoreWords(_temp.StorePath);
        Assert.Equal(place, words.TailHint);

        RefusesAt(place, () =>
        {
            using MappedFileQueue late = Open(DurabilityLevel.PageCache, mode);
            late.Producer.Produce(new byte[300]);
        });
    }

    /// <summary>
    /// Nothing but the tail hint told a consumer, and nothing but the last checkpoint a reader, that a zeroed header is damage.
    /// Both may be far below what is flushed: a consumer waited for ever, and `mfq export` ended there and said that all was
    /// well.
    /// </summary>
    [Fact]
    public void Consume_HeaderBelowConfirmedZeroed_IsDamage()
    {
        using MappedFileQueue queue = Open(DurabilityLevel.PageCache);
        ProduceZeros(queue, 5);
        queue.Flush();
        long place = ProduceZeros(queue, 10);
        queue.Flush();
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        using var words = new StoreWords(_temp.StorePath);
        words.WriteAt(place, new byte[sizeof(ulong)]);
        for (int i = 0; i < 5; i++)
        {
            Assert.True(reader.TryRead(out _));
            Assert.True(consumer.TryConsume(out _));
            consumer.Commit();
        }

        Assert.Equal(place, Assert.Throws<QueueCorruptException>(() => consumer.TryConsume(out _)).Offset);
        Assert.Equal(place, Assert.Throws<QueueCorruptException>(() => reader.TryRead(out _)).Offset);
    }

    /// <summary>Below the tail hint, which a walker has reached, and above all that was flushed.</summary>
    [Fact]
    public void Export_HeaderBelowTheTailHintZeroed_IsAnError()
    {
        using MappedFileQueue queue = Open(DurabilityLevel.PageCache);
        long place = ProduceZeros(queue, 1);
        using var words = new StoreWords(_temp.StorePath);
        while (words.TailHint <= place)
            queue.Producer.Produce(new byte[10_000]);
        words.WriteAt(place, new byte[sizeof(ulong)]);

        ToolRun.Of("export", _temp.StorePath, "--to", _temp.StorePath + ".jsonl").ExpectError($"offset={place}", "mfq verify");
    }

    private static long ProduceZeros(MappedFileQueue queue, int count)
    {
        long first = queue.Producer.Produce(new byte[24]);
        for (int i = 1; i < count; i++)
            queue.Producer.Produce(new byte[24]);
        return first;
    }

    /// <summary>Zeroes the header there, and expects an append to say so and to leave what is after it.</summary>
    private void RefusesAt(long place, Action append)
    {
        using var words = new StoreWords(_temp.StorePath);
        words.WriteAt(place, new byte[sizeof(ulong)]);
        byte[] before = words.BytesAt(0, 4096);

        QueueCorruptException error = Assert.Throws<QueueCorruptException>(append);

        Assert.Equal(place, error.Offset);
        Assert.Equal(before, words.BytesAt(0, 4096));
    }

    private MappedFileQueue Open(DurabilityLevel level, ProducerMode mode = ProducerMode.Shared) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = 1 << 20,
        ProducerMode = mode,
        Durability = level,
        FlushInterval = TimeSpan.FromMilliseconds(20),
        ConsumerSpinWaitDuration = TimeSpan.Zero,
    });
}
