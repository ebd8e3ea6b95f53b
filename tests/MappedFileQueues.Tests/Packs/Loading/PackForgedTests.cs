using System.Buffers.Binary;
using System.Runtime.InteropServices;
using MappedFileQueues.Memory;
using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;

namespace MappedFileQueues.Tests.Packs.Loading;

/// <summary>
/// Files with impossible values under right checksums. The story: an entry of the checkpoint for a volume that is not there made
/// an enumeration go round for ever; lengths beyond what a volume can have were an overflow in `GetInfo`; and after a sequence or
/// a volume number at the end of its range a put was acknowledged, and gone when its writer was killed.
/// </summary>
public sealed class PackForgedTests : IDisposable
{
    /// <summary>The word in which the entries begin, after the header, two volumes and no deleted key.</summary>
    private const int FirstShard = 8 + (2 * CoveredVolume.WordCount) + 1;

    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(1);
    private static readonly PackOptions s_small = new() { VolumeSize = 4096 };

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public async Task EntryOfNoVolume_CheckpointIsNotUsed()
    {
        PackMeta meta = Make();
        ForgeCheckpoint(words =>
        {
            int first = ((64 + (2 * 56)) / 8) + 1;
            int shard = Array.FindIndex(words, first, count => count != 0);
            words[shard + 1] ^= 7UL << new IndexEntry(meta.VolumeLength).PositionBits;
        });

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        Task<string[]> keys = Task.Run(() => reader.Enumerate().Select(entry => entry.Key).Order().ToArray());

        Assert.Equal(["one", "two"], await keys.WaitAsync(s_deadline, TestContext.Current.CancellationToken));
    }

