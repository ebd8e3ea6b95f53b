using System.Collections.Concurrent;
using System.Runtime.ExceptionServices;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// Errors of the disk that another part of the same queue hears of first. docs/DESIGN.md section 4: nothing is durable
/// after the first one.
/// </summary>
public sealed class WriteBackErrorTests : IDisposable
{
    private readonly TempStore _store = new();
    private readonly FaultyDisk _disk = new();

    public void Dispose() => _store.Dispose();

    /// <summary>
    /// At Group the preparer syncs the room ahead, and it did so through the descriptor of the flushes. The kernel tells a
    /// descriptor of a failed write-back once: told the preparer, it did not tell the leader, who confirmed what was lost before
    /// the preparer had come to poison the queue.
    /// </summary>
    [Fact]
    public void Flush_PreparerWasToldOfTheError_IsToldTooAndConfirmsNothing()
    {
        using MappedFileQueue queue = Open(DurabilityLevel.Group, 8 << 20);
        MappedFileProducer producer = queue.Producer;
        producer.Produce([1]);
        long confirmed = queue.ConfirmedOffset;
        using ManualResetEventSlim told = new();
        using ManualResetEventSlim goOn = new();
        int count = 0;
        _disk.Told = _ =>
        {
            if (Interlocked.Increment(ref count) > 1)
                return;
            told.Set();
            Assert.True(goOn.Wait(Eventually.DefaultDeadline));
        };
        _disk.FailWriteBack(StoreNames.Segment(0));
        BackgroundCall ahead = BackgroundCall.Start(() => producer.Prepare(4 << 20));
        Assert.True(told.Wait(Eventually.DefaultDeadline), "the preparer syncs what it has touched");
        producer.Produce([2], new ProduceOptions { Durability = DurabilityLevel.PageCache });

        Exception? error = Record.Exception(() => queue.Flush());
        goOn.Set();
        ahead.JoinSilently();

        Assert.IsType<QueueDiskException>(error);
        Assert.Equal(confirmed, queue.ConfirmedOffset);
        Assert.Throws<QueuePoisonedException>(() => queue.Flush());
    }

    /// <summary>
    /// A directory whose flush failed while a segment was made was flushed once more by the next one who needed it, and that
    /// succeeded: the messages in there were confirmed, the name of their segment may never have come to the disk. The preparer
    /// kept even the first error to itself.
    /// </summary>
    [Fact]
    public void Flush_TheDirectoryCouldNotBeFlushed_ConfirmsNothing()
    {
        using MappedFileQueue queue = Open(DurabilityLevel.PageCache, 64 * 1024);
        queue.Producer.Produce([1]);
        int left = 1;
        _disk.Before = (call, name) =>
        {
            if (call == DiskCall.SyncEntries && name == StoreNames.CommitLog && Interlocked.Decrement(ref left) == 0)
                throw new QueueDiskException("The disk fails.", DiskErrors.EIO, name) { MayHaveLostData = true };
        };

        Assert.IsAssignableFrom<MappedFileQueueException>(Record.Exception(() =>
        {
            for (int i = 0; i < 1000; i++)
                queue.Producer.Produce(new byte[1000]);
            queue.Flush();
        }));

        Assert.Throws<QueuePoisonedException>(() => queue.Flush());
        // The names of four segments were on the disk before; up to eight are made at once.
        Assert.True(queue.ConfirmedOffset <= 8 * 64 * 1024);
    }

    /// <summary>
    /// The write-back of complete segments waits for each piece. What it is told, no flush that opens the file later is told.
    /// </summary>
    [Fact]
    public void WriteBack_IsToldOfTheError_PoisonsTheQueue()
    {
        using MappedFileQueue queue = Open(DurabilityLevel.PageCache, 16 << 20);
        _disk.FailWriteBack(StoreNames.Segment(0));
        byte[] message = new byte[1 << 20];
        // A producer may meet the poison too.
        Record.Exception(() =>
        {
            for (int i = 0; i < 100; i++)
                queue.Producer.Produce(message);
        });

        Eventually.True(() => queue.GetInfo().IsPoisoned, "the write-back poisons");
        Assert.Throws<QueuePoisonedException>(() => queue.Flush());
        Assert.Equal(0, queue.ConfirmedOffset);
    }

    /// <summary>
    /// The kernel tells an error once, and a leader of another process that opens the file a moment later is told that all is
    /// well. The poison bit was set after the exception had been made, wrapped and caught, locks and mappings let go: for so long
    /// that leader could confirm what was lost.
    /// </summary>
    [Theory]
    [InlineData("Sync")]
    [InlineData("SyncEntries")]
    public unsafe void Prepare_SyncFails_PoisonComesBeforeAnythingElse(string failing)
    {
        using MappedFileQueue queue = Open(DurabilityLevel.Group, 64 * 1024);
        queue.Producer.Produce([1]);
        using var words = new StoreWords(_store.StorePath);
        string message = $"The disk fails: {_store.StorePath}.";
        int left = 1;
        ConcurrentQueue<bool> poisoned = [];
        void NoteException(object? sender, FirstChanceExceptionEventArgs thrown)
        {
            if (thrown.Exception.Message == message)
                poisoned.Enqueue((words.WaiterFlag & ControlLayout.PoisonBit) != 0);
        }

        AppDomain.CurrentDomain.FirstChanceException += NoteException;
        _disk.Before = (call, name) =>
        {
            if (call.ToString() == failing && name.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal)
                && !name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal) && Interlocked.Decrement(ref left) == 0)
                throw new QueueDiskException(message, DiskErrors.EIO, name) { MayHaveLostData = true };
        };
        Record.Exception(() => queue.Producer.Prepare(4 << 20));
        Eventually.True(() => Volatile.Read(ref left) <= 0 && queue.GetInfo().IsPoisoned, "the sync fails and poisons");
        AppDomain.CurrentDomain.FirstChanceException -= NoteException;

        // The disk's own exception, and from the next look at it on the bit is there.
        Assert.False(poisoned.First());
        Assert.All(poisoned.Skip(1), Assert.True);
    }

    private MappedFileQueue Open(DurabilityLevel level, long segment) => new(new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        SegmentSize = segment,
        Durability = level,
        FlushInterval = TimeSpan.FromHours(1),
    });
}
