using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Sequences;

namespace MappedFileQueues.Tool.Repair;

/// <summary>
/// Changes files of a store that nobody has open. The file as it was stays in `salvage/`. A segment is written anew as a whole,
/// under another name, and takes the old one's place by one rename, so that a process that is killed leaves the old one or the
/// new one. A segment that a snapshot shares is changed in this store only. The time names the copies.
/// </summary>
internal sealed class RepairFiles(HeldDirectory directory, StoreMeta meta, DateTimeOffset time)
{
    private const int PieceLength = 1 << 20;
    private const int PageLength = 4096;

    /// <summary>Named "open": the next opener removes the file of a process that died.</summary>
    private const string Suffix = ".open-repair" + WholeFile.TemporarySuffix;

    private readonly FrameChecksum _checksum = new(meta.LogId);
    private readonly List<string> _salvage = [];

    /// <summary>The copies that were made.</summary>
    public IReadOnlyList<string> Salvage => _salvage;

    /// <summary>Turns stretches of a segment into padding; a missing segment is made, and a short one gets its length.</summary>
    /// <param name="zeroFrom">From here on everything becomes zero; null for nothing.</param>
    public void Pad(long start, IReadOnlyList<(long From, long To)> ranges, long? zeroFrom)
    {
        string name = StoreNames.Segment(start);
        using (PlatformFile? file = directory.Open(name, FileOpening.Read))
        {
            WholeFile.Write(directory, name, copy => Fill(copy, file, start, ranges, zeroFrom), Suffix);
            if (file is not null)
                Keep(name, file, isChanged: false);
        }

        directory.Rename(name + Suffix, name);
        directory.FlushEntries(StoreNames.CommitLog);
    }

    /// <summary>Says that everything before an offset was removed.</summary>
    public void SetLogStart(long offset, long epoch, Guid boot) => WriteRecord(StoreNames.LogStart, offset, epoch, boot);

    /// <summary>Says that everything before an offset is on disk, after it was put there.</summary>
    public void SetCheckpoint(long offset, long epoch, Guid boot)
    {
        foreach (string name in directory.List(StoreNames.CommitLog))
        {
            if (!StoreNames.TryParseSegment(name, out _))
                continue;
            using PlatformFile? file = directory.Open($"{StoreNames.CommitLog}/{name}", FileOpening.ReadWrite);
            file?.Sync();
        }

        directory.FlushEntries(StoreNames.CommitLog);
        WriteRecord(StoreNames.Checkpoint, offset, epoch, boot);
    }

    /// <summary>Moves a consumer that nobody has open.</summary>
    public void SetCursor(string name, long offset)
    {
        KeepCopy(name);
        CursorFile.Write(directory, name, offset);
    }

    /// <summary>Makes a group anew that nobody has open.</summary>
    public void SetGroup(string name, SavedGroup group)
    {
        KeepCopy(StoreNames.Group(name));
        KeepCopy(StoreNames.SavedGroup(name));
        GroupFile.Make(directory, meta.StoreId, name, group, time, new GroupClock(TimeProvider.System));
    }

    /// <summary>Takes a file away.</summary>
    public void Remove(string name)
    {
        KeepCopy(name);
        directory.Delete(name);
        directory.FlushEntries("");
    }

    /// <summary>Takes the index away, which holds nothing that is not in the log.</summary>
    public void RemoveIndex() => directory.Delete(StoreNames.Index);

    private void WriteRecord(string name, long offset, long epoch, Guid boot)
    {
        KeepCopy(name);
        using var file = new CheckpointFile(directory, meta.StoreId, name);
        file.WriteBoth(offset, epoch, boot);
        directory.FlushEntries(StoreNames.Offsets);
    }