    /// <summary>Places beyond the length that `pack.meta` gives fit no entry of the index.</summary>
    [Fact]
    public async Task VolumeLengthLessThanVolumes_IsDamage()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 65536 }))
        {
            for (int i = 0; i < 20; i++)
                pack.Put($"k{i}", new byte[1000]);
        }

        Forge(_temp.PathOf(PackNames.Meta), PackMeta.Length,
            static bytes => BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(32), 4096));

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);
        List<PackDamage> damages = [];
        Task<int> count = Task.Run(() => reader.Enumerate(damages.Add).Count());
        Assert.InRange(await count.WaitAsync(s_deadline, TestContext.Current.CancellationToken), 1, 4);
        Assert.NotEmpty(damages);
        Assert.Throws<PackCorruptException>(() => reader.Get("k19"));
    }

    /// <summary>Covered length, live length, live count and length of tombstones.</summary>
    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    [InlineData(6)]
    public void LengthsOfNoVolume_CheckpointIsNotUsed(int word)
    {
        Make();
        ForgeCheckpoint(words => words[8 + word] = words[15 + word] = long.MaxValue - 7);

        using PackReader reader = PackStore.OpenReader(_temp.StorePath);

        Assert.InRange(reader.GetInfo().Length, 6000, 8192);
        Assert.Equal(2, reader.Count);
        Assert.Empty(reader.Damages);
    }

    /// <summary>
    /// The file may be as long as its counts say and have no content: memory for all entries of a shard was taken before the
    /// first was read, which was an <see cref="OutOfMemoryException"/> where there was less.
    /// </summary>
    [Fact]
    public void LongFileWithoutContent_CheckpointTakesNoMemory()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "A file there takes the room of its length.");
        const long Count = 1 << 26;
        Make();
        ForgeCheckpoint(static words => words[5] = words[FirstShard] = Count);
        SetCheckpointLength(((FirstShard + PackIndex.ShardCount + Count) * 8) + 8);

        long before = GC.GetAllocatedBytesForCurrentThread();
        using PackReader reader = PackStore.OpenReader(_temp.StorePath);

        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, Count);
        Assert.Equal(2, reader.Count);
        Assert.Empty(reader.Damages);
    }

    /// <summary>The same with a count of deleted keys: they took no memory, and hours.</summary>
    [Fact]
    public async Task LongFileWithoutContent_CheckpointTakesNoTime()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "A file there takes the room of its length.");
        const long Count = 1L << 37;
        Make();
        ForgeCheckpoint(static words => words[FirstShard - 1] = Count);
        SetCheckpointLength(((FirstShard + PackIndex.ShardCount + 2 + (Count * 3)) * 8) + 8);

        Task<long> count = Task.Run(() =>
        {
            using PackReader reader = PackStore.OpenReader(_temp.StorePath);
            return reader.Count;
        });

        Assert.Equal(2, await count.WaitAsync(s_deadline, TestContext.Current.CancellationToken));
    }

    /// <summary>"Clean as of" of a volume, "sequence" of a checkpoint and of a needle, and the number in `synced`.</summary>
    [Theory]
    [InlineData("volume")]
    [InlineData("checkpoint")]
    [InlineData("needle")]
    [InlineData("synced")]
    public void EndOfItsRange_PutIsThereAfterKill(string forged)
    {
        PackMeta meta = Make();
        string volume = _temp.PathOf("volumes/00000002-00000002-0000.pack");
        if (forged == "checkpoint")
            ForgeCheckpoint(static words => words[4] = ulong.MaxValue);
        else
            File.Delete(_temp.PathOf(PackNames.Checkpoint));
        if (forged == "volume")
            Forge(volume, VolumeHeader.Length, static bytes => bytes.AsSpan(24, 8).Fill(0xFF));
        if (forged == "synced")
            Forge(_temp.PathOf(PackNames.Synced), SyncedMark.Length, static bytes => bytes.AsSpan(48, 4).Fill(0xFF));
        if (forged == "needle")
            ForgeNeedle(meta, volume);

        string copy;
        using (PackStore pack = PackStore.Open(_temp.StorePath, s_small))
        {
            pack.Put("later", [1]);
            copy = PackBytes.Copy(_temp, "killed");
        }

        File.Delete(Path.Combine(copy, PackNames.Checkpoint));
        using PackStore again = PackStore.Open(copy, s_small);
        Assert.Equal([1], again.Get("later"));
    }

    /// <summary>
    /// The headers are right, the data is not. Each was a position at which the opening looked for the next needle again, up to
    /// the volume's end; and where they claimed to be long, all that follows was their data. -1: up to the end of the volume.
    /// </summary>
    [Theory]
    [InlineData(0, true)]
    [InlineData(0, false)]
    [InlineData(-1, true)]
    [InlineData(-1, false)]
    public async Task HeadersOfDamagedNeedles_OpeningTakesTimeOfItsLength(int dataLength, bool sameBoot)
    {
        const int Length = 8 * 1024 * 1024;
        MakeForged(Length, (position, index) => new NeedleLayout(
            NeedleKind.Value, (ulong)index + 10, 0, dataLength < 0 ? Length - position - 40 : dataLength, 0));
        if (!sameBoot)
            File.Delete(_temp.PathOf(PackNames.Synced));

        Task<bool> opening = Task.Run(() =>
        {
            using PackStore pack = PackStore.Open(_temp.StorePath, new PackOptions { AllowStaleValues = true });
            return pack.Contains("one");
        });

        Assert.True(await opening.WaitAsync(s_deadline, TestContext.Current.CancellationToken));
    }

    private void MakeForged(int length, Func<int, int, NeedleLayout> needleAt)
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("one", new byte[10]);
        File.Delete(_temp.PathOf(PackNames.Checkpoint));
        PackMeta meta = PackMeta.Parse(File.ReadAllBytes(_temp.PathOf(PackNames.Meta)), "");
        string volume = _temp.PathOf("volumes/00000001-00000001-0000.pack");
        byte[] bytes = new byte[length];
        byte[] before = File.ReadAllBytes(volume);
        before.CopyTo(bytes, 0);
        int index = 0;
        for (int at = before.Length; at + NeedleLayout.LengthMin <= length; at += NeedleLayout.LengthMin)
        {
            needleAt(at, index++).WriteHeader(
                bytes.AsSpan(at), NeedleLayout.VolumeSeed(meta.PackId, 1, 0), at, NeedleLayout.ContentCrc([]));
            bytes.AsSpan(at + 32, 8).Fill(0xAA);
        }

        File.WriteAllBytes(volume, bytes);
    }

    /// <summary>Two volumes of one object each.</summary>
    private PackMeta Make()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath, s_small))
        {
            pack.Put("one", new byte[3000]);
            pack.Put("two", new byte[3000]);
        }

        return PackMeta.Parse(File.ReadAllBytes(_temp.PathOf(PackNames.Meta)), "");
    }

    private void SetCheckpointLength(long length)
    {
        using FileStream file = new(_temp.PathOf(PackNames.Checkpoint), FileMode.Open);
        file.SetLength(length);
    }

    private static void Forge(string file, int recordLength, Action<byte[]> change)
    {
        byte[] bytes = File.ReadAllBytes(file);
        change(bytes);
        Crc32C.Seal(bytes.AsSpan(0, recordLength));
        File.WriteAllBytes(file, bytes);
    }

    private void ForgeCheckpoint(Action<ulong[]> change) => Forge(_temp.PathOf(PackNames.Checkpoint), 64, bytes =>
    {
        ulong[] words = MemoryMarshal.Cast<byte, ulong>(bytes).ToArray();
        change(words);
        MemoryMarshal.AsBytes(words.AsSpan()).CopyTo(bytes);
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(bytes.Length - 8), NeedleLayout.ContentCrc(bytes.AsSpan(64..^8)));
    });

    private static void ForgeNeedle(PackMeta meta, string volume) => Forge(volume, VolumeHeader.Length, bytes =>
    {
        Span<byte> needle = bytes.AsSpan(VolumeHeader.Length);
        Assert.True(NeedleLayout.TryRead(needle, out NeedleLayout layout));
        uint keyCrc = NeedleLayout.ContentCrc(needle.Slice(NeedleLayout.HeaderLength, layout.KeyLength));
        uint dataCrc = NeedleLayout.ContentCrc(needle.Slice(layout.DataAt, layout.DataLength));
        uint header = (layout with { Sequence = ulong.MaxValue }).WriteHeader(
            needle, NeedleLayout.VolumeSeed(meta.PackId, 2, 0), VolumeHeader.Length, keyCrc);
        NeedleLayout.WriteFooter(needle[(layout.Length - NeedleLayout.FooterLength)..], header, dataCrc);
    });
}
