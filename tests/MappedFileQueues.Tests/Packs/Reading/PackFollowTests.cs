using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Loading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Packs.Reading;

/// <summary>Readers beside a writer, at the moments at which their looks at the files go apart.</summary>
public sealed class PackFollowTests : IDisposable
{
    private static readonly PackOptions s_small = new() { VolumeSize = 4096 };

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Windows replaces no file that somebody has open. A reader that follows kept the checkpoint open: each compaction beside it
    /// ended with "access denied" after two seconds, and each checkpoint of the writer failed unseen.
    /// </summary>
    [Fact]
    public void Compact_PortableReaderFollows_ReplacesTheCheckpoint()
    {
        PlatformScope.Use(portable: true);
        using (PackStore first = PackStore.Open(_temp.StorePath, s_small))
        {
            for (int i = 0; i < 60; i++)
                first.Put($"key {i}", PackBytes.Make(300, i));
        }

        using PackStore pack = PackStore.Open(_temp.StorePath, s_small);
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        for (int round = 0; round < 3; round++)
        {
            for (int i = 0; i < 60; i += 2)
                pack.Put($"key {i}", PackBytes.Make(300, i + round));
            Assert.True(pack.Compact(0.2).VolumesReplaced > 0);
            reader.Refresh();
            Assert.Equal(PackBytes.Make(300, 58 + round), reader.Get("key 58"));
            if (OperatingSystem.IsLinux())
                Assert.DoesNotContain(_temp.PathOf("index.checkpoint"), OpenFiles());
        }

        static IEnumerable<string?> OpenFiles() =>
            Directory.EnumerateFiles("/proc/self/fd").Select(file => new FileInfo(file).LinkTarget);
    }

    /// <summary>
    /// The reader asks for the file's length while the writer is inside of a needle. When it gets there, the needle is whole, a
    /// sync has covered it, and the needle after it says so. That is no damage.
    /// </summary>
    [Fact]
    public void Replay_LengthWasAskedInsideANeedle_TakesItTheNextTime()
    {
        long[] ends = new long[3];
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            for (int i = 0; i < ends.Length; i++)
            {
                pack.Put($"key {i}", new byte[500], PackDurability.Group);
                ends[i] = pack.GetInfo().Length;
            }
        }

        using PackCore core = NewCore();
        var file = new MemoryFile("volume");
        file.WriteAt(File.ReadAllBytes(Directory.GetFiles(_temp.PathOf("volumes")).Single()), 0);
        var volume = new Volume(new VolumeName(1, 1, 0), file, core.Meta.PackId) { Tail = VolumeHeader.Length };
        core.Volumes.Add(volume);
        file.Lengths.Enqueue(ends[0] + 100);
        new PackReplay(core).Replay(volume, volume.Tail, isLast: true, proven: volume.Tail);

