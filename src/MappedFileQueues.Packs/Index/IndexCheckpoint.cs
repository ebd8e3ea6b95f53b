using System.Buffers.Binary;
using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Index;

/// <summary>What a checkpoint stores about a volume.</summary>
/// <param name="Slot">The volume's slot in the table of volumes, as used in the entries.</param>
/// <param name="Name">Which volume it is.</param>
/// <param name="Covered">The entries include all needles before this position, and those were on disk.</param>
/// <param name="LiveLength">The bytes of needles that the entries point to.</param>
/// <param name="LiveCount">The number of needles that the entries point to.</param>
/// <param name="CleanAsOf">From the volume's header.</param>
/// <param name="TombstoneLength">The bytes of tombstones in the volume.</param>
internal sealed record CoveredVolume(
    int Slot, VolumeName Name, long Covered, long LiveLength, long LiveCount, ulong CleanAsOf, long TombstoneLength)
{
    /// <summary>In words of 8 bytes.</summary>
    public const int WordCount = 7;

    public ulong[] ToWords() =>
    [
        (uint)Slot | ((ulong)Name.First << 32),
        Name.Last | ((ulong)Name.Generation << 32),
        (ulong)Covered,
        (ulong)LiveLength,
        (ulong)LiveCount,
        CleanAsOf,
        (ulong)TombstoneLength,
    ];

    public static CoveredVolume? FromWords(ReadOnlySpan<ulong> words)
    {
        var volume = new CoveredVolume(
            (int)(uint)words[0],
            new VolumeName((uint)(words[0] >> 32), (uint)words[1], (uint)(words[1] >> 32)),
            (long)words[2],
            (long)words[3],
            (long)words[4],
            words[5],
            (long)words[6]);
        bool isPossible = volume.Slot is >= 0 and < IndexEntry.SlotCount && volume.Name.IsPossible
            && volume.Covered is >= VolumeHeader.Length and <= NeedleLayout.SyncedMax && volume.Covered % NeedleLayout.Unit == 0
            && volume.LiveLength is >= 0 and <= NeedleLayout.SyncedMax && volume.LiveCount is >= 0 and <= NeedleLayout.SyncedMax
            && volume.TombstoneLength is >= 0 and <= NeedleLayout.SyncedMax;
        return isPossible ? volume : null;
    }
}

/// <summary>What a checkpoint stores besides the entries of the index.</summary>
/// <param name="Sequence">The sequence of the newest needle that the entries include.</param>
/// <param name="Volumes">The volumes that the entries cover.</param>
/// <param name="Hidden">The stretches in which damage hides needles.</param>
/// <param name="Deleted">The keys, by hash, that were deleted after a hidden stretch, and the places of their tombstones.</param>
internal sealed record CheckpointContent(
    ulong Sequence,
    IReadOnlyList<CoveredVolume> Volumes,
    IReadOnlyList<HiddenStretch> Hidden,
    IReadOnlyCollection<KeyValuePair<ulong, NeedlePosition>> Deleted);

/// <summary>
/// `index.checkpoint` (docs/PACKS.md section 2): the index at one moment, with the volumes that it covers. It is never needed: if
/// anything is wrong with it, the volumes are scanned instead.
/// </summary>
internal static class IndexCheckpoint
{
    private const int HeaderLength = 64;
    private const uint FormatVersion = 2;
    private const int DeletedWordCount = 3;

    private static ReadOnlySpan<byte> Magic => "MFQPIDX1"u8;

    /// <summary>
    /// Writes the checkpoint under a temporary name, syncs it and renames it. The caller has synced the volumes up to what it
    /// covers.
    /// </summary>
    public static void Write(HeldDirectory directory, PackMeta meta, CheckpointContent content, ulong[][] shards)
    {
        WholeFile.Write(directory, PackNames.Checkpoint, file => WriteContent(file, meta, content, shards));
        ProtocolSteps.Reach(ProtocolStep.PackCheckpointWritten);
        WholeFile.Install(
            directory, PackNames.Checkpoint, static () => ProtocolSteps.Reach(ProtocolStep.PackCheckpointRenamed));
    }

