using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>What a compaction writes, and when it has nothing to do.</summary>
public sealed class PackCompactionTests : IDisposable
{
    private readonly TempStore _temp = TempStore.InMemory();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A checkpoint was written for each volume that was replaced, and volumes were first replaced and then joined: 1,678 MiB for
    /// 217 MiB of objects. Now each object is written once, and the index once.
    /// </summary>
    [Fact]
    public void Compact_ManyVolumes_WritesWhatIsAliveAndOneCheckpoint()
    {
        const int Count = 30_000;
        var disk = new CountingDisk();
        using PackStore pack = PackStore.Open(
            _temp.StorePath, new PackOptions { VolumeSize = 64 * 1024, CheckpointInterval = 1L << 40 });
        for (int i = 0; i < Count; i++)
            pack.Put($"{i}", PackBytes.Make(200, i));
        for (int i = 0; i < Count; i++)
        {
            if (i % 4 != 0)
                pack.Delete($"{i}");
        }

        long alive = pack.GetInfo().LiveLength;
        long before = disk.BytesWritten;
        PackCompaction compaction = pack.Compact();
        long written = disk.BytesWritten - before;
        TestContext.Current.TestOutputHelper?.WriteLine(FormattableString.Invariant(
            $"alive {alive}, written {written}, replaced {compaction.VolumesReplaced}, made {compaction.VolumesMade}"));

        // The tombstones of all volumes but the first run are needed until the older ones are clean: they are copied once.
        long checkpoint = new FileInfo(_temp.PathOf("index.checkpoint")).Length;
        Assert.InRange(written, alive, (alive * 12 / 10) + checkpoint);
        Assert.True(compaction.VolumesReplaced > 100);
        Assert.InRange(compaction.VolumesMade, 1, 40);
        Assert.True(pack.Verify().IsWhole);

        // There is nothing left to do, and nothing is written.
        before = disk.BytesWritten;
        Assert.Equal(0, pack.Compact().VolumesReplaced);
        Assert.Equal(before, disk.BytesWritten);
    }

    /// <summary>
    /// The objects that they delete lie in a volume with too little garbage to be replaced. The volume of tombstones was written
    /// anew by each compaction.
    /// </summary>
    [Fact]
    public void Compact_NeededTombstonesAlone_AreWrittenOnceAndGoWithWhatTheyDelete()
    {
        var disk = new CountingDisk();
        PackOptions options = new() { VolumeSize = 16 * 1024 };
        PackStore pack = PackStore.Open(_temp.StorePath, options);
        for (int i = 0; i < 1000; i++)
            pack.Put($"key {i}", PackBytes.Make(100, i));
        for (int i = 0; i < 1000; i += 5)
            pack.Delete($"key {i}");

        pack.Compact(0.5);
        for (int round = 0; round < 3; round++)
        {
            long before = disk.BytesWritten;
            Assert.Equal(0, pack.Compact(0.5).VolumesReplaced);
            Assert.Equal(before, disk.BytesWritten);
            Check();
        }

        // Also by a later opening.
        pack.Dispose();
        pack = PackStore.Open(_temp.StorePath, options);
        Assert.Equal(0, pack.Compact(0.5).VolumesReplaced);
        Check();

        // What they delete goes, and then they are needed no more.
        pack.Compact(0.1);
        pack.Compact(0.1);
        PackInfo info = pack.GetInfo();
        Assert.InRange(info.Length, info.LiveLength, info.LiveLength + (64 * info.VolumeCount));
        Check();
        pack.Dispose();
        File.Delete(_temp.PathOf("index.checkpoint"));
        using (pack = PackStore.Open(_temp.StorePath, options))
            Check();

        void Check()
        {
            Assert.Equal(800, pack.Count);
            Assert.True(pack.Verify().IsWhole);
            for (int i = 0; i < 1000; i++)
                Assert.Equal(i % 5 == 0 ? null : PackBytes.Make(100, i), pack.Get($"key {i}"));
        }
    }

