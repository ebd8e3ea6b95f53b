using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Index;

/// <summary>
/// Counts the messages that this process's flushes pass, and keeps the store's index. Only the leader of a flush uses it, under
/// the flush lock.
/// <code>
/// leader                                            killed, or power lost, after it
/// 1 walk to the end, count, note each step's edge   nothing has changed
/// 2 raise durable                                   the next process counts from the newest place in the file
/// 3 if there are entries: write them, then the      the same, or from the entry before
///   place up to which messages are counted
/// at most once a second
/// 4 if 3 did not: walk there from the newest place  the same
///   that is known
/// 5 as 3                                            the same
/// </code>
/// Every entry is below the durable offset when it is written, so a power loss leaves none above the log. The count at the
/// durable offset is known to this process while it leads every flush; after another process's flush it does not fit, and step 4
/// takes it up again. Nothing here fails: an error of the disk only leaves the index behind.
/// </summary>
internal sealed class IndexKeeper(LogStore store)
{
    /// <summary>How much of the log step 4 walks over at a time: a flush waits for no more than that.</summary>
    private const long PieceLength = 4L * 1024 * 1024;

    private readonly List<IndexEntry> _passed = [];
    private IndexPage? _page;
    private IndexEntry _counted;
    private IndexEntry _next;
    private IndexEntry? _seenInFile;
    private long _lastStep;
    private bool _hasLooked;

    /// <summary>The durable offset at the end of the last <see cref="CatchUp"/>.</summary>
    public long CompleteTo { get; private set; }

    /// <summary>
    /// Step 1: the offset up to which everything is published, but not beyond the first frame's start at or above the limit.
    /// </summary>
    public long Walk(long from, long limit)
    {
        if (!_hasLooked)
            Adopt(from);
        if (_page is null || _counted.Offset != from)
        {
            _next = _counted;
            return new FrameWalk(store).FindContiguousEnd(from, limit);
        }

        long to = Count(limit);
        if (PlantedFaults.Has(PlantedFault.IndexAboveConfirmed))
            Note();
        return to;
    }

    /// <summary>Step 3: what the last walk counted is on disk.</summary>
    public void Note()
    {
        if (_page is null || _next.Offset <= _counted.Offset)
            return;
        Take();
        // A place that is still in the log has to be in the file, or else numbers begin anew.
        if (_passed.Count > 0 || store.LogStart > _seenInFile?.Offset)
            Write();
    }

    /// <summary>
    /// Steps 4 and 5, for one piece. While another process writes to the index, this one leaves it to that.
    /// </summary>
    /// <param name="isLast">This queue ends: what it does not write now, another process has to count.</param>
    /// <returns>Whether there is more to count.</returns>
    public bool CatchUp(bool isLast)
    {
        long goal = store.ConfirmedOffset;
        using (IndexFile? file = IndexFile.TryOpen(store.Directory, store.Meta, FileOpening.Read, out bool isUnknown))
        {
            IndexEntry? inFile = file?.Counted;
            bool isOthers = inFile is not null && inFile != _seenInFile;
            _seenInFile = inFile;
            bool isCounted = _page is not null && file?.Page == _page && _counted.Offset == goal;
            if (isUnknown || inFile?.Offset == goal)
            {
                if (!isUnknown && !isCounted)
                    TakeUp(file!, inFile!.Value);
                return End(goal);
            }

            if (!isCounted && isOthers && !isLast)
                return false;
            if (!isCounted && !TryTakeUp(file, goal))
                return End(goal);
        }

        return CatchUpTo(goal);
    }

    private bool CatchUpTo(long goal)
    {
        try
        {
            _ = Count(Math.Min(goal, _counted.Offset + PieceLength));
        }
        catch (QueueCorruptException)
        {
            // What is after the damage cannot be counted. A file may be restored, so a later call tries again.
            return End(goal);
        }

        bool isComplete = _next.Offset == _counted.Offset || _next.Offset >= goal;
        Take();
        Write();
        return isComplete || _page is null ? End(goal) : true;
    }

    private bool End(long goal)
    {
        CompleteTo = goal;
        return false;
    }

    /// <summary>At the first flush: continues where the last process ended, or begins with a new log.</summary>
    private void Adopt(long from)
    {
        _hasLooked = true;
        using IndexFile? file = IndexFile.TryOpen(store.Directory, store.Meta, FileOpening.Read, out bool isUnknown);
        if (file is not null && file.Counted is { } counted && counted.Offset == from)
            TakeUp(file, counted);
        else if (file is null && !isUnknown && from == store.LogStart)
            Begin(from);
    }