    private static void WriteContent(PlatformFile file, PackMeta meta, CheckpointContent content, ulong[][] shards)
    {
        file.WriteAt(Header(meta, content, shards.Sum(static shard => (long)shard.Length)), 0);
        using var stream = new CheckpointStream(file, HeaderLength);
        foreach (CoveredVolume volume in content.Volumes)
            stream.Write(volume.ToWords());
        foreach (HiddenStretch stretch in content.Hidden)
            stream.Write(stretch.ToWords());
        stream.Write((ulong)content.Deleted.Count);
        foreach ((ulong hash, NeedlePosition tombstone) in content.Deleted)
            stream.Write([hash, tombstone.Number, (ulong)tombstone.Position]);
        foreach (ulong[] shard in shards)
        {
            stream.Write((ulong)shard.Length);
            stream.Write(shard);
        }

        stream.Write(stream.Crc);
        stream.Flush();
    }

    /// <summary>Reads the entries into an empty index; null if the file is missing, damaged or of another pack.</summary>
    public static CheckpointContent? Read(HeldDirectory directory, PackMeta meta, PackIndex index)
    {
        using PlatformFile? file = directory.Open(PackNames.Checkpoint, FileOpening.Read);
        if (file is null)
            return null;
        Span<byte> header = stackalloc byte[HeaderLength];
        if (file.ReadAt(header, 0) < HeaderLength || !IsHeaderValid(header, meta))
            return null;
        int volumeCount = BinaryPrimitives.ReadInt32LittleEndian(header[12..]);
        long entryCount = BinaryPrimitives.ReadInt64LittleEndian(header[40..]);
        int hiddenCount = BinaryPrimitives.ReadInt32LittleEndian(header[52..]);
        ulong sequence = BinaryPrimitives.ReadUInt64LittleEndian(header[32..]);
        long length = HeaderLength + (volumeCount * 8L * CoveredVolume.WordCount) + (hiddenCount * 8L * HiddenStretch.WordCount)
            + 8 + (PackIndex.ShardCount * 8L) + (entryCount * 8) + 8;
        if (volumeCount is < 0 or > IndexEntry.SlotCount || entryCount is < 0 or > long.MaxValue / 16 || hiddenCount < 0
            || sequence > NeedleLayout.SequenceMax || file.Length < length)
            return null;
        using var stream = new CheckpointStream(file, HeaderLength);
        return ReadVolumes(stream, volumeCount) is { } volumes
            && ReadHidden(stream, hiddenCount) is { } hidden
            && ReadDeleted(stream, file.Length - length) is { } deleted
            && TryReadEntries(stream, index, entryCount, volumes)
            ? new CheckpointContent(sequence, volumes, hidden, deleted)
            : null;
    }

    private static byte[] Header(PackMeta meta, CheckpointContent content, long entryCount)
    {
        byte[] header = new byte[HeaderLength];
        Magic.CopyTo(header);
        BinaryPrimitives.WriteUInt32LittleEndian(header.AsSpan(8), FormatVersion);
        BinaryPrimitives.WriteInt32LittleEndian(header.AsSpan(12), content.Volumes.Count);
        meta.PackId.TryWriteBytes(header.AsSpan(16));
        BinaryPrimitives.WriteUInt64LittleEndian(header.AsSpan(32), content.Sequence);
        BinaryPrimitives.WriteInt64LittleEndian(header.AsSpan(40), entryCount);
        BinaryPrimitives.WriteInt32LittleEndian(header.AsSpan(48), new IndexEntry(meta.VolumeLength).PositionBits);
        BinaryPrimitives.WriteInt32LittleEndian(header.AsSpan(52), content.Hidden.Count);
        Crc32C.Seal(header);
        return header;
    }

