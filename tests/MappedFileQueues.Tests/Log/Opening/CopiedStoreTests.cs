using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>Copies of a store that was closed, in the boot in which it was used.</summary>
public sealed class CopiedStoreTests : IDisposable
{
    private readonly TempStore _temp = new();

    private string Copy => Path.Combine(_temp.Root, "copy");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A copy by `cp -al` has the files of the original. Both opened, and each appended into the other's segments, with offsets
    /// of its own.
    /// </summary>
    [Fact]
    public void Open_CopyOfHardLinks_IsRefusedAndCanBeRead()
    {
        Refusal.MakeStore(_temp.StorePath);
        CopyWith("-al");

        foreach (string path in new[] { Copy, _temp.StorePath })
            Refusal.Of<QueueFormatException>(_temp, path, () => Refusal.Attach(path), "cp -a");

        Assert.Equal(3, Refusal.CountMessages(Copy));
        Directory.Delete(Copy, recursive: true);
        Refusal.Attach(_temp.StorePath);
        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    /// <summary>
    /// Where the system cannot rename without replacing, it gives the second name and takes the first: a crash in between left
    /// both, of a store that was being made or of a snapshot that was finished, and it was taken for such a copy.
    /// </summary>
    [Theory]
    [InlineData("queue.meta.tmp")]
    [InlineData("queue.meta.snapshot")]
    public void Open_FormerNameOfTheMetaPageIsLeft_Opens(string former)
    {
        Refusal.MakeStore(_temp.StorePath);
        using (Process link = Process.Start("ln", [_temp.PathOf("queue.meta"), _temp.PathOf(former)]))
            link.WaitForExit();

        Refusal.Attach(_temp.StorePath);

        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    [Fact]
    public void OpenPack_CopyOfHardLinks_IsRefusedAndCanBeRead()
    {
        var options = new PackOptions { CreateIfMissing = true };
        using (PackStore pack = PackStore.Open(_temp.StorePath, options))
            pack.Put("one", [1]);
        CopyWith("-al");

        Assert.Throws<PackFormatException>(() => PackStore.Open(Copy, options));
        using PackReader reader = PackStore.OpenReader(Copy);
        Assert.Equal(1, reader.GetInfo().Count);
    }

    /// <summary>
    /// A backup that was restored in the same boot used (store id, epoch, offset) again for other messages: whoever had stored
    /// those of the original took them for the same.
    /// </summary>
    [Fact]
    public void Open_RestoredCopy_RaisesTheEpochOnceAndCutsNothing()
    {
        Refusal.MakeStore(_temp.StorePath);
        Refusal.Attach(_temp.StorePath);
        long before = EpochOf(_temp.StorePath);
        Assert.Equal(before, EpochOf(_temp.StorePath));
        CopyWith("-a");

        long after = EpochOf(Copy);

        Assert.InRange(after, before + 1, long.MaxValue);
        Assert.Equal(after, EpochOf(Copy));
        Assert.Equal(3, Refusal.CountMessages(Copy));
        Assert.False(Directory.Exists(Path.Combine(Copy, "salvage")));
        Assert.Equal(before, EpochOf(_temp.StorePath));
        string moved = Path.Combine(_temp.Root, "moved");
        Directory.Move(_temp.StorePath, moved);
        Assert.Equal(before, EpochOf(moved));
    }

    /// <summary>
    /// A backup that was restored a second time began with the epoch of the first time. A consumer that remembers (epoch, offset)
    /// passed over the messages that came after the second.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Open_RestoredTwice_TheEpochIsAnotherOne(bool isSnapshot)
    {
        string backup = Path.Combine(_temp.Root, "backup");
        Refusal.MakeStore(_temp.StorePath);
        if (isSnapshot)
        {
            using MappedFileQueue queue = new(Refusal.Options(_temp.StorePath));
            queue.Snapshot(backup, new SnapshotOptions { KeepStoreId = true });
        }
        else
            CopyWith("-a", _temp.StorePath, backup);

        CopyWith("-a", backup, Copy);
        long first = EpochOf(Copy);
        Directory.Delete(Copy, recursive: true);
        CopyWith("-a", backup, Copy);

        Assert.InRange(EpochOf(Copy), first + 1, long.MaxValue);
    }

    /// <summary>
    /// A copy of a store in use, whose producers' files were copied last. The copy's producer was told that its file is damaged,
    /// until others had appended so much that the file's place was in the log: then messages that the copy does not have passed
    /// for repetitions, and were lost.
    /// </summary>
    [Theory]
    [InlineData(0)]
    [InlineData(40)]
    public void OpenProducer_CopyWithAYoungerFile_KnowsWhatTheCopyHas(int others)
    {
        using (MappedFileQueue<long> queue = OpenLongs(_temp.StorePath))
        {
            using (MappedFileIdempotentProducer<long> producer = queue.OpenProducer("orders"))
                Produce(producer, 1, 10);
            queue.Flush();
            CopyWith("-a");
            using (MappedFileIdempotentProducer<long> producer = queue.OpenProducer("orders"))
            {
                Produce(producer, 11, 20);
                queue.Flush();
            }
        }

        const string file = "offset/producers/orders.producer";
        File.Copy(_temp.PathOf(file), Path.Combine(Copy, file), overwrite: true);
        using MappedFileQueue<long> copy = OpenLongs(Copy);
        for (int i = 0; i < others; i++)
            copy.Producer.Produce(0);
        using MappedFileIdempotentProducer<long> again = copy.OpenProducer("orders");
        Assert.Equal(10ul, again.LastSequence);

        static void Produce(MappedFileIdempotentProducer<long> producer, long from, long to)
        {
            for (long i = from; i <= to; i++)
                Assert.True(producer.TryProduce(i, (ulong)i));
        }
    }

    /// <summary>
    /// Nobody syncs what `cp` writes. A copy was opened, and all of its log was durable at once; a message that was flushed into
    /// it was not there after a power loss, because the system had not written `queue.meta` yet, nor the segments before it.
    /// </summary>
    [Fact]
    public void Open_RestoredCopy_IsOnDiskBeforeAnythingIsDurable()
    {
        using (MappedFileQueue<long> queue = OpenLongs(_temp.StorePath))
        {
            queue.SetRetention(new RetentionOptions { MaxBytes = 1 << 30 });
            using (MappedFileIdempotentProducer<long> producer = queue.OpenProducer("orders"))
            {
                for (int i = 0; i < 3000; i++)
                    producer.Produce(i);
            }

            queue.OpenConsumer("c").Dispose();
            queue.OpenGroupMember("g").Dispose();
            queue.Flush();
        }

        CopyWith("-a");
        var disk = new FaultyDisk();
        HashSet<string> synced = [];
        disk.Before = (call, name) =>
        {
            if (call is DiskCall.Synced or DiskCall.SyncEntries)
                synced.Add(name);
        };

        OpenLongs(Copy).Dispose();

        disk.Before = null;
        string[] files =
        [
            "", "commitlog", "offset", "offset/consumers", "offset/groups", "offset/producers", "queue.meta", "retention",
            StoreNames.Segment(0), StoreNames.Segment(65536), "offset/producer.checkpoint", "offset/consumers/c.cursor",
            "offset/groups/g.saved", "offset/producers/orders.producer",
        ];
        Assert.Empty(files.Except(synced));
    }

    private static MappedFileQueue<long> OpenLongs(string path) => new(new() { StorePath = path, SegmentSize = 65536 });

    private static long EpochOf(string path)
    {
        using MappedFileQueue queue = new(Refusal.Options(path));
        return queue.GetInfo().Epoch;
    }

    private void CopyWith(string option) => CopyWith(option, _temp.StorePath, Copy);

    private static void CopyWith(string option, string from, string to)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "cp is a tool of Linux");
        using var copying = Process.Start("cp", [option, from, to]);
        copying.WaitForExit();
        Assert.Equal(0, copying.ExitCode);
    }

    /// <summary>
    /// A copy may lack the files of slots, and the opener makes them. Where it could not, each attempt left the table of slots
    /// mapped for the life of the process.
    /// </summary>
    [Fact]
    public void Open_FileOfASlotCannotBeMade_NothingStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        PlatformScope.Use(portable: false);
        MappedFileQueueOptions options = new() { StorePath = _temp.StorePath, SegmentSize = 4096 };
        using (MappedFileQueue queue = new(options))
            queue.Producer.Produce([1]);
        string slot = _temp.PathOf(StoreNames.SlotLock(0));
        File.Delete(slot);
        File.CreateSymbolicLink(slot, _temp.PathOf("missing", "folder"));

        Assert.Throws<QueueDiskException>(() => new MappedFileQueue(options));

        Assert.DoesNotContain(
            File.ReadLines("/proc/self/maps"), line => line.Contains(_temp.StorePath, StringComparison.Ordinal));
    }
}
