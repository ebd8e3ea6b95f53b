using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;

namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// A leader that is killed between writing its checkpoint and syncing it leaves a record that every process reads and no disk
/// holds. It was taken for durable, and messages were confirmed by it that a cut took.
/// </summary>
public sealed class UnsyncedCheckpointTests : IDisposable
{
    private const string Checkpoint = "offset/producer.checkpoint";

    private readonly TempStore _temp = new();
    private readonly FaultyDisk _disk = new();
    private int _syncs;

    public UnsyncedCheckpointTests() => _disk.Before = (call, name) =>
    {
        if (call == DiskCall.Sync && name == Checkpoint)
            _syncs++;
    };

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Open_RecordOfADeadLeader_IsSyncedBeforeItCounts()
    {
        long tail;
        using (MappedFileQueue queue = Open())
            tail = Produce(queue);
        WriteRecord(tail);
        _syncs = 0;

        using MappedFileQueue again = Open();

        Assert.Equal(tail, again.GetInfo().ConfirmedOffset);
        Assert.True(_syncs > 0);
    }

    [Fact]
    public void Flush_RecordOfADeadLeader_IsSyncedBeforeItCounts()
    {
        using MappedFileQueue queue = Open();
        long tail = Produce(queue);
        WriteRecord(tail);
        _syncs = 0;

        Assert.Equal(tail, queue.Flush());
        Assert.True(_syncs > 0);
    }

    private MappedFileQueue Open() => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = 1 << 20,
        FlushInterval = Timeout.InfiniteTimeSpan,
    });

    private static long Produce(MappedFileQueue queue)
    {
        for (int i = 0; i < 20; i++)
            queue.Producer.Produce(new byte[100]);
        return queue.GetInfo().TailOffset;
    }

    private void WriteRecord(long offset)
    {
        using HeldDirectory directory = new LinuxServices().OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        Guid storeId = StoreMetaFile.Read(directory)!.StoreId;
        CheckpointRecord newest = new CheckpointFile(directory, storeId).Read()!;
        CheckpointRecord next = newest with { Offset = offset, Sequence = newest.Sequence + 1 };
        using PlatformFile file = directory.Open(Checkpoint, FileOpening.ReadWrite)!;
        file.WriteAt(next.ToBytes(storeId), next.Position);
    }
}