    private static bool IsHeaderValid(ReadOnlySpan<byte> header, PackMeta meta) =>
        header[..Magic.Length].SequenceEqual(Magic)
        && BinaryPrimitives.ReadUInt32LittleEndian(header[8..]) == FormatVersion
        && new Guid(header.Slice(16, 16)) == meta.PackId
        && BinaryPrimitives.ReadInt32LittleEndian(header[48..]) == new IndexEntry(meta.VolumeLength).PositionBits
        && Crc32C.IsSealed(header);

    private static List<CoveredVolume>? ReadVolumes(CheckpointStream stream, int count)
    {
        List<CoveredVolume> volumes = [];
        Span<ulong> words = stackalloc ulong[CoveredVolume.WordCount];
        for (int i = 0; i < count; i++)
        {
            if (!stream.TryRead(words) || CoveredVolume.FromWords(words) is not { } volume)
                return null;
            volumes.Add(volume);
        }

        bool isEachOnce = volumes.DistinctBy(volume => volume.Slot).Count() == count;
        return isEachOnce ? volumes : null;
    }

    private static List<HiddenStretch>? ReadHidden(CheckpointStream stream, int count)
    {
        List<HiddenStretch> hidden = [];
        Span<ulong> words = stackalloc ulong[HiddenStretch.WordCount];
        for (int i = 0; i < count; i++)
        {
            if (!stream.TryRead(words) || HiddenStretch.FromWords(words) is not { } stretch)
                return null;
            hidden.Add(stretch);
        }

        return hidden;
    }

    /// <summary>The deleted keys take what is left of the file's length, and their count has to agree.</summary>
    private static Dictionary<ulong, NeedlePosition>? ReadDeleted(CheckpointStream stream, long length)
    {
        if (!stream.TryRead(out ulong count) || count * DeletedWordCount * 8 != (ulong)length)
            return null;
        Dictionary<ulong, NeedlePosition> deleted = [];
        Span<ulong> words = stackalloc ulong[DeletedWordCount];
        for (ulong i = 0; i < count; i++)
        {
            // Each key once: the count of a forged one says how long a file without content is, and zeros are read for hours.
            if (!stream.TryRead(words) || !deleted.TryAdd(words[0], new NeedlePosition((uint)words[1], (long)words[2])))
                return null;
        }

        return deleted;
    }

    /// <summary>Each entry has to point before the covered end of a volume: an enumeration waits for the volume.</summary>
    private static bool TryReadEntries(
        CheckpointStream stream, PackIndex index, long left, IEnumerable<CoveredVolume> volumes)
    {
        long[] ends = new long[IndexEntry.SlotCount];
        foreach (CoveredVolume volume in volumes)
            ends[volume.Slot] = volume.Covered;
        for (int number = 0; number < PackIndex.ShardCount; number++)
        {
            if (!stream.TryRead(out ulong count) || count > (ulong)left || count > int.MaxValue / 2)
                return false;
            if (ReadShard(stream, index.Layout, (int)count, ends) is not { } entries)
                return false;
            index.Load(number, entries);
            left -= (long)count;
        }

        uint crc = stream.Crc;
        return left == 0 && stream.TryRead(out ulong stored) && stored == crc;
    }

    /// <summary>
    /// Reads the entries of a shard piece by piece, and takes memory for the next one when the one before was right: a file
    /// without content may be as long as any count says.
    /// </summary>
    private static ulong[]? ReadShard(CheckpointStream stream, IndexEntry layout, int count, long[] ends)
    {
        const int PieceMax = 1 << 16;
        ulong[] entries = new ulong[Math.Min(count, PieceMax)];
        for (int done = 0; done < count;)
        {
            if (done == entries.Length)
                Array.Resize(ref entries, (int)Math.Min(count, entries.Length * 2L));
            Span<ulong> piece = entries.AsSpan(done, Math.Min(entries.Length - done, PieceMax));
            if (!stream.TryRead(piece))
                return null;
            foreach (ulong entry in piece)
            {
                if (entry == 0 || layout.Position(entry) >= ends[layout.Slot(entry)])
                    return null;
            }

            done += piece.Length;
        }

        return entries;
    }
}
