using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>A pack of limited length evicts what was put longest ago, and never brings it back.</summary>
public sealed class PackCacheTests : IDisposable
{
    private const int MaxBytes = 64 * 1024;
    private const int VolumeSize = 4096;

    private readonly TempStore _temp = TempStore.InMemory();

    public void Dispose() => _temp.Dispose();

    private static PackOptions Cache => new() { MaxBytes = MaxBytes };

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Put_MoreThanFits_TheOldestGoAndTheLengthStays(bool portable)
    {
        PlatformScope.Use(portable);
        const int Count = 1000;
        using PackReader reader = OpenBoth(out PackStore pack);
        for (int i = 0; i < Count; i++)
        {
            pack.Put($"{i}", PackBytes.Make(300, i));
            if (i % 97 == 0)
                Assert.Equal(PackBytes.Make(300, i), reader.Get($"{i}"));
            Assert.InRange(VolumesLength(), 0, MaxBytes + (64 * 100));
        }

        Assert.Equal(VolumeSize, pack.GetInfo().VolumeSize);
        Assert.Equal(Count, pack.Count + pack.EvictedCount);
        int kept = Check(pack, Count);

        // All but one volume of the room is used, and garbage none: each object takes 352 bytes.
        Assert.InRange(kept, (MaxBytes - (2 * VolumeSize)) / 352, MaxBytes / 344);
        Assert.Equal(kept, reader.Count);
        Assert.Equal(kept, reader.Enumerate().Count());
        pack.Dispose();

        // As an opening without a limit, and by the volumes alone.
        using (pack = PackStore.Open(_temp.StorePath))
            Assert.Equal(kept, Check(pack, Count));
        File.Delete(_temp.PathOf("index.checkpoint"));
        using (pack = PackStore.Open(_temp.StorePath))
            Assert.Equal(kept, Check(pack, Count));

        // A lower limit counts from the opening on.
        using (pack = PackStore.Open(_temp.StorePath, new PackOptions { MaxBytes = MaxBytes / 2 }))
        {
            Assert.InRange(Check(pack, Count), 1, (MaxBytes / 2 / 344) + 1);
            Assert.InRange(VolumesLength(), 0, (MaxBytes / 2) + (64 * 100));
        }
    }

