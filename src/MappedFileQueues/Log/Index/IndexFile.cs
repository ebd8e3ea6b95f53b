using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Index;

/// <summary>
/// `offset/index`, open for a few reads or writes at positions. It is never mapped: a full disk or a bad sector is an error here,
/// and an error only means that there is no hint. Written under the flush lock, or by a lone opener.
/// </summary>
/// <param name="file">The file.</param>
/// <param name="meta">The store's meta page.</param>
/// <param name="page">The file's first page.</param>
/// <param name="counted">The place up to which messages are counted, as the file has it.</param>
internal sealed class IndexFile(PlatformFile file, StoreMeta meta, IndexPage page, IndexEntry? counted = null) : IDisposable
{
    /// <summary>Entries are read in blocks of this many: neighbours are asked for next.</summary>
    private const int BlockEntries = 128;

    /// <summary>After this many places where the log is another one, the index is taken for useless.</summary>
    private const int MistrustedMax = 32;

    private readonly byte[] _block = new byte[BlockEntries * IndexEntry.Length];
    private long _blockAt = -1;

    public IndexPage Page => page;

    /// <summary>The place up to which messages were counted when the file was opened; null when it did not tell.</summary>
    public IndexEntry? Counted { get; private set; } = counted;

    /// <summary>Null when there is no index of this store that can be read.</summary>
    public static IndexFile? TryOpen(HeldDirectory directory, StoreMeta meta, FileOpening opening = FileOpening.Read) =>
        TryOpen(directory, meta, opening, out _);

    /// <inheritdoc cref="TryOpen(HeldDirectory, StoreMeta, FileOpening)"/>
    /// <param name="directory">The store.</param>
    /// <param name="meta">Its meta page.</param>
    /// <param name="opening">For reading, or for writing too.</param>
    /// <param name="isUnknown">The disk refused, so there may be an index.</param>
    public static IndexFile? TryOpen(HeldDirectory directory, StoreMeta meta, FileOpening opening, out bool isUnknown)
    {
        isUnknown = false;
        PlatformFile? file = null;
        try
        {
            file = directory.Open(StoreNames.Index, opening);
            Span<byte> bytes = stackalloc byte[IndexPage.CountedAt + IndexEntry.Length];
            int read = file?.ReadAt(bytes, 0) ?? 0;
            if (IndexPage.Parse(bytes[..read], meta.StoreId) is { } page)
            {
                ReadOnlySpan<byte> counted = bytes[Math.Min(read, IndexPage.CountedAt)..read];
                return new IndexFile(file!, meta, page, IndexEntry.Parse(counted, page.Series, meta.LogId));
            }
        }
        catch (QueueDiskException)
        {
            isUnknown = true;
        }

        file?.Dispose();
        return null;
    }

    /// <summary>
    /// Begins a series in a new file or over what is there: the entries that stay are of another series. Null where the disk
    /// refuses.
    /// </summary>
    public static IndexFile? TryBegin(HeldDirectory directory, StoreMeta meta, IndexPage page)
    {
        PlatformFile? file = null;
        try
        {
            file = directory.Open(StoreNames.Index, FileOpening.ReadWriteOrCreate)!;
            file.WriteAt(page.ToBytes(), 0);
            return new IndexFile(file, meta, page);
        }
        catch (QueueDiskException)
        {
            file?.Dispose();
            return null;
        }
    }

