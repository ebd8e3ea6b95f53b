using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>Flushes that nobody waits for, and that fail without poisoning the queue.</summary>
public sealed class FlushFailureTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The thread that flushes kept damage to itself: behind one damaged header 1,936 messages were appended over 30 intervals
    /// while confirmed stood still, no call failed, and no information said a word.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Shared, true)]
    public void Interval_DamageBeforeTheTail_AppendsAreRefusedUntilAFlushSucceeds(ProducerMode mode, bool portable)
    {
        WatchedServices services = WatchedServices.Use(portable);
        using FlushGate gate = new(services);
        using MappedFileQueue queue = Open(mode, TimeSpan.FromMilliseconds(20));
        queue.Producer.Produce(new byte[100]);
        gate.WaitForFlush();
        long damaged = queue.Producer.Produce(new byte[100]);
        queue.Producer.Produce(new byte[100]);
        using var words = new StoreWords(_temp.StorePath);
        ulong header = words.HeaderAt(damaged);
        words.WriteAt(damaged, BitConverter.GetBytes(ulong.MaxValue));
        gate.Open();

        var error = Assert.IsType<QueueCorruptException>(ProduceUntilRefused(queue));

        Assert.Equal(damaged, error.Offset);
        Assert.Contains(_temp.StorePath, error.Message, StringComparison.Ordinal);
        Assert.Throws<QueueCorruptException>(() => queue.Producer.ProduceBatch([new byte[1], new byte[1]]));
        MappedFileQueueInfo info = StoreInspector.Inspect(_temp.StorePath);
        Assert.True(info.ConfirmedOffset <= damaged);
        Assert.Equal(Environment.ProcessId, info.FlushFailingProcessId);
        Assert.InRange(DateTimeOffset.UtcNow - info.FlushFailingSince!.Value, TimeSpan.Zero, TimeSpan.FromMinutes(10));
        Assert.Contains($"offset={damaged}", info.LastFlushError, StringComparison.Ordinal);
        Assert.Equal(info.LastFlushError, queue.GetInfo().LastFlushError);
        Assert.Contains("A frame is damaged", ToolRun.Of("info", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);

        words.WriteAt(damaged, BitConverter.GetBytes(header));
        Eventually.True(() => queue.GetInfo().FlushFailingSince is null, "a flush succeeds again");
        long offset = queue.Producer.Produce(new byte[100]);
        Eventually.True(() => queue.ConfirmedOffset > offset, "the message is flushed");
        Assert.Null(queue.GetInfo().LastFlushError);
    }

    /// <summary>The same for a disk error that poisons nothing: a process without a descriptor for the lock of flushes.</summary>
    [Fact]
    public void Interval_NoDescriptorForTheFlush_AppendsAreRefusedUntilThereIsOne()
    {
        var disk = new FaultyDisk();
        using MappedFileQueue queue = Open(ProducerMode.Shared, TimeSpan.FromMilliseconds(20));
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == StoreNames.FlushLock)
                throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
        };
        queue.Producer.Produce([1]);

        var error = Assert.IsType<QueueDiskException>(ProduceUntilRefused(queue));

        Assert.Equal(DiskErrors.EMFILE, error.Errno);
        disk.Before = null;
        Eventually.True(() => Record.Exception(() => queue.Producer.Produce([2])) is null, "appends go on");
        // Whoever asks for the flush itself waits for no interval.
        queue.Flush();
        Assert.Null(queue.GetInfo().FlushFailingSince);
    }

    /// <summary>
    /// No flush passes a claim. Behind one that stood still, 4,463 messages were acknowledged at this level in 5 s and none was
    /// on disk; `FlushFailingSince` stayed null, and `mfq check` counted what is not on disk up to the claim alone.
    /// </summary>
    [Fact]
    public void Interval_ClaimBeforeTheTail_IsToldAndAppendsGoOn()
    {
        using MappedFileQueue owner = Open(ProducerMode.Shared, TimeSpan.FromMilliseconds(20));
        owner.Producer.Produce([1]);
        owner.Flush();
        MessageClaim claim = owner.Producer.DangerousClaim(8);
        using MappedFileQueue queue = Open(ProducerMode.Shared, TimeSpan.FromMilliseconds(20));
        for (int i = 0; i < 20; i++)
            queue.Producer.Produce(new byte[100]);

        Eventually.True(() => queue.GetInfo().FlushFailingSince is not null, "it is told");

        // A queue that comes later has not looked for as long; its first flushes took the report back. So did each report of the
        // same, for the time of its writing.
        using (MappedFileQueue late = Open(ProducerMode.Shared, TimeSpan.FromMilliseconds(20)))
        {
            var watch = Stopwatch.StartNew();
            while (watch.ElapsedMilliseconds < 200)
                Assert.NotNull(queue.GetInfo().FlushFailingSince);
        }

        queue.Producer.Produce([2]);
        Assert.Contains("slot=", queue.GetInfo().LastFlushError, StringComparison.Ordinal);
        string check = ToolRun.Of("check", _temp.StorePath, "--max-unflushed", "1KiB", "--max-claim", "1ms").Expect(2).Text;
        Assert.Contains("not on disk, at most 1,024", check, StringComparison.Ordinal);
        claim.Publish(8);
        Eventually.True(() => queue.GetInfo().FlushFailingSince is null, "a flush succeeds again");
    }

    /// <summary>
    /// The rounds of a flush that waits at the claim, and those of rolls, flush nothing there. Each of them counted as a success
    /// and took back what another queue had told.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Flush_EndsAtTheClaim_LeavesWhatAnotherQueueTold(bool atRoll)
    {
        using MappedFileQueue owner = Open(ProducerMode.Shared, TimeSpan.FromHours(1), DurabilityLevel.PageCache);
        MessageClaim claim = owner.Producer.DangerousClaim(8);
        using (MappedFileQueue told = Open(ProducerMode.Shared, TimeSpan.FromMilliseconds(20)))
        {
            told.Producer.Produce([1]);
            Eventually.True(() => owner.GetInfo().FlushFailingSince is not null, "it is told");
        }

        int rounds = 0;
        _ = new FaultyDisk
        {
            Before = (call, name) =>
            {
                if (call == DiskCall.Lock && name == StoreNames.FlushLock)
                    Interlocked.Increment(ref rounds);
            },
        };
        using MappedFileQueue late = Open(ProducerMode.Shared, TimeSpan.FromHours(1), DurabilityLevel.PageCache);
        BackgroundCall? flush = atRoll ? null : BackgroundCall.Start(() => late.Flush());
        for (int i = 0; atRoll && i < 100; i++)
            late.Producer.Produce(new byte[10_000]);
        Eventually.True(() => Volatile.Read(ref rounds) > (atRoll ? 0 : 2), "a round has begun, or the third one");
        // It ends the thread that flushes after a roll.
        if (atRoll)
            late.Dispose();
        Assert.NotNull(owner.GetInfo().FlushFailingSince);

        claim.Publish(8);
        flush?.Join();
        owner.Flush();
        Assert.Null(owner.GetInfo().FlushFailingSince);
    }

    /// <summary>Nothing was promised: the error is shown, and appends continue.</summary>
    [Fact]
    public void PageCache_FlushOfCompleteSegmentsFails_IsShownAndAppendsGoOn()
    {
        var disk = new FaultyDisk();
        using MappedFileQueue queue = Open(ProducerMode.Shared, TimeSpan.FromHours(1), DurabilityLevel.PageCache);
        queue.Producer.Produce([1]);
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == StoreNames.FlushLock)
                throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
        };
        for (int i = 0; i < 100; i++)
            queue.Producer.Produce(new byte[10_000]);

        Eventually.True(() => queue.GetInfo().LastFlushError is not null, "the error is shown");
        queue.Producer.Produce([1]);
        disk.Before = null;
        queue.Flush();
        Assert.Null(queue.GetInfo().LastFlushError);
    }

    /// <summary>Who waits for the flush hears of it at once, as ever, and not the second time only.</summary>
    [Fact]
    public async Task Group_DamageBeforeTheTail_WaitersAreToldAtOnce()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, TimeSpan.FromHours(1), DurabilityLevel.Group);
        ProduceOptions unflushed = new() { Durability = DurabilityLevel.PageCache };
        long damaged = queue.Producer.Produce(new byte[100], unflushed);
        queue.Producer.Produce(new byte[100], unflushed);
        using var words = new StoreWords(_temp.StorePath);
        words.WriteAt(damaged, BitConverter.GetBytes(ulong.MaxValue));

        Assert.Throws<QueueCorruptException>(() => queue.Producer.Produce(new byte[100]));
        await Assert.ThrowsAsync<QueueCorruptException>(async () => await queue.Producer.ProduceAsync(new byte[100]));
        await Assert.ThrowsAsync<QueueCorruptException>(async () => await queue.Producer.FlushAsync(queue.Producer.Offset));
    }

    /// <summary>The store is gone, and with it whatever a flush could do; an append noticed only at its next roll.</summary>
    [Fact]
    public void Interval_StoreWasDeleted_AppendsAreRefused()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Windows deletes no file that is open.");
        MappedFileQueue queue = Open(ProducerMode.Shared, TimeSpan.FromMilliseconds(20));
        queue.Producer.Produce([1]);
        Directory.Delete(_temp.StorePath, recursive: true);

        Assert.IsType<QueueDeletedException>(ProduceUntilRefused(queue));
        queue.Dispose();
    }

    private static Exception? ProduceUntilRefused(MappedFileQueue queue)
    {
        Exception? error = null;
        Eventually.True(
            () => (error = Record.Exception(() => queue.Producer.Produce(new byte[100]))) is not null, "an append is refused");
        return error;
    }

    private MappedFileQueue Open(ProducerMode mode, TimeSpan interval, DurabilityLevel level = DurabilityLevel.Interval) =>
        new(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            SegmentSize = 256 * 1024,
            ProducerMode = mode,
            Durability = level,
            FlushInterval = interval,
        });
}