    /// <summary>Takes up the newest place whose number is known, or begins a series at the log start.</summary>
    private bool TryTakeUp(IndexFile? file, long goal)
    {
        long logStart = store.LogStart;
        bool isOwnIn = _page is not null && _counted.Offset >= logStart && _counted.Offset <= goal;
        if (file is null && isOwnIn)
        {
            // The file was removed under this queue.
            file = IndexFile.TryBegin(store.Directory, store.Meta, _page!);
            using (file)
                return file is not null;
        }

        IndexEntry? place = file?.FindPlace(store.Directory, logStart, goal, static _ => true);
        if (isOwnIn && file?.Page == _page && !(place?.Offset > _counted.Offset))
            return true;
        if (place is null)
            return Begin(logStart);
        TakeUp(file!, place.Value);
        return true;
    }

    private void TakeUp(IndexFile file, IndexEntry place)
    {
        _page = file.Page;
        _counted = _next = place;
        long step = _page.StepOf(place.Offset);
        // Without an entry of its step, the place becomes one.
        _lastStep = file.HasEntry(place.Offset) ? step : step - 1;
    }

    private bool Begin(long origin)
    {
        var page = new IndexPage(store.Meta.StoreId, (uint)Random.Shared.NextInt64(1, uint.MaxValue), origin);
        using IndexFile? file = IndexFile.TryBegin(store.Directory, store.Meta, page);
        _page = null;
        if (file is not null)
            TakeUp(file, new IndexEntry(origin, 0, IndexEntry.NoTime));
        return file is not null;
    }

    /// <summary>Walks on from what is counted, and stops at each edge of a step on the way.</summary>
    private long Count(long limit)
    {
        SegmentMapping? held = null;
        try
        {
            return Count(limit, ref held);
        }
        finally
        {
            if (held is not null)
                store.Window.Release(held);
        }
    }

    /// <param name="limit">Where to end.</param>
    /// <param name="held">
    /// The segment under way. Otherwise each step would map the whole of it anew, while producers wait for the window's lock.
    /// </param>
    private long Count(long limit, ref SegmentMapping? held)
    {
        IndexPage page = _page!;
        var walk = new FrameWalk(store);
        long lastStep = _lastStep;
        _passed.Clear();
        _next = _counted;
        while (_next.Offset < limit)
        {
            SegmentMapping? left = held;
            held = store.Window.TryAcquire(store.Window.StartOf(_next.Offset));
            if (left is not null)
                store.Window.Release(left);
            long stop = Math.Min(limit, page.EdgeAfter(_next.Offset));
            long reached = walk.FindContiguousEnd(_next.Offset, stop);
            if (reached == _next.Offset)
                break;
            if (page.StepOf(_next.Offset) > lastStep)
            {
                _passed.Add(_next);
                lastStep = page.StepOf(_next.Offset);
            }

            long time = Math.Max(_counted.Time, walk.LatestTime);
            // After the walk: producers append meanwhile, and a search by time must not pass what they appended after this look.
            if (walk.Messages > walk.TimedMessages)
                time = Math.Max(time, IndexEntry.TimeFrom(store.Settings.TimeProvider.GetUtcNow()));
            _next = new IndexEntry(reached, _counted.Number + walk.Messages, time);
            if (reached < stop)
                break;
        }

        Debug.Assert(_next.Offset >= _counted.Offset, "A walk goes forward.");
        return _next.Offset;
    }

    private void Take()
    {
        _counted = _next;
        if (_passed.Count > 0)
            _lastStep = _page!.StepOf(_passed[^1].Offset);
    }

    private void Write()
    {
        try
        {
            using IndexFile? file = IndexFile.TryOpen(store.Directory, store.Meta, FileOpening.ReadWrite);
            if (file?.Page != _page)
            {
                // Removed, damaged, or another process's series by now.
                _page = null;
                return;
            }

            file!.Write(CollectionsMarshal.AsSpan(_passed));
            file.WriteCounted(_counted);
            _seenInFile = _counted;
            WidenIfFull(file);
        }
        catch (QueueDiskException)
        {
            // The next look begins where the file ends.
            _page = null;
        }
        finally
        {
            _passed.Clear();
        }
    }

    /// <summary>The kept log is longer than the ring covers: every second entry stays, in a file of twice the step.</summary>
    private void WidenIfFull(IndexFile file)
    {
        IndexPage page = file.Page;
        long logStart = store.LogStart;
        if (page.StepOf(_counted.Offset) - page.StepOf(logStart) < (1L << page.CountBits) - 1)
            return;
        _page = page with { StepBits = page.StepBits + 1 };
        file.CopyTo(store.Directory, store.Meta, _page, logStart, _counted.Offset);
        _lastStep = _page.StepOf(_counted.Offset);
    }
}
