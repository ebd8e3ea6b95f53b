using System.Runtime.ExceptionServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.Opening;
using MappedFileQueues.Log.Sequences;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Snapshots;

/// <summary>
/// Makes a store out of an attached one, up to one published offset, while producers and consumers of any process continue.
/// <code>
/// 1 flush: the end E is what is durable then. Everything below E is published, on disk, and never changes again
/// 2 the source's `open` lock: no segment is deleted; read what the files of producers know, which may raise E; map E's
///   segment, so that it stays
/// 3 give the segments below E's a second name in the target
/// 4 release the lock; copy what could not be linked, and of E's segment what is below E
/// 5 cursors and groups, at most E; checkpoint at E, where the log begins; policy; then the meta page
///   (<see cref="SnapshotTarget"/>)
/// </code>
/// A linked segment is one file of two stores, so neither may change a byte of it. Producers write at the tail only, which is
/// at or above E in both. Flushes change nothing. A claim is repaired only where nothing was flushed: above E. Recovery after
/// deaths writes from the tail on; after a power loss it zeroes after the tail, and in both stores the tail is at or above E,
/// because all frames below E are on disk. Damaged bytes below E may still end the log there: then <see cref="LogTruncation"/>
/// gives the store a file of its own first. After poison, <see cref="SegmentRewrite"/> writes new files. A file with two names is
/// never recycled.
/// </summary>
/// <param name="store">The source.</param>
/// <param name="flusher">Flushes it.</param>
internal sealed class SnapshotWriter(LogStore store, FlushEngine flusher)
{
    private readonly long _segmentLength = store.Meta.SegmentLength;
    private readonly List<long> _unlinked = [];
    private bool _isOvertaken;
    private List<ProducerPage> _producers = [];
    private int _linkedCount;
    private int _copiedCount;
    private long _first;
    private long _end;

    /// <summary>Makes the snapshot.</summary>
    /// <param name="path">The target: a directory that is empty or missing.</param>
    /// <param name="keepsStoreId">The snapshot has the identity of the source, not one of its own.</param>
    public SnapshotResult Write(string path, bool keepsStoreId)
    {
        StoreMeta meta = keepsStoreId
            ? store.Meta
            : store.Meta with { StoreId = Guid.NewGuid(), Created = store.Settings.TimeProvider.GetUtcNow() };
        using SnapshotTarget target = SnapshotTarget.Begin(store, path, meta);
        try
        {
            using (SegmentWindow.Use last = LinkSegments(target))
            {
                ProtocolSteps.Reach(ProtocolStep.SnapshotLinked);
                CopyLast(target, last.Segment);
            }

            CopyUnlinked(target);
            int consumerCount = CopyCursors(target);
            AddProducers(target, meta);
            CopyGroups(target, meta);
            CopyRetention(target, meta);
            CopyIndex(target, meta);
            var checkpoints = new CheckpointFile(target.Directory, meta.StoreId);
            checkpoints.Create(store.Os.Boot.Stored);
            checkpoints.WriteBoth(_end, store.Control.Epoch, store.Os.Boot.Stored);
            // Its blocks too: a removal on a full disk writes there.
            CheckpointFile.RecordLogStart(target.Directory, meta, _first, store.Control.Epoch, store.Os.Boot.Stored);
            target.Finish();
            return new SnapshotResult(path, meta.StoreId, _first, _end, _linkedCount, _copiedCount, consumerCount);
        }
        catch
        {
            target.Undo();
            throw;
        }
    }

    /// <summary>
    /// Steps 1 to 3. Returns the segment that the end is in, mapped; null when the end is on its edge and there is none yet.
    /// </summary>
    private SegmentWindow.Use LinkSegments(SnapshotTarget target)
    {
        while (true)
        {
            // Not under the lock: it may wait for a claim.
            _end = flusher.Flush();
            using PlatformLock open = store.TakeOpenLock();
            _first = store.LogStart;
            // A removal may have died after it raised the log start, before the producers' files knew what it was to take.
            if (_first <= _end)
                ProducerSettlement.Settle(store, _first);
            // Here, where no removal takes messages away that they do not know of yet. What they do know of is durable before
            // they know it, so the end is read after them: a sequence without its message would refuse that for ever.
            _producers = ProducerSettlement.Read(store.Directory, store.Meta);
            if (_producers.Count > 0)
                _end = store.ConfirmedOffset;
            long lastStart = store.Window.StartOf(_end);
            SegmentWindow.Use last = store.Window.BeginUse(lastStart);
            bool isLinked = false;
            try
            {
                // Otherwise retention has passed the end since the flush.
                if (_first <= lastStart && (last.Segment is not null || _end == lastStart))
                {
                    for (long start = _first; start < lastStart; start += _segmentLength)
                        Link(target, start);
                    isLinked = true;
                    return last;
                }

                if (_first <= lastStart)
                    throw LogErrors.Missing(store.Path, lastStart, _end);
            }
            finally
            {
                if (!isLinked)
                    last.Dispose();
            }
        }
    }

    private void Link(SnapshotTarget target, long start)
    {
        string name = StoreNames.Segment(start);
        if (store.Directory.Identify(name) is null)
            throw LogErrors.Missing(store.Path, start, start);
        if (store.Directory.TryLink(name, target.Directory, name))
            _linkedCount++;
        else
            _unlinked.Add(start);
    }

