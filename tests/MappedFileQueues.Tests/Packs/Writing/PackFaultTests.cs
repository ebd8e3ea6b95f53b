using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Writing;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>Disks that are full, fail, or lose what was not synced.</summary>
public sealed class PackFaultTests : IDisposable
{
    private const int Enospc = 28;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("tmpfs", false)]
    [InlineData("ext4", false)]
    [InlineData("tmpfs", true)]
    public void Put_DiskFillsUp_ThrowsLosesNothingAndGoesOn(string fileSystem, bool portable)
    {
        using MountedFileSystem disk = MountedFileSystem.Make(fileSystem, _temp.Root);
        PlatformScope.Use(portable);
        File.WriteAllBytes(disk.PathOf("ballast"), new byte[1024 * 1024]);
        int count = 0;
        PackOptions options = new() { VolumeSize = 256 * 1024 };
        using (PackStore pack = PackStore.Open(disk.PathOf("pack"), options))
        {
            QueueDiskException error = Assert.Throws<QueueDiskException>(() => Fill(pack, ref count));
            Assert.Equal(Enospc, error.Errno);
            Assert.Contains("Free space", error.Message, StringComparison.Ordinal);
            Assert.InRange(count, 100, 5000);
            CheckAll(pack, count);
            Assert.Throws<QueueDiskException>(() => pack.Put("first", new byte[500_000]));
            CheckAll(pack, count);

            disk.Free("ballast");
            for (int i = 0; i < 50; i++, count++)
                pack.Put($"{count}", PackBytes.Make(1000, count), PackDurability.Group);
            CheckAll(pack, count);
            Assert.Empty(pack.Verify().Damages);
        }

        using (PackStore pack = PackStore.Open(disk.PathOf("pack"), options))
        {
            Assert.Empty(pack.Damages);
            CheckAll(pack, count);
        }
    }

    /// <summary>
    /// The copy of a compaction that failed after its rename stayed in the folder. Later compactions went other ways, and dropped
    /// the tombstone of an object that the copy still held: made anew from the volumes, the index had it again.
    /// </summary>
    [Theory]
    [InlineData("volumes")]
    [InlineData("volumes/00000001-00000002-0001.pack")]
    public void Compact_FailsAfterItsRename_LeavesNoCopy(string failing)
    {
        const int Unit = 640;
        var disk = new FaultyDisk();
        using (PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 100 * Unit }))
        {
            Put(pack, ("live 1", 54), ("dead 1", 44), ("live 2", 34), ("deleted", 5), ("dead 2", 20), ("live 3", 45));
            Put(pack, ("dead 1", 1), ("dead 2", 1));
            bool isRenamed = false;
            disk.Before = (call, name) =>
            {
                if (isRenamed && call is DiskCall.Open or DiskCall.SyncEntries && name == failing)
                {
                    disk.Before = null;
                    throw FaultyDisk.Broken(name);
                }

                isRenamed |= call == DiskCall.Renamed;
            };
            Assert.Throws<QueueDiskException>(() => pack.Compact(0.3));
            pack.Delete("deleted");
            Assert.Equal(1, pack.Compact(0.435).VolumesReplaced);
            Assert.Equal(1, pack.Compact(0.3).VolumesReplaced);
            Put(pack, ("live 4", 90));
            Assert.Equal(2, pack.Compact(0).VolumesReplaced);
            Assert.Null(pack.Get("deleted"));
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        using PackStore again = PackStore.Open(_temp.StorePath);
        Assert.Empty(again.Damages);
        Assert.Null(again.Get("deleted"));
        Assert.Equal(new byte[54 * Unit], again.Get("live 1"));

        static void Put(PackStore pack, params ReadOnlySpan<(string Key, int Units)> objects)
        {
            foreach ((string key, int units) in objects)
                pack.Put(key, new byte[units * Unit]);
        }
    }

    [Fact]
    public void Compact_DiskIsFull_ThrowsAndTheOldVolumesStay()
    {
        // Roomy enough for all new volumes beside the old ones, whose room may come back late (see MountedFileSystem.Free).
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root, lengthMiB: 6);
        const int Count = 2900;
        using PackStore pack = PackStore.Open(disk.PathOf("pack"), new PackOptions { VolumeSize = 1024 * 1024 });
        for (int i = 0; i < Count; i++)
            pack.Put($"{i}", PackBytes.Make(1000, i));
        for (int i = 0; i < Count; i += 2)
            pack.Delete($"{i}");
        using (FileStream ballast = new(disk.PathOf("ballast"), FileMode.CreateNew, FileAccess.Write, FileShare.None, 1))
            Assert.ThrowsAny<IOException>(() => WriteUntilFull(ballast));

        Assert.Equal(Enospc, Assert.Throws<QueueDiskException>(() => pack.Compact(0)).Errno);
        Check();
        disk.Free("ballast");
        Assert.True(pack.Compact(0).BytesFreed > 1_000_000);
        Check();

        void Check()
        {
            Assert.Empty(pack.Verify().Damages);
            Assert.Empty(Directory.GetFiles(disk.PathOf("pack"), "*.tmp", SearchOption.AllDirectories));
            for (int i = 0; i < Count; i++)
                Assert.Equal(i % 2 == 0 ? null : PackBytes.Make(1000, i), pack.Get($"{i}"));
        }
    }

    /// <summary>
    /// A pack had filled its disk: each delete needed a new volume for its tombstone and each compaction room for its copies, so
    /// only other people's files could make room.
    /// </summary>
    [Theory]
    [InlineData("tmpfs", 1)]
    [InlineData("tmpfs", 2)]
    [InlineData("ext4", 1)]
    public void DeleteAndCompact_ThePackHasFilledItsDisk_MakeRoom(string fileSystem, int step)
    {
        const int DeletedCount = 200;
        using MountedFileSystem disk = MountedFileSystem.Make(fileSystem, _temp.Root);
        PlatformScope.Use(portable: false);
        PackOptions options = new() { VolumeSize = 64 * 1024 };
        int count = 0;
        using (PackStore pack = PackStore.Open(disk.PathOf("pack"), options))
            Assert.Throws<QueueDiskException>(() => Fill(pack, ref count));

        using (PackStore pack = PackStore.Open(disk.PathOf("pack"), options))
        {
            for (int i = 0; i < DeletedCount; i++)
                Assert.True(pack.Delete($"{i * step}", PackDurability.Group));
            long before = LengthOfVolumes();
            // Again where the disk is still full: a child that another test is starting holds what the compaction has deleted,
            // and its room, until it has become its own program.
            Assert.True(Eventually.Wait(() => TryCompact(pack), Eventually.DefaultDeadline));
            Assert.True(before - LengthOfVolumes() > 100_000);
            pack.Put("again", new byte[10_000], PackDurability.Group);
        }

        using (PackStore pack = PackStore.Open(disk.PathOf("pack"), options))
        {
            Assert.Empty(pack.Damages);
            Assert.Empty(pack.Verify().Damages);
            Assert.Equal(10_000, pack.Get("again")!.Length);
            for (int i = 0; i < count; i++)
            {
                bool isDeleted = i % step == 0 && i < DeletedCount * step;
                Assert.Equal(isDeleted ? null : PackBytes.Make(1000, i), pack.Get($"{i}"));
            }
        }

        long LengthOfVolumes() =>
            new DirectoryInfo(disk.PathOf("pack", PackNames.Volumes)).EnumerateFiles().Sum(static file => file.Length);
    }

    private static bool TryCompact(PackStore pack)
    {
        try
        {
            _ = pack.Compact(0);
            return true;
        }
        catch (QueueDiskException error) when (error.Errno == Enospc)
        {
            return false;
        }
    }

    /// <summary>
    /// Deletes took all of the reserve, and small values what was left of its blocks: a compaction, which would have made room,
    /// had none.
    /// </summary>
    [Fact]
    public void Delete_UntilTheDiskTakesNoMore_NoValueIsPutAndACompactionHasRoom()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        PlatformScope.Use(portable: false);
        using PackStore pack = PackStore.Open(disk.PathOf("pack"), new PackOptions { VolumeSize = 64 * 1024 });
        int count = 0;
        int deleted = 0;
        FillAll(() => pack.Put(Key(count), PackBytes.Make(1000, count)), ref count);
        FillAll(() => Assert.True(pack.Delete(Key(deleted))), ref deleted);

        Assert.InRange(deleted, 20, 60);
        QueueDiskException error = Assert.Throws<QueueDiskException>(() => pack.Put("small", [1]));
        Assert.Contains("delete objects and compact", error.Message, StringComparison.Ordinal);
        Assert.True(pack.Compact(0).BytesFreed > 30_000);
        pack.Put("small", [1]);
        for (int i = 0; i < count; i++)
            Assert.Equal(i < deleted ? null : PackBytes.Make(1000, i), pack.Get(Key(i)));
        Assert.Empty(pack.Verify().Damages);

        static string Key(int number) => $"{number}".PadRight(1000);

        static void FillAll(Action one, ref int count)
        {
            QueueDiskException? full = null;
            for (; full is null; count += full is null ? 1 : 0)
                full = (QueueDiskException?)Record.Exception(one);
            Assert.Equal(Enospc, full.Errno);
        }
    }

    /// <summary>
    /// After `rm -rf pack` a durable put was acknowledged all the same, and a reader of the path said "nothing" for ever, also
    /// when a new pack was there.
    /// </summary>
    [Fact]
    public void PackIsRemoved_DurablePutAndReaderSaySo()
    {
        PlatformScope.Use(portable: false);
        using PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("key", "value"u8, PackDurability.Group);
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.NotNull(reader.Get("key"));
        Directory.Delete(_temp.StorePath, recursive: true);

        Assert.Throws<PackDeletedException>(() => pack.Put("key", "other"u8, PackDurability.Group));
        using (PackStore anew = PackStore.Open(_temp.StorePath))
            anew.Put("key", "new"u8);
        Assert.Throws<PackDeletedException>(() => reader.Get("key"));
    }

    /// <summary>
    /// A put that found the folder gone when it needed the next volume left none that a flush could sync, so the flush said that
    /// all was on disk.
    /// </summary>
    [Fact]
    public void Flush_PackWasRemovedBeforeTheNextVolume_Throws()
    {
        PlatformScope.Use(portable: false);
        using PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 4096 });
        pack.Put("key", new byte[3000]);
        Directory.Delete(_temp.StorePath, recursive: true);
        Assert.ThrowsAny<MappedFileQueueException>(() => pack.Put("other", new byte[3000]));

        Assert.Throws<PackDeletedException>(() => pack.Flush());
    }

    /// <summary>
    /// A full disk, and the end of a quota: the old volumes whose content is in new ones already are deleted early, and the copy
    /// continues. With a quota `mfq pack compact` gave up instead.
    /// </summary>
    [Theory]
    [InlineData(DiskErrors.ENOSPC)]
    [InlineData(DiskErrors.EDQUOT)]
    public void Compact_NoRoomAfterTheFirstVolume_MakesRoomAndGoesOn(int errno)
    {
        const int Count = 2900;
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 512 * 1024 });
        for (int i = 0; i < Count; i++)
            pack.Put($"{i}", PackBytes.Make(1000, i));
        for (int i = 0; i < Count; i += 2)
            pack.Delete($"{i}");
        bool isFull = false;
        int refused = 0;
        disk.Before = (call, name) =>
        {
            if (!name.StartsWith("volumes/", StringComparison.Ordinal))
                return;
            bool isOfCompaction = !name.EndsWith("-0000.pack", StringComparison.Ordinal);
            if (call == DiskCall.Renamed && isOfCompaction)
                isFull = refused == 0;
            else if (call == DiskCall.Deleted && !name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal))
                isFull = false;
            else if (call == DiskCall.Write && isFull)
            {
                refused++;
                throw new QueueDiskException($"No room: {name}.", errno, name);
            }
        };

        Assert.True(pack.Compact(0).BytesFreed > 1_000_000);

        disk.Before = null;
        Assert.Equal(1, refused);
        Assert.Empty(pack.Verify().Damages);
        for (int i = 0; i < Count; i++)
            Assert.Equal(i % 2 == 0 ? null : PackBytes.Make(1000, i), pack.Get($"{i}"));
    }

    [Theory]
    [InlineData("volumes/")]
    [InlineData("index.checkpoint.tmp")]
    public void Sync_Fails_NothingIsWrittenUntilReopenedAndThenAllIsThere(string file)
    {
        var disk = new FaultyDisk();
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("before", [1], PackDurability.Group);
            pack.Put("later", [2]);
            disk.FailNextSync(file);
            if (file == "volumes/")
            {
                QueueDiskException error = Assert.Throws<QueueDiskException>(() => pack.Put("failed", [3], PackDurability.Group));
                Assert.Equal(DiskErrors.EIO, error.Errno);
                Assert.Throws<PackPoisonedException>(() => pack.Put("after", [4]));
                Assert.Throws<PackPoisonedException>(() => pack.Delete("before"));
                Assert.Throws<PackPoisonedException>(pack.Flush);
                Assert.True(File.Exists(_temp.PathOf("poison")));
            }

            Assert.Equal([1], pack.Get("before"));
        }

        Assert.False(File.Exists(_temp.PathOf("index.checkpoint")), "nothing was checkpointed");
        List<string> rewritten = [];
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Write && name.StartsWith("volumes/", StringComparison.Ordinal))
                rewritten.Add(name);
        };
        using PackStore reopened = PackStore.Open(_temp.StorePath);
        Assert.Equal([1], reopened.Get("before"));
        Assert.Equal([2], reopened.Get("later"));
        Assert.False(File.Exists(_temp.PathOf("poison")));

        // What the failed sync may have lost is written once more.
        Assert.Equal(file == "volumes/", rewritten.Count > 0);
        reopened.Put("again", [5], PackDurability.Group);
    }

    /// <summary>
    /// An opening syncs a last volume that takes no more puts. When that failed, the next opening's sync succeeded and wrote
    /// nothing, because the system takes the pages for clean, and everything that followed counted on that volume.
    /// </summary>
    [Fact]
    public void Open_SyncOfATornVolumeFails_TheNextOpeningWritesItAgain()
    {
        var disk = new FaultyDisk();
        const string volume = "volumes/00000001-00000001-0000.pack";
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("before", [1]);
        string path = Directory.GetFiles(_temp.PathOf("volumes")).Single();
        Assert.EndsWith(volume, path.Replace('\\', '/'), StringComparison.Ordinal);
        File.AppendAllBytes(path, new byte[100]);
        disk.FailNextSync(volume);

        Assert.Throws<QueueDiskException>(() => PackStore.Open(_temp.StorePath));

        Assert.True(File.Exists(_temp.PathOf("poison")));
        List<string> calls = [];
        disk.Before = (call, name) => calls.Add($"{call} {name}");
        using PackStore again = PackStore.Open(_temp.StorePath);
        disk.Before = null;
        Assert.Contains($"Write {volume}", calls);
        Assert.Equal([1], again.Get("before"));
        Assert.False(File.Exists(_temp.PathOf("poison")));
    }

    [Fact]
    public async Task Put_GroupFromManyThreads_ShareOneSync()
    {
        const int ThreadCount = 8;
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("before", [0], PackDurability.Group);
        int syncs = 0;
        disk.Before = (call, name) =>
        {
            // The first sync lasts until all have written; whoever is not covered by it shares the next one.
            if (call == DiskCall.Sync && Interlocked.Increment(ref syncs) == 1)
                Eventually.True(() => pack.Count == ThreadCount + 1, "all have written");
        };
        Task[] puts =
        [
            .. Enumerable.Range(0, ThreadCount).Select(thread => Task.Factory.StartNew(
                () => pack.Put($"{thread}", PackBytes.Make(thread, thread), PackDurability.Group),
                TaskCreationOptions.LongRunning)),
        ];
        await Task.WhenAll(puts).WaitAsync(Eventually.DefaultDeadline);

        Assert.InRange(Volatile.Read(ref syncs), 1, 2);
    }

    [Fact]
    public async Task Put_Group_ReturnsOnlyAfterASyncThatBeganLater()
    {
        var disk = new FaultyDisk();
        using var isInSync = new ManualResetEventSlim();
        using var mayEnd = new ManualResetEventSlim();
        using PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("before", [0], PackDurability.Group);
        int syncs = 0;
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Sync || Interlocked.Increment(ref syncs) > 1)
                return;
            isInSync.Set();
            Assert.True(mayEnd.Wait(Eventually.DefaultDeadline));
        };
        Task first = Task.Run(() => pack.Put("first", [1], PackDurability.Group));
        Assert.True(isInSync.Wait(Eventually.DefaultDeadline));

        // Written while the first sync is under way: that one says nothing about it.
        Task second = Task.Run(() => pack.Put("second", [2], PackDurability.Group));
        Eventually.True(() => pack.Contains("second"), "the second is written");
        Assert.False(second.IsCompleted);
        mayEnd.Set();
        await Task.WhenAll(first, second).WaitAsync(Eventually.DefaultDeadline);
        Assert.Equal(2, Volatile.Read(ref syncs));
    }

    /// <summary>
    /// Of two syncs of a file at the same time the system tells only one of an error. The other would have written a checkpoint
    /// that vouches for what is lost.
    /// </summary>
    [Fact]
    public async Task Sync_FailsBesideACheckpoint_NoCheckpointIsWritten()
    {
        var disk = new FaultyDisk();
        var options = new PackOptions();
        using var writer = new PackWriter(PackOpening.OpenWriter(_temp.StorePath, options, useCheckpoint: true), options);
        writer.Append(NeedleKind.Value, "before"u8, [0], PackDurability.Group);
        using var isInSync = new ManualResetEventSlim();
        using var isBeside = new ManualResetEventSlim();
        int syncs = 0;
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Sync || !name.StartsWith("volumes/", StringComparison.Ordinal))
                return;
            if (Interlocked.Increment(ref syncs) > 1)
            {
                isBeside.Set();
                return;
            }

            // The other one has the time to come beside this one, and must not.
            isInSync.Set();
            isBeside.Wait(TimeSpan.FromMilliseconds(500));
            throw FaultyDisk.Broken(name);
        };
        Task put = Task.Run(() => writer.Append(NeedleKind.Value, "key"u8, [1], PackDurability.Group));
        Assert.True(isInSync.Wait(Eventually.DefaultDeadline));
        Assert.Throws<PackPoisonedException>(writer.Checkpoint);
        await Assert.ThrowsAsync<QueueDiskException>(() => put.WaitAsync(Eventually.DefaultDeadline));

        Assert.False(File.Exists(_temp.PathOf("index.checkpoint")));
        Assert.Equal(1, Volatile.Read(ref syncs));
    }

    /// <summary>
    /// A compaction has given its copy a name and fails then. The next one joins the volume with its neighbour: were its copy of
    /// the same generation, both would count when the index is made from the volumes.
    /// </summary>
    [Fact]
    public void Compact_FailsBehindTheRenaming_TheNextOneStandsAboveItsCopy()
    {
        var disk = new FaultyDisk();
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("alive", [1]);
            for (int i = 0; i < 5; i++)
                pack.Put($"{i % 3}", PackBytes.Make(1000, i));
            disk.Before = (call, name) =>
            {
                if (call == DiskCall.SyncEntries && name == "volumes")
                    throw FaultyDisk.Broken(name);
            };
            Assert.Throws<QueueDiskException>(() => pack.Compact(0));
            disk.Before = null;
            for (int i = 5; i < 9; i++)
                pack.Put($"{i % 3}", PackBytes.Make(1000, i));
            using (var cancelled = new CancellationTokenSource())
            {
                cancelled.Cancel();
                Assert.Throws<OperationCanceledException>(() => pack.Compact(0, cancelled.Token));
            }

            Assert.Equal(2, pack.Compact(1).VolumesReplaced);
            Check(pack);
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            Check(pack);

        static void Check(PackStore pack)
        {
            Assert.Empty(pack.Damages);
            Assert.Empty(pack.Verify().Damages);
            Assert.Equal([1], pack.Get("alive"));
            for (int i = 6; i < 9; i++)
                Assert.Equal(PackBytes.Make(1000, i), pack.Get($"{i % 3}"));
        }
    }

    private static void Fill(PackStore pack, ref int count)
    {
        while (true)
        {
            pack.Put($"{count}", PackBytes.Make(1000, count));
            count++;
        }
    }

    private static void WriteUntilFull(FileStream ballast)
    {
        byte[] chunk = new byte[4096];
        while (true)
            ballast.Write(chunk);
    }

    private static void CheckAll(PackStore pack, int count)
    {
        Assert.Equal(count, pack.Count);
        for (int i = 0; i < count; i++)
            Assert.Equal(PackBytes.Make(1000, i), pack.Get($"{i}"));
    }
}
