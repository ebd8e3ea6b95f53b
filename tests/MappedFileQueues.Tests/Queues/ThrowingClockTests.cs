namespace MappedFileQueues.Tests.Queues;

/// <summary>The story: a user's clock threw. On the queue's own threads nobody caught that, and the process ended.</summary>
public sealed class ThrowingClockTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void OwnThreads_ClockThrows_FlushRemoveAndSaveAllTheSame()
    {
        BrokenTime time = new();
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            SegmentSize = 64 * 1024,
            Durability = DurabilityLevel.Interval,
            FlushInterval = TimeSpan.FromMilliseconds(20),
            TimeProvider = time,
        });
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        time.IsBroken = true;
        queue.SetRetention(new RetentionOptions { MaxBytes = 128 * 1024, KeepUnconsumed = false });
        queue.Producer.Produce(new byte[1000]);
        Assert.True(member.TryConsume(out _));
        member.Acknowledge();
        for (int i = 0; i < 40; i++)
            queue.Producer.Produce(new byte[10_000]);

        Eventually.True(() => queue.ConfirmedOffset >= queue.Producer.Offset, "everything is flushed");
        Eventually.True(() => queue.GetInfo().LogStart > 0, "old segments are removed");
        Eventually.True(() => File.Exists(_temp.PathOf("offset", "groups", "workers.saved")), "the group is saved");
        Assert.True(time.Count > 0);
        Assert.Null(queue.GetInfo().LastFlushError);
    }

    /// <summary>A caller is told of its own clock.</summary>
    [Fact]
    public void Produce_StampsWithAClockThatThrows_ThrowsAndContinuesWithOneThatDoesNot()
    {
        BrokenTime time = new() { IsBroken = true };
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            StampTime = true,
            TimeProvider = time,
        });
        Assert.Throws<InvalidTimeZoneException>(() => queue.Producer.Produce([1]));
        time.IsBroken = false;
        Assert.Equal(0, queue.Producer.Produce([2]));
    }
}