    /// <summary>
    /// The newest place between two offsets that is before what is looked for: an entry, the place up to which messages are
    /// counted, or the origin. The log there is what the index speaks of: a whole frame begins there. Null when there is none.
    /// </summary>
    /// <param name="directory">The store.</param>
    /// <param name="logStart">The log start, or a later place to begin at.</param>
    /// <param name="end">The end of what is published, or an earlier place to end at.</param>
    /// <param name="isBefore">Whether a place is before it. True for all places up to one, false for those after it.</param>
    public IndexEntry? FindPlace(HeldDirectory directory, long logStart, long end, Func<IndexEntry, bool> isBefore)
    {
        IndexEntry? counted = Counted is { } place && place.Offset >= logStart && place.Offset <= end && isBefore(place)
            ? place
            : null;
        long last = end;
        for (int i = 0; i < MistrustedMax; i++)
        {
            IndexEntry? entry = FindLastBefore(logStart, last, isBefore);
            if (entry is null || entry.Value.Offset < counted?.Offset)
                (entry, counted) = (counted, null);
            if (entry is not { } found)
                break;
            if (found.Offset == end || IsThere(directory, found.Offset))
                return found;
            last = Math.Min(last, found.Offset - 1);
        }

        var origin = new IndexEntry(Page.Origin, 0, IndexEntry.NoTime);
        return Page.Origin >= logStart && Page.Origin <= end && isBefore(origin)
            && (Page.Origin == end || IsThere(directory, Page.Origin))
            ? origin
            : null;
    }

    /// <summary>The first place from an offset on, up to another; as <see cref="FindPlace"/>.</summary>
    public IndexEntry? FindFirstPlace(HeldDirectory directory, long logStart, long end)
    {
        long first = logStart;
        for (int i = 0; i < MistrustedMax; i++)
        {
            if (FindFirst(first, end) is not { } entry)
                break;
            if (IsThere(directory, entry.Offset))
                return entry;
            first = entry.Offset + 1;
        }

        return FindPlace(directory, logStart, end, static _ => true);
    }

    /// <summary>Whether there is an entry for the step that an offset is in, at it or before it.</summary>
    public bool HasEntry(long offset) => Read(Page.StepOf(offset))?.Offset <= offset;

    /// <summary>
    /// Writes entries whose offsets rise. Those of neighbouring steps go to the disk in one write, and a step between them in
    /// which no frame begins is cleared.
    /// </summary>
    public void Write(ReadOnlySpan<IndexEntry> entries)
    {
        while (!entries.IsEmpty)
        {
            long first = Page.StepOf(entries[0].Offset);
            // Up to the end of the ring, and no more than a block.
            long end = Math.Min(((first >> Page.CountBits) + 1) << Page.CountBits, first + BlockEntries);
            int count = 0;
            byte[] bytes = new byte[BlockEntries * IndexEntry.Length];
            while (count < entries.Length && Page.StepOf(entries[count].Offset) < end)
            {
                int at = (int)(Page.StepOf(entries[count].Offset) - first) * IndexEntry.Length;
                entries[count].Write(bytes.AsSpan(at, IndexEntry.Length), Page.Series, meta.LogId);
                count++;
            }

            int length = (int)(Page.StepOf(entries[count - 1].Offset) - first + 1) * IndexEntry.Length;
            file.WriteAt(bytes.AsSpan(0, length), Page.PositionOf(first));
            entries = entries[count..];
        }

        _blockAt = -1;
    }

    /// <summary>Writes the place up to which messages are counted.</summary>
    public void WriteCounted(IndexEntry entry)
    {
        Span<byte> bytes = stackalloc byte[IndexEntry.Length];
        entry.Write(bytes, Page.Series, meta.LogId);
        file.WriteAt(bytes, IndexPage.CountedAt);
        Counted = entry;
    }

    /// <summary>
    /// Makes a new file of this series out of the entries for places from one offset up to another, with the step and the store
    /// of another page.
    /// </summary>
    public void CopyTo(HeldDirectory directory, StoreMeta meta, IndexPage page, long from, long to)
    {
        WholeFile.Replace(directory, StoreNames.Index, file =>
        {
            file.WriteAt(page.ToBytes(), 0);
            var made = new IndexFile(file, meta, page);
            List<IndexEntry> entries = [];
            long lastStep = -1;
            for (long step = Page.StepOf(from); step <= Page.StepOf(to); step++)
            {
                if (Read(step) is not { } entry || entry.Offset < from || entry.Offset >= to
                    || page.StepOf(entry.Offset) == lastStep)
                    continue;
                lastStep = page.StepOf(entry.Offset);
                entries.Add(entry);
            }

            made.Write(CollectionsMarshal.AsSpan(entries));
            if (Counted is { } counted && counted.Offset >= from && counted.Offset <= to)
                made.WriteCounted(counted);
        });
    }

