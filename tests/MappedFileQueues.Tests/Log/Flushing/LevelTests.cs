using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>What each level promises about the durable offset, on every kind, mode and platform.</summary>
[Trait("Category", "Slow")]
public sealed class LevelTests
{
    private static readonly TimeSpan s_interval = TimeSpan.FromMilliseconds(50);

    public static TheoryData<bool, ProducerMode, bool> Cases => LevelCase.All;

    [Theory]
    [MemberData(nameof(Cases))]
    public void Produce_PageCache_ConfirmsNothingBeforeFlush(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.PageCache);

        long offset = queue.Producer.Produce(1);

        Assert.True(queue.Producer.ConfirmedOffset <= offset);
        Assert.Equal(0, test.Services.SegmentFlushes);
        Assert.True(queue.Flush() > offset);
        Assert.True(queue.Producer.ConfirmedOffset > offset);
        Assert.Equal(1, test.Services.SegmentFlushes);
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Produce_Group_ConfirmsBeforeItReturns(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group);
        for (int i = 0; i < 5; i++)
        {
            long offset = queue.Producer.Produce(i);
            Assert.True(queue.Producer.ConfirmedOffset > offset);
        }

        long first = queue.Producer.ProduceBatch(5, 6, 7);
        Assert.Equal(queue.Producer.Offset, queue.Producer.ConfirmedOffset);
        Assert.True(queue.Producer.ConfirmedOffset > first);
        Assert.Equal(Enumerable.Range(0, 8).Select(number => (long)number), queue.Consumer.Take(8));
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Produce_Group_GoesOnOverRolls(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group, options => options.SegmentSize = 4096);
        long[] numbers = [.. Enumerable.Range(0, 200).Select(number => (long)number)];
        foreach (long number in numbers)
            Assert.True(queue.Producer.Produce(number) < queue.Producer.ConfirmedOffset);
        Assert.Equal(numbers, queue.Consumer.Take(numbers.Length));
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Produce_Interval_IsConfirmedByItselfAndThenNothingIsFlushed(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Interval, options => options.FlushInterval = s_interval);

        long offset = queue.Producer.Produce(1);

        Eventually.True(() => queue.Producer.ConfirmedOffset > offset, "the interval's flush confirms the message");
        int flushes = test.Services.SegmentFlushes;
        // What is tested is that nothing happens, so time has to go by; it is never too short for a correct queue.
        long began = Stopwatch.GetTimestamp();
        Eventually.True(() => Stopwatch.GetElapsedTime(began) > 6 * s_interval, "six intervals pass");
        Assert.Equal(flushes, test.Services.SegmentFlushes);
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Interval_ConsumerOnly_FlushesWhatAnotherQueueWrote(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using QueueUnderTest writer = test.Open(DurabilityLevel.PageCache);
        long offset = writer.Producer.Produce(1);

        using QueueUnderTest reader = test.Open(DurabilityLevel.Interval, options => options.FlushInterval = s_interval);

        Eventually.True(() => writer.Producer.ConfirmedOffset > offset, "the other queue's interval confirms the message");
    }

    /// <summary>
    /// The flush of completed segments, which comes once a second, counted as a recent flush. A message that was published just
    /// after the roll waited for a second longer than an interval of two seconds or more.
    /// </summary>
    /// <param name="confirmed">What is durable, in segments of 1000.</param>
    /// <param name="seenConfirmed">At the last look.</param>
    /// <param name="seenLimit">The end of the tail's segment at the last look.</param>
    /// <param name="logStart">What was removed.</param>
    /// <param name="isRecent">Whether the next look is early enough.</param>
    [Theory]
    [InlineData(1500, 1500, 2000, 0, false)]
    [InlineData(1500, 1400, 2000, 0, true)]
    [InlineData(2000, 1400, 3000, 0, false)]
    [InlineData(2000, 1400, 2000, 0, true)]
    [InlineData(2000, 1400, 3000, 2000, false)]
    [InlineData(3000, 1400, 3000, 3000, true)]
    [InlineData(2500, 1400, 3000, 2000, true)]
    public void Interval_ConfirmedHasMoved_CountsAsAFlushWhereTheTailWasFlushed(
        long confirmed, long seenConfirmed, long seenLimit, long logStart, bool isRecent) =>
        Assert.Equal(isRecent, FlushEngine.IsRecent(confirmed, seenConfirmed, seenLimit, logStart, segmentLength: 1000));

    [Theory]
    [InlineData(DurabilityLevel.PageCache, false)]
    [InlineData(DurabilityLevel.Interval, true)]
    [InlineData(DurabilityLevel.Group, true)]
    public void Dispose_Level_FlushesWhereTheLevelPromisesIt(DurabilityLevel level, bool flushes)
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        long end;
        // No interval ends before the queue does.
        using (QueueUnderTest queue = test.Open(level, options => options.FlushInterval = Timeout.InfiniteTimeSpan))
        {
            queue.Producer.Produce(1, new ProduceOptions { Durability = DurabilityLevel.PageCache });
            end = queue.Producer.Offset;
            Assert.True(queue.Producer.ConfirmedOffset < end);
        }

