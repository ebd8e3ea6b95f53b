using MappedFileQueues.Format;
using MappedFileQueues.Log;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Crash;

/// <summary>What a failed flush leaves, for those who are attached and for the next opener.</summary>
public sealed unsafe class PoisonTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly FaultyDisk _disk = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The kernel reports a failed write-back once, and the next fdatasync returns 0. A flush looked for poison only before it
    /// raised confirmed, and by then it had written a checkpoint: the next recovery began behind messages that no disk held.
    /// </summary>
    [Fact]
    public void Flush_AfterAFailedFlush_WritesNoCheckpoint()
    {
        // Without checksums every flush writes its checkpoint; with them one a second does.
        using MappedFileQueue queue = Open(ChecksumMode.None);
        Produce(queue, 50);
        long confirmed = queue.Flush();
        Assert.Equal(confirmed, ReadCheckpoint());
        Produce(queue, 50);
        _disk.FailNextSync("commitlog/");

        Assert.Throws<QueueDiskException>(() => queue.Flush());
        for (int i = 0; i < 2; i++)
            Assert.Throws<QueuePoisonedException>(() => queue.Flush());
        Assert.Equal(confirmed, ReadCheckpoint());
    }

    /// <summary>The same for a queue that was in the middle of its own flush, behind its sync, when the other one failed.</summary>
    [Fact]
    public void Flush_PoisonedBesideItsSync_WritesNoCheckpoint()
    {
        using MappedFileQueue queue = Open(ChecksumMode.None);
        Produce(queue, 50);
        _disk.Before = (call, name) =>
        {
            if (call == DiskCall.Sync && name.StartsWith("commitlog/", StringComparison.Ordinal))
                Poison();
        };

        Assert.Throws<QueuePoisonedException>(() => queue.Flush());
        Assert.Equal(0, ReadCheckpoint());
    }

    /// <summary>
    /// Where the `poison` file could not be made (a file system that turned read-only with the error, no descriptor left, a
    /// kill in between) the next opener forgot the poison, and confirmed what it found in the page cache.
    /// </summary>
    [Fact]
    public void Open_PoisonFileCouldNotBeMade_RecoversAllTheSame()
    {
        using (MappedFileQueue queue = Open())
        {
            Produce(queue, 50);
            _disk.FailNextSync("commitlog/");
            Action<DiskCall, string> fail = _disk.Before!;
            _disk.Before = (call, name) =>
            {
                fail(call, name);
                if (call == DiskCall.Open && name == "poison")
                    throw new QueueDiskException("Read-only.", DiskErrors.EROFS, name);
            };
            Assert.Throws<QueueDiskException>(() => queue.Flush());
            _disk.Before = null;
            Assert.False(File.Exists(_temp.PathOf("poison")));
        }

        using MappedFileQueue again = Open();
        MappedFileQueueInfo info = again.GetInfo();
        Assert.Equal(1, info.Epoch);
        Assert.False(info.IsPoisoned);
        Assert.Equal(50, Count());
    }

    private MappedFileQueue Open(ChecksumMode checksum = ChecksumMode.WriteAndVerify) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = 1 << 20,
        Checksum = checksum,
    });

    private static void Produce(MappedFileQueue queue, int count)
    {
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(new byte[4000]);
    }

    private int Count()
    {
        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        int count = 0;
        while (reader.TryRead(out _))
            count++;
        return count;
    }

    private long ReadCheckpoint()
    {
        using StoreDirectory directory = new LinuxServices().OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        return new CheckpointFile(directory, StoreMetaFile.Read(directory)!.StoreId).Read()!.Offset;
    }

    private void Poison()
    {
        using var words = new StoreWords(_temp.StorePath);
        SharedWord.SetBits(words.Control.WaiterFlag, ControlLayout.PoisonBit);
    }
}
