using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// The segments that this queue has mapped. Every user of a segment holds a reference, so the mapping goes when the last user
/// leaves. Descriptors of segments that were mapped for writing stay open until they are flushed (<see
/// cref="UnflushedFiles"/>), because a write-back error is reported only to descriptors that were open before it.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="segmentLength">The length of every segment.</param>
/// <param name="writable">Segments are mapped for writing.</param>
/// <param name="control">Says what is flushed, whichever process flushed it; null for a window that is gone before that
/// matters.</param>
/// <param name="syncFailed">Called when a sync of a segment has failed, before anything else happens: the system reports an
/// error once, and the next sync of the same file would succeed.</param>
internal sealed unsafe class SegmentWindow(
    HeldDirectory directory, long segmentLength, bool writable, ControlPage? control = null, Action? syncFailed = null)
{
    /// <summary>Fewer bytes than this are cleaned while mapped: unmapping them and faulting them in again costs more.</summary>
    private const int LetGoMin = 64 * 1024;

    private const long WriteBackAtOnce = 4L * 1024 * 1024;

    private readonly Lock _lock = new();
    private readonly Dictionary<long, SegmentMapping> _mapped = [];
    private readonly UnflushedFiles _unflushed = new(segmentLength);

    /// <summary>Mapped, but used by nobody, and not marked as in use: their files may be recycled. The oldest first.</summary>
    private readonly List<SegmentMapping> _idle = [];

    private SegmentMapping? _lastFound;
    private bool _isClosed;

    public long SegmentLength => segmentLength;

    /// <summary>
    /// So many mappings stay when nobody uses them any longer. When such a file is recycled, its mapping serves the new segment:
    /// a page that is mapped anew costs as much as ten messages. 0, the default, where no file is recycled.
    /// </summary>
    public int IdleMax { get; set; }

    /// <summary>The start of the segment that an offset is in.</summary>
    public long StartOf(long offset) => offset - (offset % segmentLength);

    /// <summary>Takes a reference on the segment that starts there; null when there is no such file.</summary>
    public SegmentMapping? TryAcquire(long start)
    {
        lock (_lock)
        {
            SegmentMapping? mapping = FindOrUseIdle(start);
            if (mapping is null)
            {
                if (OpenInUse(start) is not { } file)
                    return null;
                mapping = Map(file, start);
                _mapped.Add(start, mapping);
                ForgetDurable();
            }

            mapping.References++;
            return mapping;
        }
    }

    /// <summary>Like <see cref="TryAcquire"/>, until the end of a scope.</summary>
    public Use BeginUse(long start) => new(this, TryAcquire(start));

    /// <summary>Takes one more reference on a mapping that the caller already holds.</summary>
    public SegmentMapping Share(SegmentMapping mapping)
    {
        lock (_lock)
            mapping.References++;
        return mapping;
    }

    /// <summary>
    /// From here on the segments' files are opened anew: others may be in their places. Whoever holds a mapping of a
    /// former one keeps it.
    /// </summary>
    public void Forget()
    {
        lock (_lock)
        {
            _mapped.Clear();
            _lastFound = null;
        }
    }

    /// <summary>Releases a reference; the last one unmaps.</summary>
    public void Release(SegmentMapping mapping)
    {
        lock (_lock)
        {
            if (--mapping.References > 0)
                return;
            if (_mapped.GetValueOrDefault(mapping.Start) == mapping)
                _mapped.Remove(mapping.Start);
            _lastFound = null;
            // From here on the file may be recycled.
            if (!_isClosed)
                mapping.File.EndUse();
            if (_isClosed || IdleMax == 0 || mapping.Usable < segmentLength || !TryIdentify(mapping))
                Unmap(mapping);
            else
                _idle.Add(mapping);

            while (_idle.Count > IdleMax)
            {
                Unmap(_idle[0]);
                _idle.RemoveAt(0);
            }
        }
    }

    /// <summary>False where the system does not tell: the file would not be known again.</summary>
    private static bool TryIdentify(SegmentMapping mapping)
    {
        try
        {
            mapping.Identity = mapping.File.Identity;
            return true;
        }
        catch (QueueDiskException)
        {
            return false;
        }
    }

    /// <summary>
    /// Unmaps what nobody uses and has no name any longer: such a file never comes round, and only this mapping keeps its blocks
    /// on the disk.
    /// </summary>
    public void DropRemoved()
    {
        List<SegmentMapping> removed;
        lock (_lock)
        {
            removed = _idle.FindAll(idle => idle.File.HasNoName);
            _idle.RemoveAll(removed.Contains);
        }

        // Not under the lock: freeing a segment's pages takes milliseconds.
        removed.ForEach(Close);
    }

    /// <summary>Closes the descriptors of segments that end at or before the durable offset.</summary>
    public void ForgetFlushed(long confirmed)
    {
        // A check without the lock: each durable message comes here, and the next one sees what this one misses.
        if (_unflushed.IsEmpty)
            return;
        lock (_lock)
            _unflushed.Forget(confirmed);
    }

    /// <summary>
    /// Flushes a segment's data through the oldest descriptor that this queue has for it; false when the file is gone. The new
    /// pages, between the two positions, leave this queue's mapping first.
    /// </summary>
    public bool Flush(long start, long from, long to)
    {
        if (PlantedFaults.Has(PlantedFault.NoFlush))
            return true;
        SegmentMapping? mapping;
        PlatformFile? unmapped;
        lock (_lock)
        {
            unmapped = _unflushed.Take(start);
            mapping = FindOrUseIdle(start);
            if (mapping is not null)
                mapping.References++;
        }

        try
        {
            if (mapping is not null && to - from >= LetGoMin)
                mapping.LetGoOfPages(from, to);
            PlatformFile? older = unmapped ?? mapping?.File;
            unmapped = older is null ? directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite) : unmapped;
            older ??= unmapped;
            older?.Sync(PlantedFaults.Has(PlantedFault.FlushErrorIgnored) ? null : syncFailed);
            return older is not null;
        }
        catch (QueueDiskException) when (PlantedFaults.Has(PlantedFault.FlushErrorIgnored))
        {
            return true;
        }
        finally
        {
            unmapped?.Dispose();
            if (mapping is not null)
                Release(mapping);
        }
    }

    /// <summary>
    /// Flushes a segment beside the regular flushes, through a descriptor of its own. The kernel reports a failed write-back
    /// once to each descriptor. If it were reported here on a shared descriptor, the regular flushes would not see it, and a
    /// leader could confirm lost data before this caller has reported the error.
    /// </summary>
    public void FlushApart(long start)
    {
        if (PlantedFaults.Has(PlantedFault.NoFlush))
            return;
        using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.ReadWrite);
        file?.Sync(syncFailed);
    }

    /// <summary>
    /// Makes the system write a complete segment to the disk, a piece at a time: a flush of any file waits for what is queued
    /// (making a segment took 47 ms behind whole segments, 19 behind pieces, measured at 1.2 GB/s). Its pages leave this queue's
    /// mapping first, as for a flush. Through a descriptor of its own, as <see cref="FlushApart"/>.
    /// </summary>
    /// <param name="start">Where it starts.</param>
    /// <param name="goesOn">Asked before each piece.</param>
    public void WriteBack(long start, Func<bool> goesOn)
    {
        SegmentMapping? mapping;
        lock (_lock)
        {
            mapping = Find(start);
            if (mapping is not null)
                mapping.References++;
        }

        using (new Use(this, mapping))
            mapping?.LetGoOfPages(0, segmentLength);

        using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
        for (long at = 0; file is not null && at < segmentLength && goesOn(); at += WriteBackAtOnce)
        {
            file.StartWriteBack(at, Math.Min(WriteBackAtOnce, segmentLength - at));
            if (at > 0)
                file.AwaitWriteBack(at - WriteBackAtOnce, WriteBackAtOnce, syncFailed);
        }
    }

    /// <summary>
    /// Closes all files: no thread enters a segment any more, and the control page may go. A caller that still holds a span, or
    /// memory of a claim that was taken away, needs only the mapping: it stays until that caller releases it, otherwise for
    /// ever.
    /// </summary>
    public void CloseFiles()
    {
        lock (_lock)
        {
            _isClosed = true;
            _unflushed.Close();
            _idle.ForEach(Close);
            _idle.Clear();
            foreach (SegmentMapping mapping in _mapped.Values)
                mapping.File.Dispose();
        }
    }

    private static void Close(SegmentMapping mapping)
    {
        mapping.Unmap();
        mapping.File.Dispose();
    }

    /// <summary>
    /// Under the lock. Usually finds the segment of the last call: the tail's, at each step of each durable message.
    /// </summary>
    private SegmentMapping? Find(long start)
    {
        if (_lastFound is { } last && last.Start == start)
            return last;
        if (_mapped.TryGetValue(start, out SegmentMapping? mapping))
            _lastFound = mapping;
        return mapping;
    }

    /// <summary>Under the lock. Keeps the descriptor of a segment that is not flushed.</summary>
    private void Unmap(SegmentMapping mapping)
    {
        mapping.Unmap();
        if (!writable || _isClosed || !_unflushed.TryKeep(mapping.Start, mapping.File))
        {
            mapping.File.Dispose();
            return;
        }

        ForgetDurable();
        _unflushed.DropBeyondMax();
    }

    /// <summary>Under the lock.</summary>
    private SegmentMapping? FindOrUseIdle(long start)
    {
        SegmentMapping? mapping = Find(start);
        if (mapping is null && _idle.Count > 0 && (mapping = TryUseIdle(start)) is not null)
            _mapped.Add(start, mapping);
        return mapping;
    }

    /// <summary>
    /// The idle mapping of the file that the segment's name means now: of this segment, or of the one that the file was before.
    /// As in <see cref="OpenInUse"/>, first the mark, then the look.
    /// </summary>
    private SegmentMapping? TryUseIdle(long start)
    {
        string name = StoreNames.Segment(start);
        FileIdentity? identity = directory.Identify(name);
        int place = _idle.FindIndex(idle => idle.Identity == identity);
        if (place < 0)
            return null;
        SegmentMapping found = _idle[place];
        if (!found.File.TryUse())
            return null;
        if (directory.Identify(name) != identity)
        {
            found.File.EndUse();
            return null;
        }

        _idle.RemoveAt(place);
        if (found.Start == start)
            return found;
        found.File.NoteName(Path.Combine(directory.Path, name));
        return new SegmentMapping(found, start);
    }

    /// <summary>
    /// Opens a segment and marks it as in use: a file that is mapped is not recycled. First the mark, then the look whether the
    /// name still means this file: it may have become a spare, or another segment, in between.
    /// </summary>
    private PlatformFile? OpenInUse(long start)
    {
        // A process takes only files exclusively that it has renamed before; more than a few tries mean a foreign lock.
        const int TriesMax = 1000;
        string name = StoreNames.Segment(start);
        for (int tries = 0; tries < TriesMax; tries++)
        {
            PlatformFile? file = directory.Open(name, writable ? FileOpening.ReadWrite : FileOpening.Read);
            if (file is null)
                return null;
            bool isKept = false;
            try
            {
                if (PlantedFaults.Has(PlantedFault.MappedSegmentRecycled))
                {
                    isKept = true;
                    return file;
                }
                if (file.TryUse())
                {
                    ProtocolSteps.Reach(ProtocolStep.SegmentInUse);
                    isKept = directory.Identify(name) == file.Identity;
                    if (isKept)
                        return file;
                }
            }
            finally
            {
                if (!isKept)
                    file.Dispose();
            }

            Thread.Yield();
        }

        throw directory.InUse(name, "A segment's file is locked exclusively", "Find the program that locks it.");
    }

    private SegmentMapping Map(PlatformFile file, long start) =>
        file.Into(opened => new SegmentMapping(opened, start, segmentLength, writable));

    /// <summary>
    /// Under the lock, when a segment is mapped or unmapped: a queue that only consumes never leads a flush, and would keep the
    /// descriptors of segments that others have flushed long ago.
    /// </summary>
    private void ForgetDurable()
    {
        if (control is not null && !_isClosed && !_unflushed.IsEmpty)
            // P18 acquire: everything before it is on disk; pairs with P18 full in FlushEngine.
            _unflushed.Forget(SharedWord.ReadAcquire(control.Durable));
    }

    /// <summary>A segment in use.</summary>
    public readonly struct Use(SegmentWindow window, SegmentMapping? segment) : IDisposable
    {
        /// <summary>Null when there is no such file.</summary>
        public SegmentMapping? Segment => segment;

        public void Dispose()
        {
            if (segment is not null)
                window.Release(segment);
        }
    }
}
