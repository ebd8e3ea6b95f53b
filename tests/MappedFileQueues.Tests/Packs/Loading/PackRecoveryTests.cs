using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Tests.Packs.Loading;

/// <summary>What an opening makes of volumes that are missing, that are back, or that a killed writer left.</summary>
public sealed class PackRecoveryTests : IDisposable
{
    private static readonly PackOptions s_small = new() { VolumeSize = 4096 };

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The checkpoint names the last volume, which is gone. Had the next put made one with the same number, what the checkpoint
    /// covers of the old one would count for the new one, and a writer that is killed then would lose what it acknowledged.
    /// </summary>
    [Fact]
    public void LastVolumeMissing_WriterIsKilledAfterPuts_AllAreThere()
    {
        Fill(20);
        string[] volumes = Volumes();
        string saved = SetAside(volumes[^1]);
        string killed = Path.Combine(_temp.Root, "killed");
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Equal($"volumes/{Path.GetFileName(volumes[^1])}", Assert.Single(pack.Damages).File);
            for (int i = 0; i < 3; i++)
                pack.Put($"new {i}", PackBytes.Make(500, i), PackDurability.Group);
            Assert.Equal(PackBytes.Make(500, 2), reader.Get("new 2"));
            CopyTo(killed);
        }

        using (PackStore pack = PackStore.Open(killed))
        {
            Assert.Single(pack.Damages);
            for (int i = 0; i < 3; i++)
                Assert.Equal(PackBytes.Make(500, i), pack.Get($"new {i}"));
        }

