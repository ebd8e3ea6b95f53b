using MappedFileQueues.Packs;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>Compaction in the background, when enough has become garbage.</summary>
public sealed class PackUpkeepTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void CompactAtGarbage_ObjectsAreReplaced_ThePackStaysShort()
    {
        using PackStore pack = PackStore.Open(
            _temp.StorePath, new PackOptions { VolumeSize = 32 * 1024, CompactAtGarbage = 0.5 });
        for (int round = 0; round < 100; round++)
        {
            for (int i = 0; i < 50; i++)
                pack.Put($"{i}", PackBytes.Make(500, (100 * round) + i));
        }

        // 5,000 puts of 548 bytes; 27 KB are alive.
        PackInfo info = pack.GetInfo();
        Eventually.True(
            () =>
            {
                // A put counts the garbage when enough more has become so.
                pack.Put("0", PackBytes.Make(500, 9900));
                info = pack.GetInfo();
                return info.Length < (2 * info.LiveLength) + (2 * 32 * 1024);
            },
            "a compaction in the background");
        for (int i = 0; i < 50; i++)
            Assert.Equal(PackBytes.Make(500, 9900 + i), pack.Get($"{i}"));
        Assert.Null(pack.CompactionFailure);
        Assert.True(pack.Verify().IsWhole);
    }

    /// <summary>Deletes of large objects write little and free much.</summary>
    [Fact]
    public void CompactAtGarbage_LargeObjectsAreDeleted_TheirRoomIsFreed()
    {
        using PackStore pack = PackStore.Open(
            _temp.StorePath, new PackOptions { VolumeSize = 1 << 20, CompactAtGarbage = 0.5 });
        for (int i = 0; i < 50; i++)
            pack.Put($"{i}", PackBytes.Make(200_000, i));
        for (int i = 0; i < 45; i++)
            pack.Delete($"{i}");
        Eventually.True(() => pack.GetInfo().Length < 6_500_000, "a compaction in the background");
        Assert.Equal(5, pack.Count);
    }

    /// <summary>At the opening too: a pack that another opening has left full of garbage is looked at by the first put.</summary>
    [Fact]
    public void CompactAtGarbage_OpenedWithGarbage_TheFirstPutStartsIt()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 1 << 20 }))
        {
            for (int i = 0; i < 100; i++)
                pack.Put("one", PackBytes.Make(10_000, i));
        }

        using (PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { CompactAtGarbage = 0.9 }))
        {
            pack.Put("two", [1]);
            Eventually.True(() => pack.GetInfo().Length < 50_000, "a compaction in the background");
            Assert.Equal(PackBytes.Make(10_000, 99), pack.Get("one"));
        }
    }

    [Fact]
    public void CompactAtGarbage_DiskIsFull_SaysSoAndTriesAgain()
    {
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(
            _temp.StorePath, new PackOptions { VolumeSize = 16 * 1024, CompactAtGarbage = 0.3 });
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Write && name.EndsWith("-0001.pack.tmp", StringComparison.Ordinal))
                throw new QueueDiskException($"No room: {name}.", DiskErrors.ENOSPC, name);
        };
        int number = 0;
        Eventually.True(() => Put() && pack.CompactionFailure is QueueDiskException { Errno: DiskErrors.ENOSPC }, "a failure");
        disk.Before = null;
        Eventually.True(() => Put() && pack.CompactionFailure is null, "the next one succeeds");
        Assert.Equal(PackBytes.Make(1000, number), pack.Get("one"));

        bool Put()
        {
            try
            {
                pack.Put("one", PackBytes.Make(1000, number + 1));
                number++;
            }
            catch (QueueDiskException error) when (error.Errno == DiskErrors.ENOSPC)
            {
                // While a compaction that met a full disk has the pack's reserve, no value is put.
            }

            return true;
        }
    }

    [Fact]
    public void CompactAtGarbage_OutOfRange_IsRefused()
    {
        Assert.Throws<ArgumentOutOfRangeException>(() => new PackOptions { CompactAtGarbage = 0 });
        Assert.Throws<ArgumentOutOfRangeException>(() => new PackOptions { CompactAtGarbage = 1.01 });
        Assert.Null(new PackOptions { CompactAtGarbage = null }.CompactAtGarbage);
    }

    /// <summary>A number that a program has cast promised nothing, in silence; a blank path made a folder of that name.</summary>
    [Fact]
    public void Arguments_NoLevelOrNoPath_AreRefused()
    {
        Assert.Throws<ArgumentOutOfRangeException>(() => new PackOptions { Durability = (PackDurability)9 });
        Assert.Throws<ArgumentException>(() => PackStore.Open(" "));
        Assert.Throws<ArgumentException>(() => PackReader.Open(" "));
        using TempStore folder = new();
        using PackStore pack = PackStore.Open(folder.StorePath);
        Assert.Throws<ArgumentOutOfRangeException>(() => pack.Put("key", [1], (PackDurability)9));
        Assert.Throws<ArgumentOutOfRangeException>(() => pack.Delete("key", (PackDurability)(-1)));
        Assert.Throws<ArgumentOutOfRangeException>(() => pack.Compact(double.NaN));
        Assert.Throws<ArgumentOutOfRangeException>(() => pack.Compact(Math.Abs(double.NaN)));
        Assert.Throws<ArgumentOutOfRangeException>(() => pack.Compact(1.01));
        Assert.False(pack.Contains("key"));
    }
}