    /// <summary>Clears what speaks of places at the tail or beyond it; survives a power loss when it returns.</summary>
    public void ClearFrom(long tail)
    {
        byte[] zeros = new byte[IndexEntry.Length];
        bool hasCleared = Counted?.Offset > tail;
        if (hasCleared)
            file.WriteAt(zeros, IndexPage.CountedAt);
        long end = Page.PositionOf((1L << Page.CountBits) - 1) + IndexEntry.Length;
        for (long at = IndexPage.Length; (at = file.FindData(at)) < end;)
        {
            at -= at % IndexEntry.Length;
            int read = file.ReadAt(_block, at);
            for (int i = 0; i + IndexEntry.Length <= read; i += IndexEntry.Length)
            {
                if (IndexEntry.OffsetOf(_block.AsSpan(i)) < Math.Max(tail, 1))
                    continue;
                file.WriteAt(zeros, at + i);
                hasCleared = true;
            }

            if (read < _block.Length)
                break;
            at += read;
        }

        _blockAt = -1;
        if (hasCleared)
            file.FlushData();
    }

    public void Dispose() => file.Dispose();

    private bool IsThere(HeldDirectory directory, long offset) =>
        PlantedFaults.Has(PlantedFault.IndexStaleTrusted) || WholeFrames.Begins(directory, meta, offset);

    /// <summary>The last entry between two offsets that is before what is looked for: by halves, because entries rise.</summary>
    private IndexEntry? FindLastBefore(long logStart, long end, Func<IndexEntry, bool> isBefore)
    {
        IndexEntry? best = null;
        long high = Page.StepOf(end);
        long low = Math.Max(Page.StepOf(logStart), high - (1L << Page.CountBits) + 1);
        // At first the last one of all: it often is the one.
        for (long middle = high; low <= high; middle = (low + high) / 2)
        {
            IndexEntry? entry = FindLast(low, middle, logStart, end);
            if (entry is { } found && isBefore(found))
            {
                best = found;
                low = middle + 1;
            }
            else if (entry is { } after)
            {
                high = Page.StepOf(after.Offset) - 1;
            }
            else
            {
                low = middle + 1;
            }
        }

        return best;
    }

    /// <summary>The last entry of the steps from one to another that speaks of a place between two offsets.</summary>
    private IndexEntry? FindLast(long firstStep, long lastStep, long from, long to)
    {
        for (long step = lastStep; step >= firstStep; step--)
        {
            if (Read(step) is { } entry && entry.Offset >= from && entry.Offset <= to)
                return entry;
        }

        return null;
    }

    private IndexEntry? FindFirst(long from, long to)
    {
        long last = Page.StepOf(to);
        for (long step = Math.Max(Page.StepOf(from), last - (1L << Page.CountBits) + 1); step <= last; step++)
        {
            if (Read(step) is { } entry && entry.Offset >= from && entry.Offset <= to)
                return entry;
        }

        return null;
    }

    /// <summary>The entry of a step; null when there is none, or it cannot be read.</summary>
    private IndexEntry? Read(long step)
    {
        if (step < 0)
            return null;
        long position = Page.PositionOf(step);
        long blockAt = IndexPage.Length + ((position - IndexPage.Length) / _block.Length * _block.Length);
        if (blockAt != _blockAt && !TryReadBlock(blockAt))
            return null;
        IndexEntry? entry = IndexEntry.Parse(
            _block.AsSpan((int)(position - blockAt), IndexEntry.Length), Page.Series, meta.LogId);
        return entry is { } found && Page.StepOf(found.Offset) == step ? found : null;
    }

    private bool TryReadBlock(long blockAt)
    {
        _blockAt = -1;
        try
        {
            int read = file.ReadAt(_block, blockAt);
            _block.AsSpan(read).Clear();
            _blockAt = blockAt;
            return true;
        }
        catch (QueueDiskException)
        {
            return false;
        }
    }
}