        Assert.Equal(flushes, ReadConfirmed(test.Store) == end);
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Produce_LevelOfTheCall_Counts(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using (QueueUnderTest queue = test.Open(DurabilityLevel.PageCache, options => options.FlushInterval = s_interval))
        {
            long first = queue.Producer.Produce(1, new ProduceOptions { Durability = DurabilityLevel.Group });
            Assert.True(queue.Producer.ConfirmedOffset > first);
            long second = queue.Producer.Produce(2, new ProduceOptions { Durability = DurabilityLevel.Interval });
            Eventually.True(() => queue.Producer.ConfirmedOffset > second, "a call at Interval starts its flushes");
        }

        using (QueueUnderTest queue = test.Open(DurabilityLevel.Group))
        {
            int flushes = test.Services.SegmentFlushes;
            long third = queue.Producer.Produce(3, new ProduceOptions { Durability = DurabilityLevel.PageCache });
            Assert.True(queue.Producer.ConfirmedOffset <= third);
            Assert.Equal(flushes, test.Services.SegmentFlushes);
        }
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Produce_ForceFlushCount_FlushesEachTime(bool structs, ProducerMode mode, bool portable)
    {
        using LevelCase test = new(structs, mode, portable);
        using QueueUnderTest queue = test.Open(
            DurabilityLevel.PageCache, options => options.ProducerForceFlushIntervalCount = 3);
        for (int i = 1; i <= 9; i++)
        {
            long offset = queue.Producer.Produce(i);
            Assert.Equal(i % 3 == 0, queue.Producer.ConfirmedOffset > offset);
        }

        Assert.Equal(3, test.Services.SegmentFlushes);
        queue.Producer.ProduceBatch(10, 11, 12);
        Assert.Equal(queue.Producer.Offset, queue.Producer.ConfirmedOffset);
    }

    [Theory]
    [InlineData(DurabilityLevel.Group, true, true)]
    [InlineData(DurabilityLevel.Group, false, false)]
    [InlineData(DurabilityLevel.Interval, true, false)]
    public void Prepare_Level_WritesAheadWhereFlushesHaveToBeQuick(DurabilityLevel level, bool byWriting, bool writes)
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        using QueueUnderTest queue = test.Open(level, options => options.PreallocateByWriting = byWriting);
        queue.Producer.Prepare(100_000);
        Assert.Equal(writes, test.Services.SegmentFlushes > 0);
        Assert.Equal(0, queue.Producer.ConfirmedOffset);
        queue.Producer.Produce(1);
        Assert.Equal([1], queue.Consumer.Take(1));
    }

    [Fact]
    public void Prepare_SyncAheadFails_TheQueueIsPoisoned()
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        using QueueUnderTest queue = test.Open(DurabilityLevel.Group, options =>
        {
            // Longer than the first room, which the preparer sees to by itself, before the fault or after it.
            options.SegmentSize = 1 << 20;
            options.PreallocateByWriting = true;
        });
        test.Services.OnSegmentFlush = _ => throw new QueueDiskException("by the test", DiskErrors.EIO, "-");
        // This call meets the error itself, or the preparer's thread was faster.
        Exception? error = Record.Exception(() => queue.Producer.Prepare(600_000));
        Assert.True(error is QueueDiskException or QueuePoisonedException, $"{error}");
        Assert.Throws<QueuePoisonedException>(() => queue.Producer.Produce(1));
    }

    [Theory]
    [InlineData(-1.0)]
    [InlineData(0.0)]
    public void Options_FlushIntervalOutOfRange_IsRefused(double seconds)
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        Assert.Throws<ArgumentOutOfRangeException>(() =>
            test.Open(DurabilityLevel.Interval, options => options.FlushInterval = TimeSpan.FromSeconds(seconds)).Dispose());
    }

    [Fact]
    public void Produce_OptionsOutOfRange_AppendsNothing()
    {
        using LevelCase test = new(structs: true, ProducerMode.Shared, portable: false);
        using QueueUnderTest queue = test.Open(DurabilityLevel.PageCache);
        Assert.Throws<ArgumentOutOfRangeException>(() =>
            queue.Producer.Produce(1, new ProduceOptions { Durability = (DurabilityLevel)7 }));
        Assert.Throws<ArgumentOutOfRangeException>(() =>
            queue.Producer.Produce(1, new ProduceOptions { Timeout = TimeSpan.FromSeconds(-2) }));
        Assert.Equal(0, queue.Producer.Offset);
    }

    private static long ReadConfirmed(TempStore store)
    {
        using FileStream control = new(store.PathOf(StoreNames.Control), FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
        control.Position = ControlLayout.DurableAt;
        Span<byte> word = stackalloc byte[8];
        control.ReadExactly(word);
        return BitConverter.ToInt64(word);
    }
}
