using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Snapshots;
using MappedFileQueues.Memory;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Format;

namespace MappedFileQueues.Tests.Log.Snapshots;

/// <summary>Disks that refuse a call of a snapshot, and segments that go while it copies them.</summary>
public sealed unsafe class SnapshotFaultTests : IDisposable
{
    private const long SegmentSize = 4096;

    /// <summary>Enough for some ten segments.</summary>
    private const int Many = 1000;

    private readonly TempStore _temp = new();

    private string Target => Path.Combine(_temp.Root, "snapshot");

    public void Dispose() => _temp.Dispose();

    /// <summary>Whichever call fails, the error is the caller's, and nothing is left of the snapshot.</summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    [Trait("Category", "Slow")]
    public void Snapshot_AnyCallFails_ThrowsLeavesNothingAndTheNextWorks(bool canLink)
    {
        var disk = new FaultyDisk { CanLink = canLink };
        using MappedFileQueue queue = Open();
        Fill(queue.Producer, Many);
        queue.OpenConsumer("a").Dispose();
        var policy = new RetentionOptions { MaxBytes = 1L << 40 };
        queue.SetRetention(policy);
        queue.Flush();
        int failed = 0;
        while (true)
        {
            int left = ++failed;
            int thread = Environment.CurrentManagedThreadId;
            disk.Before = (_, name) =>
            {
                // Not those of the background, which wait for no answer.
                if (Environment.CurrentManagedThreadId == thread && --left == 0)
                    throw FaultyDisk.Broken(name);
            };
            try
            {
                queue.Snapshot(Target);
                break;
            }
            catch (QueueDiskException)
            {
                disk.Before = null;
                Assert.False(Directory.Exists(Target), $"Something is left after the failure of call {failed}.");
            }
        }

        disk.Before = null;
        Assert.InRange(failed, 30, 1000);
        Assert.Equal(policy, StoreInspector.Inspect(Target).Retention);
        Assert.Equal(Many, Count(Target));
        Fill(queue.Producer, 1);
        Assert.False(queue.GetInfo().IsPoisoned);
    }