    /// <summary>All objects are deleted: one volume with nothing in it is left.</summary>
    [Fact]
    public void Compact_NothingIsAlive_EmptyVolumesGo()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 4096 }))
        {
            for (int i = 0; i < 500; i++)
                pack.Put($"{i}", PackBytes.Make(400, i));
            for (int i = 0; i < 500; i++)
                pack.Delete($"{i}");
            Assert.True(pack.GetInfo().VolumeCount > 50);
            pack.Compact();
            Assert.Equal(1, pack.GetInfo().VolumeCount);
            pack.Put("new", [1]);
        }

        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Equal([1], pack.Get("new"));
            Assert.True(pack.Verify().IsWhole);
        }
    }

    /// <summary>
    /// A compaction replaces volume after volume, and leaves a tombstone out because an earlier copy leaves out what it deletes.
    /// The process is killed before the checkpoint that settles it; the checkpoint of the last opening names the first volumes
    /// only. The copies of those did not count, the later copy did, and the object was there again. The crash laboratory found it
    /// (pack, seed 15106826).
    /// </summary>
    [Fact]
    public void Compact_KilledBeforeItIsSettled_DeletedObjectStaysDeleted()
    {
        PackOptions options = new() { VolumeSize = 4096, CheckpointInterval = 1L << 30 };
        using (PackStore first = PackStore.Open(_temp.StorePath, options))
        {
            first.Put("ghost", PackBytes.Make(100, 1));
            first.Put("a", PackBytes.Make(3000, 2));
        }

        PackStore pack = PackStore.Open(_temp.StorePath, options);
        pack.Put("b", PackBytes.Make(3000, 3));
        pack.Delete("ghost");
        pack.Put("c", PackBytes.Make(3000, 4));
        string image = PackBytes.Copy(_temp, "killed");
        Assert.Equal(2, pack.Compact(0).VolumesMade);
        pack.Dispose();
        string[] copies = Directory.GetFiles(_temp.PathOf("volumes"), "*-0001.pack");
        Assert.Equal(2, copies.Length);
        foreach (string copy in copies)
            File.Copy(copy, Path.Combine(image, "volumes", Path.GetFileName(copy)));

        for (int opening = 0; opening < 2; opening++)
        {
            using (pack = PackStore.Open(image, options))
            {
                Assert.Null(pack.Get("ghost"));
                Assert.Equal(3, pack.Count);
                Assert.True(pack.Verify().IsWhole);
            }

            File.Delete(Path.Combine(image, "index.checkpoint"));
        }
    }

    /// <summary>
    /// A sector that the disk cannot give, or a file that was cut since it was checked, ended each compaction: no later volume
    /// was compacted any more.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Compact_VolumeCannotBeRead_OthersAreReplaced(bool isCut)
    {
        const string First = "volumes/00000001-00000001-0000.pack";

        // What follows the scanner's buffer, from the key on, is read once more to be copied.
        const long Copied = VolumeHeader.Length + NeedleLayout.HeaderLength + (512 * 1024);
        var disk = new FaultyDisk();
        using PackStore pack = PackStore.Open(
            _temp.StorePath, new PackOptions { VolumeSize = 1024 * 1024, MapVolumes = false });
        for (int i = 0; i < 3; i++)
        {
            pack.Put($"key {i}", PackBytes.Make(600_000, i));
            pack.Put("garbage", PackBytes.Make(300_000, i));
        }

        pack.Put("garbage", [1]);
        disk.BeforeRead = (name, position) =>
        {
            bool isIt = name == First && (!isCut || position == Copied);
            if (!isIt)
                return;
            if (!isCut)
                throw FaultyDisk.Broken(Path.GetFullPath(_temp.PathOf(name)));
            const FileShare BesideTheWriter = FileShare.ReadWrite | FileShare.Delete;
            using FileStream file = new(_temp.PathOf(name), FileMode.Open, FileAccess.Write, BesideTheWriter);
            file.SetLength(position);
        };
        PackCompaction compaction = pack.Compact(0.3);

        Assert.Equal((1, 2), (compaction.VolumesSkipped, compaction.VolumesReplaced));
        Assert.True(File.Exists(_temp.PathOf(First)));
        Assert.Equal(PackBytes.Make(600_000, 1), pack.Get("key 1"));
        Assert.Equal(PackBytes.Make(600_000, 2), pack.Get("key 2"));
        Assert.Equal([1], pack.Get("garbage"));
    }

    /// <summary>Damage to an object that nobody needs any more goes with its volume; its neighbours did not go either.</summary>
    [Fact]
    public void Compact_DamagedObject_IsLeftUntilItIsPutAgain()
    {
        PackOptions options = new() { VolumeSize = 4096 };
        using PackStore pack = PackStore.Open(_temp.StorePath, options);
        for (int i = 0; i < 60; i++)
            pack.Put($"key {i}", PackBytes.Make(300, i));
        for (int i = 0; i < 60; i += 2)
            pack.Put($"key {i}", PackBytes.Make(10, i));
        string volume = Directory.GetFiles(_temp.PathOf("volumes")).Order().ElementAt(1);
        const FileShare BesideTheWriter = FileShare.ReadWrite | FileShare.Delete;
        using (FileStream file = new(volume, FileMode.Open, FileAccess.ReadWrite, BesideTheWriter))
        {
            byte[] bytes = new byte[file.Length];
            file.ReadExactly(bytes);
            int at = PackBytes.IndexOf(bytes, "key 15", last: false) + 100;
            file.Position = at;
            file.WriteByte((byte)~bytes[at]);
        }

        PackCompaction compaction = pack.Compact(0.3);
        Assert.Equal(1, compaction.VolumesSkipped);
        Assert.True(compaction.VolumesReplaced > 2);
        Assert.True(File.Exists(volume));
        Assert.Throws<PackCorruptException>(() => pack.Get("key 15"));

        pack.Put("key 15", [1]);
        compaction = pack.Compact(0.3);
        Assert.Equal(0, compaction.VolumesSkipped);
        Assert.False(File.Exists(volume));
        Assert.True(pack.Verify().IsWhole);
        Assert.Equal([1], pack.Get("key 15"));
        Assert.Equal(PackBytes.Make(300, 17), pack.Get("key 17"));
    }
}
