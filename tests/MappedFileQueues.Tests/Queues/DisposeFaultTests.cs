using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Queues;

/// <summary>A queue ends, and lets everything go, also when something fails on the way or somebody is in it.</summary>
public sealed class DisposeFaultTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly FaultyDisk _disk = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The end of an Exclusive producer takes `open` to say that no dirty bytes are left. Without a free descriptor that threw,
    /// before the producers' lock and the slot were let go: nobody could produce any more until the process ended.
    /// </summary>
    [Fact]
    public void Dispose_ExclusiveWithoutADescriptor_LetsEverythingGo()
    {
        MappedFileQueue queue = Open(ProducerMode.Exclusive);
        queue.Producer.Produce([1]);
        queue.OpenConsumer("c");
        _disk.Before = (call, name) =>
        {
            if (call is DiskCall.Lock or DiskCall.Open)
                throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
        };

        queue.Dispose();

        _disk.Before = null;
        using (MappedFileQueue again = Open(ProducerMode.Exclusive))
        {
            again.Producer.Produce([2]);
            using MappedFileConsumer consumer = again.OpenConsumer("c");
            Assert.Equal([1], consumer.Consume().ToArray());
            consumer.Commit();
            Assert.Equal([2], consumer.Consume().ToArray());
        }

        MappedFileQueue.Delete(_temp.StorePath);
    }

    /// <summary>The same with an opener that stands still with `open` in its hand: nobody waits for it for long.</summary>
    [Fact]
    public void Dispose_ExclusiveBesideAStuckOpener_LetsEverythingGo()
    {
        MappedFileQueue queue = Open(ProducerMode.Exclusive);
        queue.Producer.Produce([1]);
        using var words = new StoreWords(_temp.StorePath);
        using (PlatformLock? open = words.TryLock(StoreNames.OpenLock, LockKind.Exclusive))
        {
            Assert.NotNull(open);
            BackgroundCall call = BackgroundCall.Start(queue.Dispose);
            call.Join();
        }

        using MappedFileQueue again = Open(ProducerMode.Exclusive);
        again.Producer.Produce([2]);
    }

    /// <summary>Dispose waited until all the room was prepared, 9.4 s for 4 GiB; every other call that waits ends.</summary>
    [Fact]
    public void Dispose_WhileRoomIsPrepared_EndsThat()
    {
        MappedFileQueue queue = Open(ProducerMode.Shared);
        MappedFileProducer producer = queue.Producer;
        BackgroundCall? dispose = null;
        int own = Environment.CurrentManagedThreadId;
        _disk.Before = (call, _) =>
        {
            if (call != DiskCall.Rename || Environment.CurrentManagedThreadId != own || dispose is not null)
                return;
            dispose = BackgroundCall.Start(queue.Dispose);
            Eventually.True(() => dispose.IsWaiting, "Dispose waits for the call");
        };

        Assert.Throws<ObjectDisposedException>(() => producer.Prepare(64L << 20));

        dispose!.Join();
        Assert.InRange(Directory.GetFiles(_temp.PathOf("commitlog")).Length, 1, 100);
    }

    /// <summary>
    /// A pipeline that awaits the end of its channel waited for ever: it came only with one more read after the Dispose.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Dispose_ChannelOfAConsumer_Completes(bool ofQueue)
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared);
        MappedFileConsumer consumer = queue.OpenConsumer("c");
        Task ended = consumer.AsChannelReader(Utf8MessageSerializer.Instance).Completion;
        Assert.False(ended.IsCompleted);

        (ofQueue ? (IDisposable)queue : consumer).Dispose();

        await ended.WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);
    }

    /// <summary>A queue stopped closing at the first of its producers and consumers that threw, and kept its locks.</summary>
    [Fact]
    public void Dispose_ChildThrows_LetsEverythingGoAndThrows()
    {
        var core = new StoreEngine(new MappedFileQueueOptions { StorePath = _temp.StorePath }, StoreKind.Messages, 0, 0);
        core.Open(() => new Failing());
        bool isClosed = false;
        core.Open(() => new Noting(() => isClosed = true));

        Assert.Throws<TimeZoneNotFoundException>(core.Dispose);

        Assert.True(isClosed);
        MappedFileQueue.Delete(_temp.StorePath);
    }

    /// <summary>
    /// The thread that writes checkpoints behind completed segments waited for a process that stood still with `locks/flush` in
    /// its hand, and the end of the last producer waited for that thread: for ever.
    /// </summary>
    [Fact]
    public void DisposeProducer_BesideAStoppedFlusher_Ends()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared);
        using var words = new StoreWords(_temp.StorePath);
        using PlatformLock? flush = words.TryLock(StoreNames.FlushLock, LockKind.Exclusive);
        Assert.NotNull(flush);
        bool isTried = false;
        _disk.Before = (call, name) => isTried |= call == DiskCall.Lock && name == StoreNames.FlushLock;
        Eventually.True(
            () =>
            {
                queue.Producer.Produce(new byte[60_000]);
                return isTried;
            },
            "the checkpoints' thread asks for the lock");

        BackgroundCall call = BackgroundCall.Start(queue.Producer.Dispose);
        call.Join();
        queue.OpenProducer().Produce([1]);
    }

    private MappedFileQueue Open(ProducerMode mode) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = 64 * 1024,
        ProducerMode = mode,
    });

    private sealed class Failing : IDisposable
    {
        public void Dispose() => throw new TimeZoneNotFoundException();
    }

    private sealed class Noting(Action action) : IDisposable
    {
        public void Dispose() => action();
    }
}