    /// <summary>An object that is put again is as young as its last put, and its old place is nothing that keeps it.</summary>
    [Fact]
    public void Put_SameKeyAgain_StaysWhileOthersGo()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath, Cache);
        for (int i = 0; i < 2000; i++)
        {
            pack.Put($"{i}", PackBytes.Make(300, i));
            if (i % 50 == 0)
                pack.Put("again", PackBytes.Make(100, i));
            Assert.Equal(PackBytes.Make(100, i / 50 * 50), pack.Get("again"));
        }

        Assert.True(pack.Verify().IsWhole);
    }

    /// <summary>
    /// A delete of what is evicted writes nothing. So the eviction has to be on disk before it can be seen: a kill brought the
    /// object back.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Delete_OfWhatIsEvicted_StaysDeletedAfterAKill(bool withoutCheckpoint)
    {
        using PackStore pack = PackStore.Open(_temp.StorePath, Cache);
        for (int i = 0; i < 400; i++)
            pack.Put($"{i}", PackBytes.Make(300, i));
        Assert.False(pack.Delete("0"));

        string copy = PackBytes.Copy(_temp, "killed");
        if (withoutCheckpoint)
            File.Delete(Path.Combine(copy, "index.checkpoint"));
        using PackStore killed = PackStore.Open(copy);
        Assert.False(killed.Contains("0"));
        Assert.Equal(pack.Count, killed.Count);
        Assert.Empty(killed.Damages);
        Assert.True(killed.Verify().IsWhole);
    }

    [Fact]
    public void Put_LongerThanAVolume_EvictsAsManyAsItNeeds()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath, Cache);
        for (int i = 0; i < 300; i++)
            pack.Put($"{i}", PackBytes.Make(300, i));
        byte[] half = PackBytes.Make(MaxBytes / 2, 1);
        pack.Put("half", half);
        Assert.Equal(half, pack.Get("half"));
        Assert.Equal(PackBytes.Make(300, 299), pack.Get("299"));
        byte[] all = PackBytes.Make(MaxBytes - 48, 2);
        pack.Put("all", all);
        Assert.Equal(1, pack.Count);
        Assert.Equal(all, pack.Get("all"));
        Assert.Throws<ArgumentException>(() => pack.Put("more", new byte[MaxBytes]));
        pack.Put("small", [1]);
        Assert.Equal([1], pack.Get("small"));
        Assert.InRange(VolumesLength(), 0, MaxBytes + (64 * 100));
        Assert.True(pack.Verify().IsWhole);
    }

    /// <summary>Each eviction took a generation, of which there are 9,999.</summary>
    [Fact]
    public void Put_HundredsOfEvictions_TakeFewGenerations()
    {
        PackOptions options = new() { MaxBytes = 2 * VolumeSize, VolumeSize = VolumeSize };
        using (PackStore pack = PackStore.Open(_temp.StorePath, options))
        {
            for (int i = 0; i < 4000; i++)
                pack.Put($"{i}", PackBytes.Make(300, i));
        }

        VolumeName[] names = [.. Directory.GetFiles(_temp.PathOf("volumes")).Select(file =>
            VolumeName.TryParse(Path.GetFileName(file), out VolumeName name) ? name : throw new FormatException(file))];
        Assert.True(names[^1].Last > 300 || names.Max(name => name.Last) > 300);
        Assert.InRange(names.Length, 1, 70);
        Assert.InRange(names.Max(name => name.Generation), 1U, 8U);
    }

    /// <summary>Nothing has happened, and the next put tries again.</summary>
    [Theory]
    [InlineData("index.checkpoint")]
    [InlineData("volumes/")]
    public void Put_EvictionFails_KeepsEverything(string file)
    {
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(_temp.StorePath, Cache);
        int count = 0;
        for (; pack.EvictedCount == 0; count++)
            pack.Put($"{count}", PackBytes.Make(300, count));
        string[] before = Keys(pack);
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Write && name.StartsWith(file, StringComparison.Ordinal)
                && name.EndsWith(".tmp", StringComparison.Ordinal))
                throw new QueueDiskException($"No room: {name}.", DiskErrors.ENOSPC, name);
        };
        List<string> added = [];
        QueueDiskException error = Assert.Throws<QueueDiskException>(() =>
        {
            for (int i = count; i < count + 100; i++)
            {
                pack.Put($"{i}", PackBytes.Make(300, i));
                added.Add($"{i}");
            }
        });
        Assert.Equal(DiskErrors.ENOSPC, error.Errno);
        Assert.Equal([.. before, .. added], Keys(pack));

        disk.Before = null;
        count += added.Count;
        pack.Put($"{count}", PackBytes.Make(300, count));
        Assert.True(pack.Count < before.Length + added.Count + 1);
        Check(pack, count + 1);
    }

    /// <summary>
    /// The disk has no room for all of the reserve, and the pack is as long as it may become. An eviction makes room for both;
    /// the put was refused before it.
    /// </summary>
    [Fact]
    public void Put_ReserveIsShortAndAnEvictionIsDue_EvictsAndSucceeds()
    {
        const int CountOfVolume = 11;
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(_temp.StorePath, Cache);
        int count = 0;
        for (; pack.EvictedCount == 0; count++)
            pack.Put($"{count}", PackBytes.Make(300, count));
        for (int end = count + CountOfVolume - 1; count < end; count++)
            pack.Put($"{count}", PackBytes.Make(300, count));
        long evicted = pack.EvictedCount;
        bool isFull = true;
        disk.Before = (call, name) =>
        {
            isFull &= !(call == DiskCall.Deleted && name.EndsWith(".pack", StringComparison.Ordinal));
            if (isFull && call == DiskCall.Open && name == "reserve")
                throw new QueueDiskException($"No room: {name}.", DiskErrors.ENOSPC, name);
        };
        pack.Compact(1);

        pack.Put($"{count}", PackBytes.Make(300, count));

        Assert.False(isFull);
        Assert.True(pack.EvictedCount > evicted);
        Check(pack, count + 1);
    }

    /// <summary>
    /// An operator lowers the limit to free a full disk. The eviction needs some room first, did not take the reserve for it,
    /// and its failure closed the pack.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Open_LowerLimitOnAFullDisk_EvictsWithTheReserveOrLater(bool isReserveEnough)
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, Cache))
        {
            for (int i = 0; i < 120; i++)
                pack.Put($"{i}", PackBytes.Make(300, i));
        }

        var reserve = new FileInfo(_temp.PathOf("reserve"));
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            reserve.Refresh();
            if (call == DiskCall.Write && name == "index.checkpoint.tmp" && !(isReserveEnough && reserve.Length == 0))
                throw new QueueDiskException($"No room: {name}.", DiskErrors.ENOSPC, name);
        };
        using PackStore opened = PackStore.Open(_temp.StorePath, new PackOptions { MaxBytes = MaxBytes / 4 });
        Assert.Equal(isReserveEnough, opened.EvictedCount > 0);
        Assert.Equal(120, opened.Count + opened.EvictedCount);
        Assert.Equal(PackBytes.Make(300, 119), opened.Get("119"));
        Assert.True(opened.Delete("119"));

        disk.Before = null;
        for (int i = 0; opened.EvictedCount == 0; i++)
            opened.Put($"more {i}", PackBytes.Make(300, i));
        Assert.True(opened.Verify().IsWhole);
    }

    /// <summary>A cache has to stay usable: what is damaged goes when its turn comes, and its doubts with it.</summary>
    [Fact]
    public void Put_OldestVolumeIsDamagedOrGone_GoesLikeTheOthers()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, Cache))
        {
            for (int i = 0; i < 120; i++)
                pack.Put($"{i}", PackBytes.Make(300, i));
        }

        string[] volumes = [.. Directory.GetFiles(_temp.PathOf("volumes")).Order(StringComparer.Ordinal)];
        byte[] bytes = File.ReadAllBytes(volumes[1]);
        bytes.AsSpan(500, 700).Clear();
        File.WriteAllBytes(volumes[1], bytes);
        File.Delete(volumes[2]);
        File.Delete(_temp.PathOf("index.checkpoint"));
        using (PackStore pack = PackStore.Open(_temp.StorePath, Cache))
        {
            Assert.NotEmpty(pack.Damages);
            Assert.Throws<PackCorruptException>(() => pack.Contains("never"));
            for (int i = 120; i < 400; i++)
                pack.Put($"{i}", PackBytes.Make(300, i));
            Assert.False(pack.Contains("never"));
            Check(pack, 400);
        }

        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Empty(pack.Damages);
            Check(pack, 400);
        }
    }

    [Fact]
    public void Put_ManyThreadsWithDeletesGetsAndCompactions_ValuesAreRightOrGone()
    {
        using PackStore pack = PackStore.Open(
            _temp.StorePath, new PackOptions { MaxBytes = MaxBytes, CheckpointInterval = 20_000, CompactAtGarbage = 0.2 });
        Parallel.For(0, 4, new ParallelOptions { MaxDegreeOfParallelism = 4 }, lane =>
        {
            var random = new Random(lane);
            for (int i = 0; i < 1500; i++)
            {
                string key = string.Create(CultureInfo.InvariantCulture, $"{lane} {random.Next(100)}");
                if (random.Next(4) == 0)
                {
                    pack.Delete(key);
                    Assert.Null(pack.Get(key));
                    continue;
                }

                byte[] data = PackBytes.Make(random.Next(10, 600), i);
                pack.Put(key, data, random.Next(10) == 0 ? PackDurability.Group : null);
                byte[]? got = pack.Get(key);
                Assert.True(got is null || got.AsSpan().SequenceEqual(data), key);
            }
        });
        Assert.Null(pack.CompactionFailure);
        Assert.True(pack.Verify().IsWhole);
        Assert.InRange(VolumesLength(), 0, MaxBytes + (64 * 100));
    }

    [Fact]
    public void Open_LimitBelowTwoVolumes_IsRefusedAndNothingIsMade()
    {
        PackOptions options = new() { MaxBytes = MaxBytes, VolumeSize = MaxBytes };
        ArgumentException error = Assert.Throws<ArgumentException>(() => PackStore.Open(_temp.StorePath, options));
        Assert.Contains($"volumeSize={MaxBytes}", error.Message, StringComparison.Ordinal);
        Assert.False(File.Exists(_temp.PathOf("pack.meta")));
        Assert.Throws<ArgumentOutOfRangeException>(() => new PackOptions { MaxBytes = 8191 });
        Assert.Equal((1L << 30, 1L << 24), (new PackOptions().VolumeSize, new PackOptions { MaxBytes = 1L << 28 }.VolumeSize));
    }

    private PackReader OpenBoth(out PackStore pack)
    {
        pack = PackStore.Open(_temp.StorePath, Cache);
        return PackStore.OpenReader(_temp.StorePath);
    }

    private long VolumesLength() =>
        Directory.GetFiles(_temp.PathOf("volumes"), "*.pack").Sum(file => new FileInfo(file).Length);

    private static string[] Keys(PackStore pack) => [.. pack.Enumerate().Select(entry => entry.Key)];

    /// <summary>What is there is the end of what was put, without a gap; returns how many there are.</summary>
    private static int Check(PackStore pack, int putCount)
    {
        string[] keys = Keys(pack);
        Assert.Equal(Enumerable.Range(putCount - keys.Length, keys.Length).Select(number => $"{number}"), keys);
        foreach (string key in keys)
            Assert.Equal(PackBytes.Make(300, int.Parse(key, CultureInfo.InvariantCulture)), pack.Get(key));
        Assert.True(pack.Verify().IsWhole);
        return keys.Length;
    }
}
