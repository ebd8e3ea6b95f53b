namespace MappedFileQueues.Tests.Testing;

/// <summary>What users' tests build on: queues that remove themselves, and disks with faults.</summary>
public sealed class TemporaryQueueTests
{
    [Fact]
    public void Dispose_RemovesTheFiles()
    {
        string path;
        using (TemporaryQueue<long> temporary = new())
        {
            path = temporary.StorePath;
            temporary.Queue.Producer.Produce(1);
            Assert.True(Directory.Exists(path));
        }

        Assert.False(Directory.Exists(Path.GetDirectoryName(path)));
    }

    [Fact]
    public void Configure_Throws_LeavesNoFolder()
    {
        string? path = null;
        Assert.Throws<InvalidOperationException>(() => new TemporaryQueue(options =>
        {
            path = Path.GetDirectoryName(options.StorePath);
            throw new InvalidOperationException("Wrong.");
        }));

        Assert.False(Directory.Exists(path));
    }

    [Fact]
    public async Task Reopen_KeepsMessagesAndCommits()
    {
        await using TemporaryQueue temporary = new();
        temporary.Queue.Producer.Produce("a"u8);
        temporary.Queue.Producer.Produce("b"u8);
        temporary.Queue.Consumer.Consume();
        temporary.Queue.Consumer.Commit();

        MappedFileQueue queue = temporary.Reopen();

        Assert.Equal("b"u8, queue.Consumer.Consume());
    }

    [Fact]
    public void IsFull_ProducerNeedsRoom_ThrowsAndGoesOnOnceThereIsRoom()
    {
        using TemporaryQueue<long> temporary = new();
        MappedFileProducer<long> producer = temporary.Queue.Producer;
        producer.Produce(0);
        temporary.Disk.IsFull = true;
        int count = 1;
        QueueDiskException error = Assert.Throws<QueueDiskException>(() =>
        {
            for (; count < 100_000; count++)
                producer.Produce(count);
        });
        Assert.Equal(28, error.Errno);

        temporary.Disk.IsFull = false;
        producer.Produce(count);

        for (int i = 0; i <= count; i++)
        {
            Assert.True(temporary.Queue.Consumer.TryConsume(out long message));
            Assert.Equal(i, message);
            temporary.Queue.Consumer.Commit();
        }
    }

    [Fact]
    public void FailsFlushes_Flush_PoisonsUntilReopened()
    {
        using TemporaryQueue<long> temporary = new(options => options.Durability = DurabilityLevel.PageCache);
        temporary.Queue.Producer.Produce(1);
        temporary.Disk.FailsFlushes = true;
        Assert.ThrowsAny<MappedFileQueueException>(() => temporary.Queue.Flush());
        Assert.True(temporary.Queue.GetInfo().IsPoisoned);
        Assert.Throws<QueuePoisonedException>(() => temporary.Queue.Flush());

        temporary.Disk.FailsFlushes = false;
        MappedFileQueue<long> queue = temporary.Reopen();

        Assert.True(queue.GetStatistics().RecoveredAfterPowerLoss);
        queue.Flush();
        Assert.True(temporary.Disk.FlushCount > 0);
        Assert.True(queue.Consumer.TryConsume(out long message));
        Assert.Equal(1, message);
    }

    [Fact]
    public void GetStatistics_Flushes_AreCountedAndTimed()
    {
        using TemporaryQueue<long> temporary = new(options => options.Durability = DurabilityLevel.PageCache);
        for (int i = 0; i < 3; i++)
        {
            temporary.Queue.Producer.Produce(i);
            temporary.Queue.Flush();
        }

        MappedFileQueueStatistics statistics = temporary.Queue.GetStatistics();
        Assert.Equal(3, statistics.FlushCount);
        Assert.InRange(statistics.FlushDurationMax, TimeSpan.FromTicks(1), statistics.FlushDuration);
        Assert.NotNull(statistics.LastFlush);
        Assert.False(statistics.RecoveredAfterPowerLoss);
    }

    [Fact]
    public void GetStatistics_LongWaitForAName_IsCounted()
    {
        using TemporaryQueue<long> temporary = new(options => options.LockTimeout = TimeSpan.FromSeconds(1.2));
        using MappedFileQueue<long> other = new(new MappedFileQueueOptions { StorePath = temporary.StorePath });
        using MappedFileConsumer<long> holder = other.OpenConsumer("audit");

        Assert.Throws<QueueInUseException>(() => temporary.Queue.OpenConsumer("audit"));

        MappedFileQueueStatistics statistics = temporary.Queue.GetStatistics();
        // A machine that stands still for a second makes one more.
        Assert.InRange(statistics.LongLockWaitCount, 1, 3);
        Assert.True(statistics.LongLockWaitMax >= TimeSpan.FromSeconds(1));
        Assert.Contains("audit", statistics.LastLongLockWait, StringComparison.Ordinal);
    }
}
