using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Tests.Packs.Loading;

/// <summary>
/// Volumes that are shorter than they were, as a file system leaves them that was repaired. The story: a last volume that was
/// cut to nothing, or within its header, brought old values and deleted objects back, although the file `synced` knew better;
/// and of a compaction's copy that was cut at the end of a needle, 31 of 101 objects were left, without a damage and with a
/// verification that found all of it whole.
/// </summary>
public sealed class PackShortVolumeTests : IDisposable
{
    private const int VolumeLength = 4096;

    private static readonly PackOptions s_small = new() { VolumeSize = VolumeLength };

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>The changes were acknowledged as durable, after the checkpoint that is there.</summary>
    [Theory]
    [InlineData(0, false, true)]
    [InlineData(0, false, false)]
    [InlineData(VolumeHeader.Length - 1, false, true)]
    [InlineData(VolumeHeader.Length - 1, false, false)]
    [InlineData(0, true, true)]
    [InlineData(VolumeHeader.Length + 36, true, true)]
    [InlineData(VolumeHeader.Length + 36, false, true)]
    [InlineData(VolumeHeader.Length + 36, false, false)]
    public void LastVolumeCut_DurableChangesWereThere_OldStateDoesNotComeBack(int length, bool isCovered, bool hasCheckpoint)
    {
        using (PackStore first = PackStore.Open(_temp.StorePath, s_small))
        {
            first.Put("k", [1]);
            first.Put("deleted", [2]);
            first.Put("filler 1", new byte[3000]);
            if (isCovered)
                first.Put("filler 2", new byte[1000]);
        }

        PackStore killed = PackStore.Open(_temp.StorePath, s_small);
        if (!isCovered)
            killed.Put("filler 2", new byte[1000]);
        killed.Put("k", [3], PackDurability.Group);
        Assert.True(killed.Delete("deleted", PackDurability.Group));
        string copy = PackBytes.Copy(_temp, "killed");
        killed.Dispose();
        if (!hasCheckpoint)
            File.Delete(Path.Combine(copy, "index.checkpoint"));
        string last = Path.Combine(copy, "volumes", "00000002-00000002-0000.pack");
        byte[] whole = File.ReadAllBytes(last);
        Cut(last, length);

        using (PackReader reader = PackStore.OpenReader(copy))
        {
            Assert.Throws<PackCorruptException>(() => reader.Get("k"));
            Assert.Throws<PackCorruptException>(() => reader.Contains("deleted"));
            Assert.False(reader.Verify().IsWhole);
        }

        using (PackStore pack = PackStore.Open(copy, s_small))
        {
            Assert.NotEmpty(pack.Damages);
            Assert.Throws<PackCorruptException>(() => pack.Get("k"));
            pack.Put("later", [4]);
        }

        using (PackStore again = PackStore.Open(copy, s_small))
        {
            Assert.Throws<PackCorruptException>(() => again.Get("k"));
            Assert.Throws<PackCorruptException>(() => again.Contains("deleted"));
            Assert.Equal([4], again.Get("later"));
        }

        // The file is put back: what it holds counts again, beside what was put since.
        File.WriteAllBytes(last, whole);
        using PackStore restored = PackStore.Open(copy, s_small);
        Assert.Equal([3], restored.Get("k"));
        Assert.False(restored.Contains("deleted"));
        Assert.Equal([4], restored.Get("later"));
        Assert.Empty(restored.Damages);
    }

    /// <summary>Nothing in a copy said where it ends.</summary>
    [Theory]
    [InlineData("key 150", false)]
    [InlineData("key 150", true)]
    [InlineData(null, false)]
    public void CopyCut_NoCheckpoint_IsReported(string? lost, bool hasMore)
    {
        const int Count = 200;
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            for (int i = 0; i < Count; i++)
                pack.Put($"key {i:D3}", PackBytes.Make(100, i));
            for (int i = 0; i < Count; i += 2)
                pack.Delete($"key {i + 1:D3}");
            Assert.Equal(1, pack.Compact(0).VolumesMade);
            if (hasMore)
                pack.Put("more", [1]);
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        string file = Directory.GetFiles(_temp.PathOf("volumes")).Order().First();
        Cut(file, lost is null ? 0 : NeedleOf(file, lost));

        using (PackReader reader = PackStore.OpenReader(_temp.StorePath))
        {
            Assert.False(reader.Verify().IsWhole);
            Check(reader.Get);
        }

        using PackStore writer = PackStore.Open(_temp.StorePath);
        Assert.Equal(lost is null ? 2 : 1, writer.Damages.Count);
        Check(writer.Get);
        if (hasMore)
            Assert.Equal([1], writer.Get("more"));

        // Each key is doubtful: the copy may have held a newer value of it, or its deletion.
        static void Check(Func<string, byte[]?> get)
        {
            for (int i = 0; i < Count; i++)
                Assert.Throws<PackCorruptException>(() => get($"key {i:D3}"));
        }
    }

    /// <summary>What was before a copy said so in the volume that the copy has replaced.</summary>
    [Fact]
    public void VolumeBeforeACopyCut_NoCheckpoint_IsReported()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, s_small))
        {
            for (int round = 0; round < 2; round++)
            {
                for (int i = 0; i < 7; i++)
                    pack.Put(round == 0 ? $"first {i}" : $"second {i}", PackBytes.Make(500, i));
            }

            for (int i = 0; i < 7; i++)
                pack.Put($"second {i}", [1]);
            Assert.Equal(1, pack.Compact(0.1).VolumesMade);
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        string file = _temp.PathOf("volumes", "00000001-00000001-0000.pack");
        Assert.False(File.Exists(_temp.PathOf("volumes", "00000002-00000002-0000.pack")), "the second volume is replaced");
        Cut(file, NeedleOf(file, "first 5"));

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.Contains("shorter", Assert.Single(reader.Damages).Reason, StringComparison.Ordinal);
        Assert.Throws<PackCorruptException>(() => reader.Get("first 6"));
        Assert.Equal([1], reader.Get("second 0"));
    }

    /// <summary>The next volume knows a higher sequence than what is left. That needle is not gone, but damaged.</summary>
    [Fact]
    public void LastNeedleDamaged_AnotherVolumeFollows_OnlyItsKeyIsDoubtful()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, s_small))
        {
            for (int i = 0; i < 8; i++)
                pack.Put($"key {i}", PackBytes.Make(500, i));
        }

        File.Delete(_temp.PathOf("index.checkpoint"));
        string file = _temp.PathOf("volumes", "00000001-00000001-0000.pack");
        byte[] bytes = File.ReadAllBytes(file);
        bytes[NeedleOf(file, "key 6") + 9] ^= 4;
        File.WriteAllBytes(file, bytes);

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Assert.Single(reader.Damages);
        Assert.Throws<PackCorruptException>(() => reader.Get("key 6"));
        Assert.Equal(PackBytes.Make(500, 0), reader.Get("key 0"));
        Assert.Equal(PackBytes.Make(500, 7), reader.Get("key 7"));
        Assert.False(reader.Contains("never there"));
    }

    private static int NeedleOf(string file, string key) =>
        PackBytes.IndexOf(File.ReadAllBytes(file), key, last: true) - NeedleLayout.HeaderLength;

    private static void Cut(string file, long length)
    {
        using FileStream stream = File.OpenWrite(file);
        stream.SetLength(length);
    }
}