    /// <summary>The same with an empty folder that was there before: it stays, and stays empty.</summary>
    [Fact]
    public void Snapshot_CallFailsInAFolderOfTheCaller_FolderStaysEmpty()
    {
        var disk = new FaultyDisk();
        using MappedFileQueue queue = Open();
        Fill(queue.Producer, Many);
        Directory.CreateDirectory(Target);
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Rename && name == StoreNames.Meta)
                throw FaultyDisk.Broken(name);
        };

        Assert.Throws<QueueDiskException>(() => queue.Snapshot(Target));

        Assert.Empty(Directory.EnumerateFileSystemEntries(Target));
    }

    /// <summary>
    /// Segments that cannot be linked are copied, the newest first, while retention continues. What is gone when its turn comes
    /// is left out, with everything before it. A producer that was stopped for long may have made a removed segment again: the
    /// snapshot copied the empty file and began with it, and readers found no message after it.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Snapshot_RetentionDeletesWhatIsToBeCopied_BeginsBehindIt(bool isMadeAgain)
    {
        var disk = new FaultyDisk { CanLink = false };
        using var queue = new StoreEngine(Options(), StoreKind.Messages, 0, 0);
        using (var producer = new MappedFileProducer(queue))
            Fill(producer, Many);
        queue.Flush();
        long first = 2 * SegmentSize;
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Open || name != StoreNames.Segment(3 * SegmentSize))
                return;
            disk.Before = null;
            SharedWord.WriteRelease(queue.Store.Control.LogStart, first);
            queue.Store.Control.SealColdBlock(queue.Store.Meta.StoreId);
            for (long start = 0; start < first; start += SegmentSize)
                File.Delete(_temp.PathOf(StoreNames.Segment(start)));
            if (isMadeAgain)
                File.WriteAllBytes(_temp.PathOf(StoreNames.Segment(SegmentSize)), new byte[SegmentSize]);
        };

        SnapshotResult made = queue.Snapshot(Target, null);

        Assert.Null(disk.Before);
        Assert.Equal((first, 0), (made.FirstOffset, made.LinkedCount));
        MappedFileQueueInfo info = StoreInspector.Inspect(Target);
        Assert.Equal((first, made.Offset), (info.LogStart, info.PublishedOffset));
        Assert.False(File.Exists(Path.Combine(Target, StoreNames.Segment(SegmentSize))));
        Assert.InRange(Count(Target), 10, Many - 1);
    }

    /// <summary>
    /// What removals took away during a snapshot was known to the source's files of producers and not to the snapshot's: there
    /// the sequences were appended again.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Snapshot_SegmentsAreRemovedMeanwhile_KnowsTheSequencesThatWentWithThem(bool canLink)
    {
        const long First = 5 * SegmentSize;
        var disk = new FaultyDisk { CanLink = canLink };
        using MappedFileQueue queue = Open();
        FillAfterTwentyOrders(queue);
        Thread thread = Thread.CurrentThread;
        disk.Before = (call, name) =>
        {
            bool isNow = canLink ? call == DiskCall.Sync && name.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal)
                : call == DiskCall.Open && name == StoreNames.Segment(First);
            if (!isNow || Thread.CurrentThread != thread)
                return;
            disk.Before = null;
            Assert.Equal(First, queue.Trim(First));
        };

        queue.Snapshot(Target);

        Assert.Null(disk.Before);
        using var snapshot = new MappedFileQueue(new MappedFileQueueOptions { StorePath = Target });
        Assert.Equal(First, snapshot.GetInfo().LogStart);
        using MappedFileIdempotentProducer again = snapshot.OpenProducer("orders");
        Assert.Equal(20ul, again.LastSequence);
    }

    /// <summary>
    /// A producer died during a snapshot, between the sequence and its offset in its file. The snapshot took the sequence without
    /// its message, which passed for a repetition there and was lost.
    /// </summary>
    [Fact]
    public void Snapshot_ProducerDiesOverItsFileMeanwhile_KnowsNoSequenceBeyondItsEnd()
    {
        var disk = new FaultyDisk { CanLink = false };
        using MappedFileQueue queue = Open();
        FillAfterTwentyOrders(queue);
        queue.Flush();
        Thread thread = Thread.CurrentThread;
        disk.Before = (call, name) =>
        {
            // The oldest segment is copied last.
            if (call != DiskCall.Sync || name != StoreNames.Segment(0) || Thread.CurrentThread != thread)
                return;
            disk.Before = null;
            using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
                Assert.True(producer.TryProduce(new byte[100], 21));
            queue.Flush();
            string path = _temp.PathOf("offset", "producers", "orders.producer");
            byte[] page = TempStore.ReadOpenFile(path);
            BitConverter.TryWriteBytes(page.AsSpan(ProducerLayout.SequenceAt), 21ul);
            BitConverter.TryWriteBytes(page.AsSpan(ProducerLayout.SequenceCopyAt), 21ul);
            File.WriteAllBytes(path, page);
        };

        queue.Snapshot(Target);

        Assert.Null(disk.Before);
        using var snapshot = new MappedFileQueue(new MappedFileQueueOptions { StorePath = Target });
        using MappedFileIdempotentProducer again = snapshot.OpenProducer("orders");
        Assert.Equal(20ul, again.LastSequence);
        Assert.True(again.TryProduce(new byte[100], 21));
    }

    /// <summary>A segment that is missing for another reason is no end of the log.</summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Snapshot_SegmentIsMissing_IsDamage(bool canLink)
    {
        var disk = new FaultyDisk { CanLink = canLink };
        using MappedFileQueue queue = Open();
        Fill(queue.Producer, Many);
        queue.Flush();
        File.Delete(_temp.PathOf(StoreNames.Segment(SegmentSize)));

        QueueCorruptException missing = Assert.Throws<QueueCorruptException>(() => queue.Snapshot(Target));

        Assert.Equal(SegmentSize, missing.Offset);
        Assert.False(Directory.Exists(Target));
        GC.KeepAlive(disk);
    }

    /// <summary>A reader that was written from docs/FORMAT.md alone verifies what is shared and what came later.</summary>
    [Fact]
    public void Snapshot_ThatWentOn_IsAsThePageSays()
    {
        using (MappedFileQueue queue = Open())
        {
            Fill(queue.Producer, Many);
            queue.Snapshot(Target);
        }

        using (var copy = new MappedFileQueue(new MappedFileQueueOptions { StorePath = Target }))
            Fill(copy.Producer, Many);

        FormatTwo.Meta source = FormatTwo.ReadMeta(File.ReadAllBytes(_temp.PathOf(StoreNames.Meta)));
        FormatTwo.Meta meta = FormatTwo.ReadMeta(File.ReadAllBytes(Path.Combine(Target, StoreNames.Meta)));
        Assert.Equal(source.StoreId, meta.LogId);
        Assert.NotEqual(source.StoreId, meta.StoreId);
        int count = 0;
        for (long start = 0; File.Exists(Path.Combine(Target, StoreNames.Segment(start))); start += SegmentSize)
        {
            byte[] segment = File.ReadAllBytes(Path.Combine(Target, StoreNames.Segment(start)));
            count += FormatTwo.Walk(segment, start, meta.LogId).Count(frame => frame.State == 2);
        }

        Assert.Equal(2 * Many, count);
        byte[] checkpoint = File.ReadAllBytes(Path.Combine(Target, StoreNames.Checkpoint));
        Assert.InRange(FormatTwo.ReadCheckpoint(checkpoint, meta.StoreId).Epoch, 1, long.MaxValue);
    }

    /// <summary>Those who share a store share its snapshot.</summary>
    [Fact]
    public void Snapshot_OfASharedStore_FilesHaveItsMode()
    {
        if (OperatingSystem.IsWindows())
            return;
        const UnixFileMode Shared =
            UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead | UnixFileMode.GroupWrite;
        MappedFileQueueOptions options = Options();
        options.UnixCreateMode = Shared;
        using (var maker = new MappedFileQueue(options))
            Fill(maker.Producer, Many);
        using MappedFileQueue queue = Open();

        queue.Snapshot(Target);

        foreach (string file in Directory.EnumerateFiles(Target, "*", SearchOption.AllDirectories))
            Assert.Equal(Shared, File.GetUnixFileMode(file));
    }

    private MappedFileQueue Open() => new(Options());

    private MappedFileQueueOptions Options() => new()
    {
        StorePath = _temp.StorePath,
        SegmentSize = SegmentSize,
        PrepareAhead = 0,
        // Nothing happens here that the test did not ask for.
        Durability = DurabilityLevel.PageCache,
    };

    private static void FillAfterTwentyOrders(MappedFileQueue queue)
    {
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            for (int i = 0; i < 20; i++)
                producer.Produce(new byte[100]);
        }

        Fill(queue.Producer, Many);
    }

    private static void Fill(MappedFileProducer producer, int count)
    {
        for (int i = 0; i < count; i++)
            producer.Produce(Payload.Make(0, i));
    }

    private static int Count(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        int count = 0;
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            Payload.Verify(message);
            count++;
        }

        return count;
    }
}