    private void Fill(
        PlatformFile copy, PlatformFile? file, long start, IReadOnlyList<(long From, long To)> ranges, long? zeroFrom)
    {
        // The file of a recycled segment is longer than a segment, which says that old bytes may be at its end.
        long length = Math.Max(meta.SegmentLength, file?.Length ?? 0);
        copy.SetLength(length);
        long end = ranges.Max(range => range.To) - start;
        long blocks = Math.Max(end, file?.AllocatedLength ?? 0);
        copy.Allocate(0, Math.Min(length, (blocks + PageLength - 1) / PageLength * PageLength));
        if (file is not null)
            CopyReadable(file, copy, zeroFrom is { } from ? from - start : length);
        long[] named = [.. NamedOffsets().Where(offset => offset % FrameHeader.Size == 0).Order()];
        foreach ((long padFrom, long padTo) in ranges)
        {
            for (long at = padFrom; at < padTo;)
            {
                long next = named.FirstOrDefault(offset => offset > at, long.MaxValue);
                long frame = Math.Min(Math.Min(padTo, next) - at, FrameHeader.FrameLengthMax);
                copy.WriteAt(BitConverter.GetBytes(_checksum.PaddingHeader(at, frame)), at - start);
                at += frame;
            }
        }
    }

    /// <summary>
    /// The offsets at which other files say that a frame begins. Padding begins anew at each: the next opener walks from the
    /// checkpoint and would cut the log off inside a frame, a consumer begins at its cursor, and a producer with an id is looked
    /// for from its file's offset on.
    /// </summary>
    private IEnumerable<long> NamedOffsets()
    {
        using var checkpoint = new CheckpointFile(directory, meta.StoreId);
        return CursorFile.ReadAll(directory).Select(cursor => cursor.Offset).Append(checkpoint.Read()?.Offset).OfType<long>()
            .Concat(ProducerSettlement.Read(directory, meta).Select(producer => producer.Offset));
    }

    /// <summary>A copy of the file's length: zeros at its end are not written, and belong to it all the same.</summary>
    private static void CopyWhole(PlatformFile file, PlatformFile copy)
    {
        copy.SetLength(file.Length);
        CopyReadable(file, copy, file.Length);
    }

    /// <summary>Copies what the disk gives; what it cannot give, page by page, stays zero.</summary>
    private static void CopyReadable(PlatformFile file, PlatformFile copy, long end)
    {
        byte[] buffer = new byte[PieceLength];
        for (long position = 0; position < end;)
        {
            position = Math.Max(position, file.FindData(position));
            if (position >= end)
                return;
            Span<byte> piece = buffer.AsSpan(0, (int)Math.Min(buffer.Length, end - position));
            int read = TryRead(file, piece, position);
            if (read < 0)
            {
                piece = piece[..Math.Min(piece.Length, PageLength)];
                read = TryRead(file, piece, position);
            }

            if (read == 0)
                return;
            if (read > 0 && piece[..read].ContainsAnyExcept((byte)0))
                copy.WriteAt(piece[..read], position);
            position += read < 0 ? piece.Length : read;
        }
    }

    private static int TryRead(PlatformFile file, Span<byte> bytes, long position)
    {
        try
        {
            return file.ReadAt(bytes, position);
        }
        catch (QueueDiskException)
        {
            return -1;
        }
    }

    private void KeepCopy(string name)
    {
        using PlatformFile? file = directory.Open(name, FileOpening.Read);
        if (file is not null)
            Keep(name, file, isChanged: true);
    }

    /// <summary>
    /// Keeps the file under another name. One that is not changed in its place is linked, where there are links: what the disk
    /// cannot read is kept too.
    /// </summary>
    private void Keep(string name, PlatformFile file, bool isChanged)
    {
        string kept = NameFor(name);
        if (isChanged || !directory.TryLink(name, directory, kept))
        {
            WholeFile.Write(directory, kept, copy => CopyWhole(file, copy));
            directory.Rename(kept + WholeFile.TemporarySuffix, kept);
        }

        directory.FlushEntries(StoreNames.Salvage);
        _salvage.Add(kept);
    }

    private string NameFor(string name)
    {
        directory.CreateSubdirectory(StoreNames.Salvage);
        string kept = $"{StoreNames.Salvage}/repair-{time.UtcDateTime:yyyyMMdd'T'HHmmss'Z'}-{name.Replace('/', '-')}";
        string free = kept;
        for (int number = 2; directory.Identify(free) is not null; number++)
            free = $"{kept}.{number}";
        return free;
    }
}
