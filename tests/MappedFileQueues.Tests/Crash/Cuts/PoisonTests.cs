using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;

namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>What a failed flush leaves, for those who are attached and for the next opener.</summary>
[Trait("Category", "Slow")]
public sealed unsafe class PoisonTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly FaultyDisk _disk = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The kernel reports a failed write-back once, and the next fdatasync returns 0. A flush looked for poison only before it
    /// raised the durable offset, and by then it had written a checkpoint: the next recovery began behind messages that no disk
    /// held.
    /// </summary>
    [Fact]
    public void Flush_AfterAFailedFlush_WritesNoCheckpoint()
    {
        using MappedFileQueue queue = Open();
        Produce(queue, 50);
        long confirmed = queue.Flush();
        Assert.Equal(confirmed, ReadCheckpoint());
        // A queue writes one with its first flush, then one a second.
        using MappedFileQueue other = Open();
        Produce(other, 50);
        _disk.FailNextSync("commitlog/");

        Assert.Throws<QueueDiskException>(() => other.Flush());
        for (int i = 0; i < 2; i++)
            Assert.Throws<QueuePoisonedException>(() => other.Flush());
        Assert.Equal(confirmed, ReadCheckpoint());
    }

    /// <summary>The same for a queue that was in the middle of its own flush when the other one failed.</summary>
    [Fact]
    public void Flush_PoisonedBesideItsSync_WritesNoCheckpoint()
    {
        using MappedFileQueue queue = Open();
        Produce(queue, 50);
        _disk.Before = (call, name) =>
        {
            if (call == DiskCall.Sync && name.StartsWith("commitlog/", StringComparison.Ordinal))
                StoreWords.Poison(_temp.StorePath);
        };

        Assert.Throws<QueuePoisonedException>(() => queue.Flush());
        Assert.Equal(0, ReadCheckpoint());
    }

    /// <summary>
    /// When confirmed was raised before the checkpoint, a flush whose checkpoint failed had confirmed its messages: it threw, and
    /// the next flush had nothing to do and returned as if nothing had failed.
    /// </summary>
    [Fact]
    public void Flush_SyncOfItsCheckpointFails_ConfirmsNothing()
    {
        using (MappedFileQueue queue = Open())
        using (MappedFileQueue other = Open())
        {
            Produce(queue, 50);
            _disk.FailNextSync(StoreNames.Checkpoint);

            Assert.Throws<QueueDiskException>(() => queue.Flush());

            Assert.Equal(0, queue.ConfirmedOffset);
            Assert.Throws<QueuePoisonedException>(() => queue.Flush());
            Assert.Throws<QueuePoisonedException>(() => other.Flush());
            _disk.Before = null;
        }

        using MappedFileQueue again = Open();
        Assert.Equal(50, Count());
    }

    /// <summary>
    /// Where the `poison` file could not be made (a file system that turned read-only with the error, no descriptor left, a
    /// kill in between) the next opener forgot the poison, and the durable offset what it found in the page cache.
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

    /// <summary>
    /// A process that had no descriptor left could not open the checkpoint, and poisoned the store for all the others. The disk
    /// was never asked: only its own call fails, and the next one may succeed.
    /// </summary>
    [Fact]
    public void Flush_CannotOpenAFile_FailsAlone()
    {
        using MappedFileQueue queue = Open();
        using MappedFileQueue other = Open();
        Produce(queue, 1);
        _disk.Before = NoDescriptors;

        QueueDiskException error = Assert.Throws<QueueDiskException>(() => queue.Flush());

        Assert.Equal(DiskErrors.EMFILE, error.Errno);
        Assert.False(File.Exists(_temp.PathOf("poison")));
        _disk.Before = null;
        using (var words = new StoreWords(_temp.StorePath))
            Assert.Equal(0, SharedWord.ReadAcquire(words.Control.FlushTarget));
        Produce(other, 1);
        long confirmed = queue.Flush();
        Assert.Equal(queue.GetInfo().TailOffset, confirmed);
    }

    /// <summary>Once it has flushed, a process needs no new descriptor for it, nor for the next checkpoint.</summary>
    [Fact]
    public void Flush_NoDescriptorLeftAfterTheFirst_Works()
    {
        using MappedFileQueue queue = Open();
        Produce(queue, 1);
        long confirmed = queue.Flush();
        long checkpoint = ReadCheckpoint();
        _disk.Before = NoDescriptors;

        Eventually.True(
            () =>
            {
                // Short: a new segment would need a descriptor.
                queue.Producer.Produce([1]);
                confirmed = queue.Flush();
                return ReadCheckpoint() > checkpoint;
            },
            "a flush writes the next checkpoint");

        _disk.Before = null;
        Assert.Equal(queue.GetInfo().TailOffset, confirmed);
    }

    /// <summary>
    /// The next opener read the pages that the kernel had marked clean after it failed to write them, found them whole, synced
    /// them, which writes nothing, and raised the checkpoint over them. It copies them into new files before it believes them.
    /// </summary>
    [Fact]
    public void Open_Poisoned_WritesEverythingAgainBeforeItsCheckpoint()
    {
        FailAFlush(50);
        List<string> calls = [];
        _disk.Before = (call, name) => calls.Add($"{call} {name}");

        using MappedFileQueue queue = Open();

        _disk.Before = null;
        const string segment = "commitlog/00000000000000000000.log";
        string[] expected =
        [
            $"Sync {segment}.open-rewrite.tmp", $"Renamed {segment}", "SyncEntries commitlog", "Write offset/producer.checkpoint",
        ];
        Assert.Equal(expected, calls.Where(expected.Contains).Distinct());
        Assert.Equal(50, Count());
        Assert.Equal(queue.GetInfo().TailOffset, queue.GetInfo().ConfirmedOffset);
        Assert.False(File.Exists(_temp.PathOf("poison")));
        Produce(queue, 10);
        queue.Flush();
        Assert.Equal(60, Count());
    }

    /// <summary>Killed between two segments: the poison is still there, and the next opener begins again.</summary>
    [Theory]
    [InlineData(1)]
    [InlineData(3)]
    public void Open_PoisonedAndKilled_NextOpenerDoesItAgain(int hit)
    {
        FailAFlush(1000);
        using (PeerAgent child = PeerAgent.Start())
        {
            child.Trap("SegmentRewritten", hit);
            child.Send($"open path={_temp.StorePath}");
            child.ExpectKilled();
        }

        using (MappedFileQueue queue = Open())
        {
            Assert.Equal(1000, Count());
            Assert.Equal(queue.GetInfo().TailOffset, queue.GetInfo().ConfirmedOffset);
        }

        Assert.Empty(Directory.EnumerateFiles(_temp.StorePath, "*.tmp", SearchOption.AllDirectories));
        Assert.False(File.Exists(_temp.PathOf("poison")));
    }

    /// <summary>
    /// A sync that fails inside a recovery after a power loss left nothing behind: the next opener found the same pages, clean by
    /// now, and its own syncs succeeded.
    /// </summary>
    [Theory]
    [InlineData("commitlog/")]
    [InlineData("offset/producer.checkpoint")]
    public void Open_SyncFailsInRecovery_IsPoison(string failing)
    {
        using (MappedFileQueue queue = Open())
            Produce(queue, 50);
        _disk.BootIdOverride = Guid.NewGuid().ToString();
        _disk.FailNextSync(failing);

        Assert.Throws<QueueDiskException>(() => Open());

        _disk.Before = null;
        Assert.True(File.Exists(_temp.PathOf("poison")));
        bool isRewritten = false;
        _disk.Before = (call, name) =>
            isRewritten |= call == DiskCall.Renamed && name.StartsWith("commitlog/0", StringComparison.Ordinal);
        using MappedFileQueue again = Open();
        Assert.True(isRewritten);
        Assert.Equal(50, Count());
        Assert.False(File.Exists(_temp.PathOf("poison")));
    }

    /// <summary>
    /// A removal's sync of a cursor failed, and the system took the page for clean. The recovery left it as it was, so the next
    /// removal's sync wrote nothing: after a power loss the consumer was before the log.
    /// </summary>
    [Fact]
    public void Open_SyncOfACursorFailed_WritesItAgain()
    {
        string cursor = StoreNames.Cursor("c");
        using (MappedFileQueue queue = Open())
        {
            Produce(queue, 1000);
            using MappedFileConsumer consumer = queue.OpenConsumer("c");
            while (consumer.TryConsume(out _))
                consumer.Commit();
            _disk.FailNextSync(cursor);
            Assert.Throws<QueueDiskException>(() => queue.Trim(long.MaxValue));
            _disk.Before = null;
        }

        List<string> calls = [];
        _disk.Before = (call, name) => calls.Add($"{call} {name}");

        using MappedFileQueue again = Open();

        _disk.Before = null;
        string[] expected = [$"Write {cursor}", $"Sync {cursor}"];
        Assert.Equal(expected, calls.Where(expected.Contains));
    }

    private static void NoDescriptors(DiskCall call, string name)
    {
        if (call == DiskCall.Open)
            throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
    }

    private void FailAFlush(int count)
    {
        using MappedFileQueue queue = Open();
        Produce(queue, count);
        _disk.FailNextSync("commitlog/");
        Assert.ThrowsAny<MappedFileQueueException>(() => queue.Flush());
        _disk.Before = null;
        using var words = new StoreWords(_temp.StorePath);
        words.ResetCheckpoint();
    }

    private MappedFileQueue Open() => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = 1 << 20,
        // The first error is for the test's own call.
        FlushInterval = Timeout.InfiniteTimeSpan,
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
        using HeldDirectory directory = new LinuxServices().OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        return new CheckpointFile(directory, StoreMetaFile.Read(directory)!.StoreId).Read()!.Offset;
    }
}
