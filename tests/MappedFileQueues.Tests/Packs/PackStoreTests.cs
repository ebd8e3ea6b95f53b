using System.Buffers;
using System.Text;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Packs;

/// <summary>What a pack does for one process, on both platforms.</summary>
public sealed class PackStoreTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void PutGetDelete_Reopened_AsBefore(bool portable)
    {
        PlatformScope.Use(portable);
        byte[] small = PackBytes.Make(100, 1);
        byte[] large = PackBytes.Make(5_000_000, 2);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("small", PackBytes.Make(50, 9));
            pack.Put("small", small);
            pack.Put("large", large, PackDurability.Group);
            pack.Put("empty", []);
            pack.Put("gone", small);
            Assert.True(pack.Delete("gone"));
            Assert.False(pack.Delete("gone"));
            Check(pack);
        }

        using (PackStore pack = PackStore.Open(_temp.StorePath))
            Check(pack);
        File.Delete(_temp.PathOf("index.checkpoint"));
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            Check(pack);

        void Check(PackStore pack)
        {
            Assert.Equal(small, pack.Get("small"));
            Assert.Equal(large, pack.Get("large"));
            Assert.Equal(small, pack.GetOwned("small"));
            Assert.Equal(large, pack.GetOwned("large"));
            Assert.Empty(pack.Get("empty")!);
            Assert.Null(pack.Get("gone"));
            Assert.Null(pack.GetOwned("never"));
            Assert.True(pack.Contains("empty"));
            Assert.False(pack.Contains("gone"));
            Assert.Equal(3, pack.Count);
            Assert.Empty(pack.Damages);
            Assert.True(pack.Verify().IsWhole);
        }
    }

    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void Put_EveryLength_ComesBackExactly(bool portable)
    {
        PlatformScope.Use(portable);
        using PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 64 * 1024 });
        for (int length = 0; length <= 600; length++)
            pack.Put($"key {length}", PackBytes.Make(length, length));
        foreach (int length in (int[])[4095, 4096, 4097, 65_535, 65_536, 262_104, 262_105, 300_001, 2_097_152, 2_097_153])
            pack.Put($"key {length}", PackBytes.Make(length, length));

        for (int length = 0; length <= 600; length++)
            Assert.Equal(PackBytes.Make(length, length), pack.Get($"key {length}"));
        foreach (int length in (int[])[4095, 4096, 4097, 65_535, 65_536, 262_104, 262_105, 300_001, 2_097_152, 2_097_153])
        {
            Assert.Equal(PackBytes.Make(length, length), pack.Get($"key {length}"));
            Assert.Equal(PackBytes.Make(length, length), pack.GetOwned($"key {length}"));
        }

        Assert.True(pack.GetInfo().VolumeCount > 5);
        Assert.True(pack.Verify().IsWhole);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(223)]
    [InlineData(224)]
    [InlineData(225)]
    [InlineData(5000)]
    [InlineData(65_536)]
    public void Key_OfThatLength_IsItself(int length)
    {
        byte[] key = PackBytes.Make(length, 3);
        byte[] other = [.. key];
        if (length > 0)
            other[^1] ^= 1;
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put(key, [1, 2, 3]);

        using PackStore reopened = PackStore.Open(_temp.StorePath);
        var destination = new ArrayBufferWriter<byte>();
        Assert.True(reopened.TryGet(key, destination));
        Assert.Equal([1, 2, 3], destination.WrittenSpan.ToArray());
        Assert.Equal(length == 0, reopened.Contains(other));
        Assert.Equal(key, Assert.Single(reopened.Enumerate()).KeyBytes.ToArray());
    }

    [Fact]
    public void Key_StringAndItsUtf8_AreTheSame()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("grün/日本.txt", [7]);

        Assert.True(pack.Contains(Encoding.UTF8.GetBytes("grün/日本.txt")));
        Assert.Equal("grün/日本.txt", Assert.Single(pack.Enumerate()).Key);
    }

    [Fact]
    public void Put_TooLongOrHalfASurrogate_IsRefusedAndNothingWritten()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath);

        Assert.Throws<ArgumentException>(() => pack.Put(new byte[65_537], [1]));
        Assert.Throws<ArgumentException>(() => pack.Put(new string('x', 65_537), [1]));
        Assert.Throws<ArgumentException>(() => pack.Put("\ud800", [1]));
        Assert.Throws<ArgumentException>(() => pack.Put("key", new byte[(256 * 1024 * 1024) + 1]));
        Assert.Equal(0, pack.GetInfo().Length);
    }

    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void Open_SecondWriter_IsRefusedAndNamesTheHolder(bool portable)
    {
        PlatformScope.Use(portable);
        using PackStore pack = PackStore.Open(_temp.StorePath);

        PackInUseException error = Assert.Throws<PackInUseException>(() => PackStore.Open(_temp.StorePath));
        Assert.Contains(_temp.StorePath, error.Message, StringComparison.Ordinal);
        if (!portable)
            Assert.Contains("this process", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Open_FolderWithOtherFiles_IsRefusedAndUntouched()
    {
        Directory.CreateDirectory(_temp.StorePath);
        File.WriteAllText(_temp.PathOf("notes.txt"), "mine");

        Assert.Throws<PackFormatException>(() => PackStore.Open(_temp.StorePath));
        Assert.Equal(_temp.StorePath, Assert.Throws<PackNotFoundException>(() => PackStore.OpenReader(_temp.StorePath)).Path);
        Assert.Equal("notes.txt", Path.GetFileName(Assert.Single(Directory.GetFileSystemEntries(_temp.StorePath))));
    }

    /// <summary>Two processes that make the same pack: the second took the first one's files for foreign ones.</summary>
    [Theory]
    [InlineData("")]
    [InlineData("volumes")]
    public void Open_AnotherMakesThePackMeanwhile_OpensIt(string looked)
    {
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            bool isIt = call == DiskCall.List && name == looked;
            if (!isIt)
                return;
            disk.Before = null;
            using PackStore other = PackStore.Open(_temp.StorePath);
            other.Put("key", [1]);
        };

        using PackStore pack = PackStore.Open(_temp.StorePath);
        Assert.Equal([1], pack.Get("key"));
    }

    [Fact]
    public void Open_NoPackAndMayNotBeMade_IsRefusedAndUntouched()
    {
        Assert.Throws<PackNotFoundException>(() => PackStore.Open(_temp.StorePath, new PackOptions { CreateIfMissing = false }));
        Assert.Throws<PackNotFoundException>(() => PackStore.OpenReader(_temp.StorePath));
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    [Fact]
    public void Dispose_ThenAnyCall_IsRefused()
    {
        PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("key", [1]);
        pack.Dispose();
        pack.Dispose();

        Assert.Throws<ObjectDisposedException>(() => pack.Put("key", [2]));
        Assert.Throws<ObjectDisposedException>(() => pack.Delete("key"));
        Assert.Throws<ObjectDisposedException>(() => pack.Get("key"));
        Assert.Throws<ObjectDisposedException>(() => pack.Contains("key"));
        Assert.Throws<ObjectDisposedException>(() => pack.Get("none"));
        Assert.Throws<ObjectDisposedException>(() => pack.GetOwned("none"));
        Assert.Throws<ObjectDisposedException>(() => pack.Contains("none"));
        Assert.Throws<ObjectDisposedException>(() => pack.Enumerate().Count());
        Assert.Throws<ObjectDisposedException>(pack.Flush);
        Assert.Throws<ObjectDisposedException>(pack.Verify);
        Assert.Throws<ObjectDisposedException>(() => pack.Count);
        Assert.Throws<ObjectDisposedException>(pack.GetInfo);
        Assert.Equal(typeof(PackStore).FullName, Assert.Throws<ObjectDisposedException>(() => pack.Get("key")).ObjectName);
    }

    [Fact]
    public void Options_ChangedAfterTheOpening_MeanNothing()
    {
        var options = new PackOptions { Durability = PackDurability.Group, CheckpointInterval = 1 << 30 };
        var disk = new FaultyDisk();
        int syncs = 0;
        int checkpoints = 0;
        disk.Before = (call, name) =>
        {
            syncs += call == DiskCall.Sync && name.StartsWith("volumes/", StringComparison.Ordinal) ? 1 : 0;
            Interlocked.Add(ref checkpoints, call == DiskCall.Open && name.StartsWith("index", StringComparison.Ordinal) ? 1 : 0);
        };
        using PackStore pack = PackStore.Open(_temp.StorePath, options);
        pack.Put("first", [1]);
        options.Durability = PackDurability.PageCache;
        options.CheckpointInterval = 1;
        (int syncsBefore, int checkpointsBefore) = (syncs, checkpoints);
        pack.Put("second", [2]);

        Assert.Equal(syncsBefore + 1, syncs);
        Assert.Equal(checkpointsBefore, Volatile.Read(ref checkpoints));
    }

    [Fact]
    public void Enumerate_ManyVolumes_EachObjectOnceInOrderOfWriting()
    {
        using PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 4096 });
        for (int i = 0; i < 500; i++)
            pack.Put($"{i % 300}", PackBytes.Make(i, i));
        for (int i = 0; i < 50; i++)
            pack.Delete($"{i}");

        List<PackEntry> entries = [.. pack.Enumerate()];
        Assert.Equal(
            Enumerable.Range(200, 300).Where(i => i % 300 >= 50).Select(i => ($"{i % 300}", i)),
            entries.Select(entry => (entry.Key, entry.Length)));
        Assert.Equal(entries.Select(entry => entry.Sequence).Order(), entries.Select(entry => entry.Sequence));
    }

    [Fact]
    public void Index_ManyObjects_TakesFewBytesEach()
    {
        const int Count = 100_000;
        using PackStore pack = PackStore.Open(_temp.StorePath);
        for (int i = 0; i < Count; i++)
            pack.Put($"a rather long key, whose length does not matter to the index {i}", []);

        // The shards themselves take 0.3 MB, whatever they hold.
        Assert.InRange(pack.GetInfo().IndexBytes - 300_000, 9L * Count, 16L * Count);
    }
}