        // Its number was not given again, so the volume can be put back beside what came after it.
        File.Move(saved, volumes[^1]);
        using PackStore restored = PackStore.Open(_temp.StorePath);
        Assert.Empty(restored.Damages);
        Assert.Equal(23, restored.Count);
        Assert.True(restored.Verify().IsWhole);
    }

    /// <summary>A verification found the rest whole and missed nothing: no volume after the missing one tells of it.</summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void LastVolumeMissing_Verify_SaysSo(bool hasCheckpoint)
    {
        Fill(20);
        if (!hasCheckpoint)
            File.Delete(_temp.PathOf("index.checkpoint"));
        string last = Volumes()[^1];
        File.Delete(last);

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.Equal($"volumes/{Path.GetFileName(last)}", Assert.Single(reader.Verify().Damages).File);
    }

    /// <summary>
    /// A killed compaction left its copy beside the volumes that it was made from, and the copy was cut. Without a checkpoint
    /// the copy counts by its name, and the opening deleted the volumes, which held all objects.
    /// </summary>
    [Theory]
    [InlineData(0)]
    [InlineData(1000)]
    public void CopyDamaged_ItsOriginalsAreThere_TheyStay(int length)
    {
        const string Copy = "00000001-00000003-0001.pack";
        Fill(20);
        string[] originals = [.. Volumes().Take(3).Select(file => Path.GetFileName(file))];
        string image = PackBytes.Copy(_temp, "killed");
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            for (int i = 0; i < 16; i++)
                pack.Put($"key {i}", [1]);
            pack.Compact(0.1);
        }

        string checkpoint = Path.Combine(image, "index.checkpoint");
        string volumes = Path.Combine(image, "volumes");
        File.Delete(checkpoint);
        byte[] copy = File.ReadAllBytes(Assert.Single(Directory.GetFiles(_temp.PathOf("volumes"), Copy)));
        File.WriteAllBytes(Path.Combine(volumes, Copy), copy[..Math.Min(length, copy.Length / 2)]);
        for (int opening = 0; opening < 3; opening++)
        {
            using PackStore pack = PackStore.Open(image);
            Assert.Contains(pack.Damages, damage => damage.File == $"volumes/{Copy}");
            Assert.All(originals, file => Assert.True(File.Exists(Path.Combine(volumes, file))));
        }

        // Without the copy they count again.
        File.Delete(Path.Combine(volumes, Copy));
        File.Delete(checkpoint);
        using PackStore restored = PackStore.Open(image);
        for (int i = 0; i < 20; i++)
            Assert.Equal(PackBytes.Make(500, i), restored.Get($"key {i}"));
    }

    /// <summary>
    /// The header is not needed, and its damage is only reported. When the disk could not give it, no opening succeeded.
    /// </summary>
    [Fact]
    public void Open_HeaderCannotBeRead_IsReported()
    {
        Fill(20);
        var disk = new FaultyDisk();
        string volume = $"volumes/{Path.GetFileName(Volumes()[1])}";
        disk.BeforeRead = (name, position) =>
        {
            if (name == volume && position == 0)
                throw FaultyDisk.Broken(name);
        };

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.Equal(volume, Assert.Single(reader.Damages).File);
        using PackStore pack = PackStore.Open(_temp.StorePath);
        Assert.Equal(volume, Assert.Single(pack.Damages).File);
        for (int i = 0; i < 20; i++)
            Assert.Equal(PackBytes.Make(500, i), pack.Get($"key {i}"));
    }

    /// <summary>A volume that the checkpoint does not name is no leftover when nothing is in its place.</summary>
    [Fact]
    public void VolumeMissingAndPutBack_AfterAnotherCheckpoint_CountsAgain()
    {
        Fill(40);
        string volume = Volumes()[1];
        string saved = SetAside(volume);
        string[] lost;
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Single(pack.Damages);
            IEnumerable<string> found = pack.Enumerate(_ => { }).Select(entry => entry.Key);
            lost = [.. Enumerable.Range(0, 40).Select(i => $"key {i}").Except(found)];
            Assert.Throws<PackCorruptException>(() => pack.Contains(lost[0]));
            Assert.True(lost.Length > 4);
            pack.Put(lost[0], [1]);
            pack.Put(lost[1], [2]);
            Assert.True(pack.Delete(lost[1]));
            Assert.True(pack.Delete("key 0"));
            for (int i = 0; i < 10; i++)
                pack.Put("filler", PackBytes.Make(900, i));
            pack.Compact(0);
        }

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.Throws<PackCorruptException>(() => reader.Contains(lost[2]));
        File.Move(saved, volume);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Empty(pack.Damages);
            Assert.True(File.Exists(volume));
            Assert.Equal([1], pack.Get(lost[0]));
            Assert.Null(pack.Get(lost[1]));
            Assert.Null(pack.Get("key 0"));
            foreach (string key in lost[2..])
                Assert.True(pack.Contains(key));
            Assert.True(pack.Verify().IsWhole);
        }

        // The checkpoint of the closing names it again.
        Assert.True(reader.Contains(lost[2]));
        using PackStore again = PackStore.Open(_temp.StorePath);
        Assert.Equal(40 - 2 + 1, again.Count);
    }

    [Fact]
    public void VolumeMissing_WithoutACheckpoint_IsReported()
    {
        Fill(40);
        File.Delete(Volumes()[1]);
        File.Delete(_temp.PathOf("index.checkpoint"));

        using PackStore pack = PackStore.Open(_temp.StorePath);
        Assert.Equal("volumes/00000002-00000002-0000.pack", Assert.Single(pack.Damages).File);
    }

    /// <summary>
    /// A writer may have been killed between a rename and the flush of the directory. What the next one acknowledges in that
    /// file, or removes because of it, counts on the name.
    /// </summary>
    [Fact]
    public void Open_Writer_FlushesTheNamesBeforeAnythingIsRemoved()
    {
        Fill(20);
        string leftover = Volumes()[0];
        string saved = Path.Combine(_temp.Root, "saved");
        File.Copy(leftover, saved);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("key 0", [1]);
            Assert.True(pack.Compact(0).VolumesReplaced > 0);
        }

        File.Move(saved, leftover);
        List<string> calls = [];
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if (call is DiskCall.SyncEntries or DiskCall.Deleted)
                calls.Add($"{call} {name}");
        };
        using PackStore opened = PackStore.Open(_temp.StorePath);

        int deleted = calls.IndexOf($"Deleted volumes/{Path.GetFileName(leftover)}");
        Assert.InRange(calls.IndexOf("SyncEntries volumes"), 0, deleted);
        Assert.InRange(calls.IndexOf("SyncEntries "), 0, deleted);
    }

    /// <summary>
    /// A killed writer left puts that are not on disk, in a volume that has damage too. The next put goes into a new volume,
    /// after which the damaged one counts as on disk.
    /// </summary>
    [Fact]
    public void Open_LastVolumeIsDamaged_IsSyncedBeforeAnotherFollows()
    {
        long position;
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("first", new byte[100], PackDurability.Group);
            position = pack.GetInfo().Length;
            pack.Put("second", new byte[100], PackDurability.Group);
            pack.Put("third", new byte[100], PackDurability.Group);
        }

        string volume = Assert.Single(Volumes());
        Flip(volume, position + 50);
        File.Delete(_temp.PathOf("index.checkpoint"));
        List<string> synced = [];
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Sync)
                synced.Add(name);
        };
        using PackStore opened = PackStore.Open(_temp.StorePath);

        Assert.Single(opened.Damages);
        Assert.Contains($"volumes/{Path.GetFileName(volume)}", synced);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void PutDelete_OfADamagedObject_ReplacesAndRemovesIt(bool isRebuilt)
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("put", [1]);
            pack.Put("deleted", [2]);
            pack.Put("other", [3]);
        }

        string volume = Assert.Single(Volumes());
        long second = VolumeHeader.Length + 48;
        Flip(volume, VolumeHeader.Length + 9);
        Flip(volume, second + 9);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Throws<PackCorruptException>(() => pack.Get("put"));
            Assert.Throws<PackCorruptException>(() => pack.Get("deleted"));
            pack.Put("put", [4]);
            Assert.True(pack.Delete("deleted"));
            Assert.False(pack.Delete("deleted"));
            Check(pack);

            // The old bytes are whole again: they are not the newest ones any more.
            Flip(volume, VolumeHeader.Length + 9);
            Flip(volume, second + 9);
            Check(pack);
        }

        if (isRebuilt)
            File.Delete(_temp.PathOf("index.checkpoint"));
        using PackStore reopened = PackStore.Open(_temp.StorePath);
        Check(reopened);
        Assert.True(reopened.Verify().IsWhole);

        static void Check(PackStore pack)
        {
            Assert.Equal([4], pack.Get("put"));
            Assert.Null(pack.Get("deleted"));
            Assert.Equal([3], pack.Get("other"));
            Assert.Equal(2, pack.Count);
        }
    }

    /// <summary>
    /// Without a checkpoint nothing but `synced` knows what was at the end. The values before it came back in silence.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void EndMissing_NoCheckpoint_OlderValuesAreInDoubt(bool isVolumeGone)
    {
        long lengthBefore;
        using (PackStore pack = PackStore.Open(_temp.StorePath, s_small))
        {
            pack.Put("key", [1], PackDurability.Group);
            for (int i = 0; i < 9; i++)
                pack.Put($"filler {i}", PackBytes.Make(500, i), PackDurability.Group);
            lengthBefore = new FileInfo(Volumes()[^1]).Length;
            pack.Put("key", [2], PackDurability.Group);
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        string last = Volumes()[^1];
        Assert.True(new FileInfo(last).Length > lengthBefore);
        if (isVolumeGone)
        {
            File.Delete(last);
        }
        else
        {
            using FileStream file = File.OpenWrite(last);
            file.SetLength(lengthBefore);
        }

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.Throws<PackCorruptException>(() => reader.Get("key"));
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.NotEmpty(pack.Damages);
            Assert.Throws<PackCorruptException>(() => pack.Get("key"));
            pack.Put("key", [3]);
            Assert.Equal([3], pack.Get("key"));
        }
    }

    /// <summary>
    /// The delete was in a volume that was missing while those before it were compacted, and called clean as of that moment.
    /// When it was back, its compaction found no older needle that the tombstone was needed for, and the key was back too.
    /// </summary>
    [Fact]
    public void VolumeMissingAndPutBack_HoldsADelete_StaysDeletedAfterItsCompaction()
    {
        PackOptions options = new() { VolumeSize = 1024 * 1024, CheckpointInterval = 1L << 40 };
        using (PackStore pack = PackStore.Open(_temp.StorePath, options))
        {
            pack.Put("deleted", [1]);
            foreach (string name in new[] { "a", "b" })
            {
                for (int i = 0; i < 4; i++)
                    pack.Put($"garbage {name}", PackBytes.Make(100_000, i));
                for (int i = 0; i < 6; i++)
                    pack.Put($"{name} {i}", PackBytes.Make(100_000, i));
                pack.Put($"rest {name}", PackBytes.Make(47_000, 0));
            }

            while (Volumes().Length < 3)
                pack.Put("until the third begins", [1]);
            Assert.True(pack.Delete("deleted", PackDurability.Group));
            for (int i = 0; i < 8; i++)
                pack.Put("garbage", PackBytes.Make(100_000, i), PackDurability.Group);
        }

        string checkpoint = _temp.PathOf("index.checkpoint");
        File.Delete(checkpoint);
        string volume = Volumes()[2];
        string saved = SetAside(volume);
        using (PackStore pack = PackStore.Open(_temp.StorePath, options))
        {
            Assert.Throws<PackCorruptException>(() => pack.Get("deleted"));
            Assert.NotEqual(0, pack.Compact(0.25).VolumesReplaced);
            pack.Put("another", [1]);
        }

        File.Move(saved, volume);
        using (PackStore pack = PackStore.Open(_temp.StorePath, options))
        {
            Assert.Null(pack.Get("deleted"));
            Assert.NotEqual(0, pack.Compact(0.25).VolumesReplaced);
            Assert.Null(pack.Get("deleted"));
        }

        File.Delete(checkpoint);
        using PackStore again = PackStore.Open(_temp.StorePath, options);
        Assert.Null(again.Get("deleted"));
    }

    private static void Flip(string file, long position)
    {
        using FileStream stream = new(file, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite | FileShare.Delete);
        stream.Position = position;
        int old = stream.ReadByte();
        stream.Position = position;
        stream.WriteByte((byte)(old ^ 1));
    }

    private void Fill(int count)
    {
        using PackStore pack = PackStore.Open(_temp.StorePath, s_small);
        for (int i = 0; i < count; i++)
            pack.Put($"key {i}", PackBytes.Make(500, i));
    }

    private string[] Volumes() => [.. Directory.GetFiles(_temp.PathOf("volumes")).Order()];

    private string SetAside(string volume)
    {
        string saved = Path.Combine(_temp.Root, "saved");
        File.Move(volume, saved);
        return saved;
    }

    /// <summary>The files as they are now: what a kill would leave.</summary>
    private void CopyTo(string folder)
    {
        string[] files = [.. Directory.GetFiles(_temp.StorePath), .. Volumes()];
        foreach (string file in files)
        {
            string copy = Path.Combine(folder, Path.GetRelativePath(_temp.StorePath, file));
            Directory.CreateDirectory(Path.GetDirectoryName(copy)!);
            File.Copy(file, copy);
        }
    }
}