        Assert.Empty(core.Damages);
        Assert.Equal(ends[0], volume.Tail);
        new PackReplay(core).Replay(volume, volume.Tail, isLast: true, proven: volume.Tail);
        Assert.Empty(core.Damages);
        Assert.Equal(3, core.Index.Count);
    }

    /// <summary>
    /// The first look at a needle finds half of it, because it is being written over what a failed write left. The search for a
    /// proof finds the one behind it, and by then the first is whole.
    /// </summary>
    [Fact]
    public void Replay_NeedleBecomesWholeDuringTheSearch_IsNoDamage()
    {
        long end;
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("key 0", new byte[500], PackDurability.Group);
            end = pack.GetInfo().Length;
            pack.Put("key 1", new byte[500], PackDurability.Group);
            pack.Put("key 2", new byte[500], PackDurability.Group);
        }

        using PackCore core = NewCore();
        var file = new MemoryFile("volume");
        byte[] whole = File.ReadAllBytes(Directory.GetFiles(_temp.PathOf("volumes")).Single());
        file.WriteAt(whole, 0);
        file.WriteAt(PackBytes.Make(200, 1), end + 300);
        var volume = new Volume(new VolumeName(1, 1, 0), file, core.Meta.PackId) { Tail = VolumeHeader.Length };
        core.Volumes.Add(volume);
        int reads = 0;
        file.BeforeRead = () =>
        {
            // The scan has read the file once, and the search for a proof once.
            if (++reads > 2)
                file.WriteAt(whole, 0);
        };
        new PackReplay(core).Replay(volume, volume.Tail, isLast: true, proven: volume.Tail);
        new PackReplay(core).Replay(volume, volume.Tail, isLast: true, proven: volume.Tail);

        Assert.True(reads > 2);
        Assert.Empty(core.Damages);
        Assert.Equal(3, core.Index.Count);
    }

    /// <summary>
    /// A writer that could not open its new volume, for lack of a descriptor, makes it anew with its next put. A reader that
    /// had seen the first one stayed with that, and never found what was put into the second.
    /// </summary>
    [Theory]
    [InlineData("volumes/00000002-00000002-0000.pack")]
    [InlineData("volumes")]
    public void Refresh_TheNewVolumeIsMadeTwice_ReadsTheSecond(string failing)
    {
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(_temp.StorePath, s_small);
        pack.Put("key 1", PackBytes.Make(3000, 1));
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        int left = 1;
        disk.Before = (reached, file) =>
        {
            if (reached is DiskCall.Open or DiskCall.SyncEntries && file == failing && Interlocked.Decrement(ref left) == 0)
                throw FaultyDisk.Broken(file);
        };
        Assert.Throws<QueueDiskException>(() => pack.Put("key 2", PackBytes.Make(3000, 2)));
        Assert.Equal(1, reader.Count);

        pack.Put("key 2", PackBytes.Make(3000, 2));
        Assert.Equal(PackBytes.Make(3000, 2), reader.Get("key 2"));
        pack.Put("key 3", PackBytes.Make(3000, 3));
        Assert.Equal(3, reader.Count);
    }

    [Theory]
    [InlineData("index.checkpoint")]
    [InlineData("volumes/00000001")]
    public void Refresh_AFileCannotBeOpened_ThrowsAndTheNextOneFollows(string unopened)
    {
        var disk = new FaultyDisk();
        using (PackStore made = PackStore.Open(_temp.StorePath, s_small))
        {
            for (int i = 0; i < 20; i++)
                made.Put($"key {i}", PackBytes.Make(500, i));
        }

        // The reader holds the checkpoint of that closing.
        using PackStore pack = PackStore.Open(_temp.StorePath);
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        for (int i = 0; i < 15; i++)
            pack.Put($"key {i}", PackBytes.Make(500, 100 + i));
        pack.Delete("key 19");
        Assert.True(pack.Compact(0).VolumesMade > 0);

        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Open && name.StartsWith(unopened, StringComparison.Ordinal))
                throw FaultyDisk.Broken(name);
        };
        Assert.Throws<QueueDiskException>(reader.Refresh);
        Assert.Throws<QueueDiskException>(() => reader.Contains("key 1"));
        disk.Before = null;

        Assert.Equal(PackBytes.Make(500, 101), reader.Get("key 1"));
        Assert.Null(reader.Get("key 19"));
        Assert.Equal(pack.Count, reader.Count);
        Assert.True(reader.Verify().IsWhole);
    }

    [Fact]
    public void Verify_CompactionRemovesVolumesMeanwhile_IsWhole()
    {
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(_temp.StorePath, s_small);
        for (int i = 0; i < 40; i++)
            pack.Put($"key {i % 30}", PackBytes.Make(500, i));
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        int opened = 0;
        bool isCompacted = false;
        disk.Before = (call, name) =>
        {
            // The first time it is loaded, the second time verified.
            bool isFirst = call == DiskCall.Open && name == "volumes/00000001-00000001-0000.pack" && ++opened == 2;
            if (!isFirst)
                return;
            isCompacted = true;
            Assert.True(pack.Compact(0).VolumesReplaced > 1);
        };

        PackVerification verification = reader.Verify();
        Assert.True(isCompacted);
        Assert.Empty(verification.Damages);
        Assert.Equal(30, verification.Count);
        Assert.Empty(pack.Verify().Damages);
    }

    /// <summary>
    /// A get of a reader that follows the writer waited until the verification had read every byte of the pack.
    /// </summary>
    [Fact]
    public async Task Get_DuringAVerification_DoesNotWait()
    {
        TimeSpan deadline = TimeSpan.FromSeconds(30);
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(_temp.StorePath, s_small);
        for (int i = 0; i < 40; i++)
            pack.Put($"key {i}", PackBytes.Make(500, i));
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        using var isReading = new ManualResetEventSlim();
        using var mayRead = new ManualResetEventSlim();
        CancellationToken cancellation = TestContext.Current.CancellationToken;
        int verifying = 0;
        Task<PackVerification> verification = Task.Run(
            () =>
            {
                verifying = Environment.CurrentManagedThreadId;
                disk.BeforeRead = (name, _) =>
                {
                    bool isIt = name == "volumes/00000001-00000001-0000.pack"
                        && Environment.CurrentManagedThreadId == verifying;
                    if (!isIt)
                        return;
                    isReading.Set();
                    Assert.True(mayRead.Wait(deadline, CancellationToken.None));
                };
                return reader.Verify();
            },
            cancellation);
        Assert.True(isReading.Wait(deadline, cancellation));

        pack.Put("key 40", PackBytes.Make(500, 40));
        Task<byte[]?> got = Task.Run(() => reader.Get("key 40"), cancellation);
        Task first = await Task.WhenAny(got, Task.Delay(deadline / 3, cancellation));
        mayRead.Set();

        Assert.Same(got, first);
        Assert.Equal(PackBytes.Make(500, 40), await got);
        Assert.Empty((await verification).Damages);

        // Nor does the end of the reader.
        disk.BeforeRead = null;
        int opened = 0;
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Open && name == "volumes/00000001-00000001-0000.pack" && ++opened == 2)
                reader.Dispose();
        };
        ObjectDisposedException error = Assert.Throws<ObjectDisposedException>(reader.Verify);
        Assert.Equal(typeof(PackReader).FullName, error.ObjectName);
    }

    /// <summary>
    /// A killed compaction left its copy beside a checkpoint that does not name it. Where files have no identity, a reader looks
    /// at the names each time, took the copy for news, and loaded the whole index for each get.
    /// </summary>
    [Fact]
    public void Get_PortableBesideAKilledCompaction_DoesNotLoadEachTime()
    {
        PlatformScope.Use(portable: true);
        using (PackStore first = PackStore.Open(_temp.StorePath, s_small))
        {
            for (int i = 0; i < 40; i++)
                first.Put($"key {i}", PackBytes.Make(500, i));
        }

        string killed = PackBytes.Copy(_temp, "killed");
        using (PackStore pack = PackStore.Open(_temp.StorePath, s_small))
        {
            for (int i = 0; i < 40; i += 2)
                pack.Put($"key {i}", [1]);
            pack.Compact(0.1);
        }

        string copy = Directory.GetFiles(_temp.PathOf("volumes"), "*-0001.pack").Order().First();
        File.Copy(copy, Path.Combine(killed, "volumes", Path.GetFileName(copy)));
        var disk = new CountingDisk();
        using PackReader reader = PackStore.OpenReader(killed);
        Assert.Equal(PackBytes.Make(500, 1), reader.Get("key 1"));
        long before = disk.BytesRead;
        Assert.Equal(PackBytes.Make(500, 2), reader.Get("key 2"));
        Assert.InRange(disk.BytesRead - before, 500, 5000);

        // The next writer removes the copy; then its own counts.
        using PackStore writer = PackStore.Open(killed, s_small);
        for (int i = 0; i < 40; i += 2)
            writer.Put($"key {i}", [2]);
        Assert.NotEqual(0, writer.Compact(0.1).VolumesReplaced);
        Assert.Equal([2], reader.Get("key 2"));
        Assert.Equal(PackBytes.Make(500, 1), reader.Get("key 1"));
    }

    [Fact]
    public void Enumerate_CompactionBeforeTheFirstStep_GivesAll()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath, s_small);
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        for (int i = 0; i < 40; i++)
            pack.Put($"key {i % 30}", PackBytes.Make(500, i));
        IEnumerable<PackEntry> entries = reader.Enumerate();
        Assert.Equal(30, entries.Count());

        Assert.True(pack.Compact(0).VolumesReplaced > 0);
        reader.Refresh();
        Assert.Equal(30, entries.Count());
        using IEnumerator<PackEntry> begun = entries.GetEnumerator();
        Assert.True(begun.MoveNext());
        reader.Dispose();
        Assert.True(begun.MoveNext());
        Assert.Throws<ObjectDisposedException>(() => entries.Count());
    }

    [Fact]
    public void Dispose_ThenAnyCall_IsRefused()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("key", [1]);
        foreach (bool follows in (bool[])[true, false])
        {
            PackReader reader = PackStore.OpenReader(_temp.StorePath, new PackReaderOptions { FollowWriter = follows });
            reader.Dispose();
            foreach (string key in (string[])["key", "none"])
            {
                Assert.Throws<ObjectDisposedException>(() => reader.Get(key));
                Assert.Throws<ObjectDisposedException>(() => reader.Contains(key));
            }

            Assert.Throws<ObjectDisposedException>(() => reader.Enumerate().Count());
            Assert.Throws<ObjectDisposedException>(() => reader.Count);
            Assert.Throws<ObjectDisposedException>(reader.GetInfo);
            Assert.Equal(typeof(PackReader).FullName, Assert.Throws<ObjectDisposedException>(() => reader.Get("key")).ObjectName);
        }
    }

    /// <summary>
    /// The reader learns of a compaction by its checkpoint, which may be deleted at any time. One that was opened on an empty
    /// pack waited for the first volume ever after, and found nothing; the random model found it.
    /// </summary>
    [Fact]
    public void Get_CompactionWhoseCheckpointIsDeleted_IsFollowed()
    {
        PackOptions options = new() { VolumeSize = 4096 };
        PackStore pack = PackStore.Open(_temp.StorePath, options);
        using PackReader early = PackStore.OpenReader(_temp.StorePath);
        Assert.Null(early.Get("key"));
        pack.Put("key", new byte[4000]);
        using PackReader later = PackStore.OpenReader(_temp.StorePath);
        Assert.NotNull(later.Get("key"));
        pack.Put("other", new byte[2000]);
        pack.Put("other", [2]);
        pack.Put("key", [1]);
        pack.Put("last", new byte[4000]);
        pack.Compact();
        pack.Dispose();
        File.Delete(_temp.PathOf("index.checkpoint"));

        foreach (PackReader reader in new[] { early, later })
        {
            Assert.Equal([1], reader.Get("key"));
            Assert.Equal([2], reader.Get("other"));
        }
    }

    /// <summary>What was got outlives the pack; once it is disposed, the error names what the caller has in hand.</summary>
    [Fact]
    public void OwnedData_Disposed_NamesThePublicType()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("key", [1]);
        Assert.True(pack.TryGet("key", out System.Buffers.IMemoryOwner<byte>? data));
        data.Dispose();

        ObjectDisposedException error = Assert.Throws<ObjectDisposedException>(() => data.Memory);
        Assert.Contains("IMemoryOwner", error.ObjectName, StringComparison.Ordinal);
    }

    private PackCore NewCore()
    {
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        return new PackCore(directory, PackLoader.ReadMeta(directory)!, new PackAccess { Owner = typeof(PackReader) });
    }
}