    /// <summary>
    /// The bytes below the end; zeros after it, and the full length. What the source has there by now is no part of it.
    /// </summary>
    private void CopyLast(SnapshotTarget target, SegmentMapping? last)
    {
        long start = store.Window.StartOf(_end);
        using PlatformFile copy = target.Directory.Open(StoreNames.Segment(start), FileOpening.ReadWriteOrCreate)!;
        copy.SetLength(_segmentLength);
        // Recovery relies on blocks up to the tail, even where they hold zeros.
        long used = (_end - start + 4095) & ~4095L;
        copy.Allocate(0, Math.Min(_segmentLength, Math.Max(used, SegmentMaker.FirstBlocks)));
        last?.File.CopyNonZero(copy, 0, _end - start);
        copy.Sync();
        _copiedCount++;
    }

    /// <summary>
    /// From the newest to the oldest: retention may delete the oldest meanwhile, and then the snapshot begins after them.
    /// </summary>
    private void CopyUnlinked(SnapshotTarget target)
    {
        for (int i = _unlinked.Count - 1; i >= 0; i--)
        {
            store.ThrowIfClosing();
            long start = _unlinked[i];
            using SegmentWindow.Use use = store.Window.BeginUse(start);
            // Once it is mapped: a slow producer may make a removed segment again, which is empty, and nobody appends to it.
            if (IsRemoved(start))
            {
                BeginAt(target, start + _segmentLength);
                return;
            }

            CopyWhole(target, use.Segment ?? throw LogErrors.Missing(store.Path, start, start));
        }
    }

    /// <summary>Under the lock, because a removal that is under way may take the log start back.</summary>
    private bool IsRemoved(long start)
    {
        if (start >= store.LogStart)
            return false;
        using PlatformLock open = store.TakeOpenLock();
        return start < store.LogStart;
    }

    private void CopyWhole(SnapshotTarget target, SegmentMapping segment)
    {
        using PlatformFile copy = target.Directory.Open(StoreNames.Segment(segment.Start), FileOpening.ReadWriteOrCreate)!;
        if (!copy.TryClone(segment.File))
        {
            long length = Math.Min(segment.File.Length, _segmentLength);
            copy.SetLength(length);
            segment.File.CopyNonZero(copy, 0, length);
        }

        copy.Sync();
        _copiedCount++;
    }

    /// <summary>The segments before this one are gone in the source, so the links to those before them go too.</summary>
    private void BeginAt(SnapshotTarget target, long first)
    {
        for (long start = _first; start < first; start += _segmentLength)
        {
            if (target.Directory.Delete(StoreNames.Segment(start)))
                _linkedCount--;
        }

        (_first, _isOvertaken) = (first, true);
    }

    /// <summary>A removal during the copying has told their files what went; the snapshot does not have that either.</summary>
    private void AddProducers(SnapshotTarget target, StoreMeta meta)
    {
        // Only then: the second look may meet one that was killed over its file, which knows of a message after the end.
        List<ProducerPage> after = _isOvertaken ? ProducerSettlement.Read(store.Directory, store.Meta) : [];
        foreach (ProducerPage producer in _producers)
        {
            ProducerPage now = after.Find(page => page.Id == producer.Id && page.Offset <= _end) ?? producer;
            target.Add(producer.Name, ProducerLayout.Make(producer.Id, meta.StoreId, now.Sequence, now.Offset));
        }
    }

    private int CopyCursors(SnapshotTarget target)
    {
        int count = 0;
        foreach (StoredCursor cursor in CursorFile.ReadAll(store.Directory))
        {
            if (cursor.IsUnknown)
                ExceptionDispatchInfo.Throw(cursor.Error!);
            if (cursor.Offset is not { } offset)
                continue;
            CursorFile.Write(target.Directory, cursor.File, Math.Min(offset, _end));
            count++;
        }

        return count;
    }

    /// <summary>As a power loss would leave them that cuts the log at the end: what is out is out in the copy, too.</summary>
    private void CopyGroups(SnapshotTarget target, StoreMeta meta)
    {
        TimeProvider time = store.Settings.TimeProvider;
        var clock = new GroupClock(time);
        foreach (string name in GroupFile.Names(store.Directory))
        {
            using MappedRegion? region = GroupFile.MapForReading(
                store.Directory, store.Meta.StoreId, StoreNames.Group(name));
            if (region is null)
                continue;
            SavedGroup group = GroupScan.Save(new GroupTable(region), StoreNames.Group(name), store.Control.Epoch, clock);
            GroupFile.Make(target.Directory, meta.StoreId, name, group.ClampTo(_end, CountMessages), time.GetUtcNow(), clock);
        }
    }

    private long? CountMessages(long from, long to) => MessageCounter.Count(store.Directory, store.Meta, from, to);

    private void CopyRetention(SnapshotTarget target, StoreMeta meta)
    {
        if (RetentionFile.Read(store.Directory, store.Meta.StoreId) is { } policy)
            RetentionFile.Write(target.Directory, meta.StoreId, policy);
    }

    private void CopyIndex(SnapshotTarget target, StoreMeta meta)
    {
        using IndexFile? index = IndexFile.TryOpen(store.Directory, store.Meta);
        index?.CopyTo(target.Directory, meta, index.Page with { StoreId = meta.StoreId }, _first, _end);
    }
}
