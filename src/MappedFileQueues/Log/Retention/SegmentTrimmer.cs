using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Sequences;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Retention;

/// <summary>
/// Removes the oldest segments of a store, under `open`.
/// <code>
/// step                                                killed after it
/// 1 raise the log start: from here on no reader and   the segments are left over: the next removal meets them below the
///   no consumer begins before it                      log start; a lone opener takes the log start back
/// 2 look at the cursors again; if one moved back      the same
///   meanwhile, the log start goes back to it
/// 3 sync the cursors, save the groups                 the same
/// 4 record the log start on disk                      the segments are left over: the next removal, or a lone opener,
///                                                     removes them, after a power loss too
/// 5 bring the files of producers up to it             the same
/// 6 raise durable: nothing before it needs a flush    the same
/// 7 the segments, the oldest first: give each the     the rest is left over
///   name of a spare, or unlink it
/// </code>
/// Step 2 pairs with a consumer that stores its cursor and then looks at the log start: one of the two sees the other. Step 3
/// comes before the record, because after a power loss an older cursor would be before the log; and after the second look, which
/// sees nothing of a consumer that has moved back and on again before it: an earlier sync may have met it on its way. Step 4
/// makes a flush of what is removed needless: recovery begins after it, and its files may be used again. Step 5 comes before 6:
/// who is told that a message is durable relies on its sequence. Names that a power loss brings back are before the recorded
/// offset. A mapping outlives its file's name, so a reader inside a removed segment reads on to its end.
/// </summary>
internal sealed unsafe class SegmentTrimmer(LogStore store) : IDisposable
{
    /// <summary>
    /// A preparer may take so many bytes of small segments at once, however far ahead it is, but no more than half of what the
    /// policy keeps: the store takes twice that at most.
    /// </summary>
    private const long SparesAtOnce = 32L * 1024 * 1024;

    private const int SparesAtOnceMax = 32;

    private readonly CheckpointFile _record = new(store.Directory, store.Meta.StoreId, StoreNames.LogStart);
    private bool _isNameFlushed;

    /// <summary>The segments that would go, the oldest first.</summary>
    public long[] FindRemovable(long before, RetentionOptions policy)
    {
        // A log that recovery found damaged stays whole: what is before the damage may be all that is left to read.
        if (store.CorruptAt >= 0)
            return [];
        long limit = RetentionPlan.To(store.Directory, store.Meta, policy, before, store.LogStart, store.WrittenTo).Limit;
        return [.. LogStartSearch.List(store.Directory, store.Meta).From(0).TakeWhile(start => start < limit)];
    }

    /// <summary>
    /// Waits for the removal under way; completes that of a process that died over it, or takes it back. What goes is certain
    /// then, but the files stay for the next removal, because that tells a handler of them first.
    /// </summary>
    /// <returns>False when the store has another policy by now.</returns>
    public bool TrySettle(RetentionOptions? policy)
    {
        using PlatformLock open = store.TakeOpenLock();
        if (!IsPolicy(policy))
            return false;
        if (MayRemove)
            _ = MoveLimit(0, policy ?? new RetentionOptions());
        return true;
    }

    /// <summary>Removes whole segments before an offset, as far as the policy allows it.</summary>
    /// <param name="before">The offset.</param>
    /// <param name="policy">Says which cursors count, and whether files are used again; null when the store has none.</param>
    /// <param name="sparesMax">So many files may wait to be used again.</param>
    /// <param name="next">The policy that counts instead, because it is about to be the store's.</param>
    /// <returns>The log start afterwards; null when the store has another policy by now: nothing is
    /// removed by the one before once a new one is set.</returns>
    public long? Remove(long before, RetentionOptions? policy, int sparesMax, RetentionOptions? next = null)
    {
        using PlatformLock open = store.TakeOpenLock();
        if (!IsPolicy(policy))
            return null;
        if (!MayRemove)
            return store.LogStart;
        policy = next ?? policy ?? new RetentionOptions();
        long limit = MoveLimit(before, policy);
        RemoveFiles(limit, sparesMax, policy.MaxBytes);
        return limit;
    }

    public void Dispose() => _record.Dispose();

    private bool MayRemove => store.CorruptAt < 0 && !store.Wake.IsPoisoned;

    /// <summary>Policies are written under `open`, which is held here.</summary>
    private bool IsPolicy(RetentionOptions? policy) =>
        RetentionFile.Read(store.Directory, store.Meta.StoreId) == policy;

    /// <summary>Steps 1 to 6; returns where the log begins now.</summary>
    private long MoveLimit(long before, RetentionOptions policy)
    {
        long oldest = FindOldestFile();
        long limit = FindLimit(before, oldest, policy);
        try
        {
            if (limit > oldest || limit < store.LogStart)
                limit = MoveLogStart(limit, before, oldest, policy);
            else if (LogStartSearch.List(store.Directory, store.Meta).From(0) is [long first, ..] && first < limit)
                CarryOn(limit);
        }
        catch (QueueDiskException error) when (error.MayHaveLostData)
        {
            // The next removal's syncs would succeed, and say nothing about the cursors and the record that this one lost.
            store.Poison();
            throw;
        }

        return limit;
    }

    /// <summary>
    /// Usually the log start. A process that died after steps 1 to 3 has raised it, and nothing more: the files are there, it is
    /// not recorded, and a consumer that moved back meanwhile may count on them.
    /// </summary>
    private long FindOldestFile()
    {
        SegmentStarts segments = LogStartSearch.List(store.Directory, store.Meta);
        long recorded = CheckpointFile.ReadLogStart(store.Directory, store.Meta);
        long oldest = store.LogStart;
        while (oldest - store.Meta.SegmentLength >= recorded && segments.Contains(oldest - store.Meta.SegmentLength))
            oldest -= store.Meta.SegmentLength;
        return oldest;
    }

    /// <summary>Below the log start only when a consumer that is there holds it back.</summary>
    private long FindLimit(long before, long oldest, RetentionOptions policy) => RetentionPlan.To(
        store.Directory, store.Meta, policy, Math.Max(before, store.LogStart), oldest, store.WrittenTo).Limit;

    private long MoveLogStart(long limit, long before, long oldest, RetentionOptions policy)
    {
        long logStart = store.LogStart;
        if (PlantedFaults.Has(PlantedFault.LogStartAfterDeletion))
            RemoveFiles(limit, sparesMax: 0);
        ProtocolSteps.Reach(ProtocolStep.RemovalPlanned);
        SetLogStart(limit);
        ProtocolSteps.Reach(ProtocolStep.LogStartRaised);
        try
        {
            // Not further than the log start was raised: consumers between the two were not warned.
            if (!PlantedFaults.Has(PlantedFault.CursorsNotReadAgain))
                limit = Math.Min(limit, FindLimit(before, oldest, policy));
            if (PlantedFaults.Has(PlantedFault.LimitRaisedLate))
                limit = FindLimit(before, oldest, policy);
            if (limit > oldest && policy.KeepUnconsumed && !PlantedFaults.Has(PlantedFault.CursorsNotSynced))
                SyncCursors(policy);
            if (limit > oldest && policy.KeepUnconsumed && !PlantedFaults.Has(PlantedFault.GroupNotSaved))
                SaveGroups(limit);
            if (PlantedFaults.Has(PlantedFault.LogStartRecordedLate))
                RemoveFiles(limit, sparesMax: 1);
            if (PlantedFaults.Has(PlantedFault.SequenceSettledBeforeRecord))
                ProducerSettlement.Settle(store, limit);
            if (limit > oldest && !PlantedFaults.Has(PlantedFault.LogStartNotRecorded))
                Record(limit);
        }
        catch
        {
            SetLogStart(logStart);
            throw;
        }

        SetLogStart(limit);
        ProtocolSteps.Reach(ProtocolStep.LogStartRecorded);
        RaiseDurable(limit);
        return limit;
    }

    /// <summary>Steps 5 and 6.</summary>
    private void RaiseDurable(long limit)
    {
        ProducerSettlement.Settle(store, limit);
        if (PlantedFaults.Has(PlantedFault.DurableNotRaised))
            return;
        Debug.Assert(limit <= store.WrittenTo, "Confirmed <= tail: what was removed was published.");
        // P18 full: nothing before it is left to flush; pairs with P18 acquire in LogStore.
        SharedWord.RaiseTo(store.Control.Durable, limit);
    }

    /// <summary>Stores, and snapshots, of earlier versions have no record yet.</summary>
    private void Record(long logStart)
    {
        if (store.Directory.Identify(StoreNames.LogStart) is null)
            _record.Create(store.Control.BootId);
        FlushName();
        _record.Write(logStart, store.Control.Epoch, store.Control.BootId);
    }

    /// <summary>
    /// What is before the log start was left over by a process that died. It may have died within step 4, before the record was
    /// synced, or before step 6: then flushes would begin at a segment that is gone.
    /// </summary>
    private void CarryOn(long limit)
    {
        _record.Sync();
        FlushName();
        RaiseDurable(limit);
    }

    /// <summary>The record's name must survive a power loss too, and whoever made it may have died before it did this.</summary>
    private void FlushName()
    {
        if (_isNameFlushed)
            return;
        store.Directory.FlushEntries(StoreNames.Offsets);
        _isNameFlushed = true;
    }

    /// <summary>Also what an earlier removal, or a slow producer that made an old segment again, has left.</summary>
    private void RemoveFiles(long limit, int sparesMax, long? kept = null)
    {
        int ahead = LogStartSearch.List(store.Directory, store.Meta).From(store.Window.StartOf(store.WrittenTo) + 1).Length;
        if (sparesMax > 0)
        {
            long atOnce = Math.Min(SparesAtOnce, (kept ?? long.MaxValue) / 2) / store.Meta.SegmentLength;
            sparesMax = (int)Math.Max(sparesMax - ahead, Math.Clamp(atOnce, 1, SparesAtOnceMax));
        }

        int spares = SpareFiles.RemoveBeyond(sparesMax, store.Directory);
        foreach (long start in LogStartSearch.List(store.Directory, store.Meta).From(0))
        {
            if (start >= limit)
                break;
            string name = StoreNames.Segment(start);
            if (spares++ >= sparesMax || !store.Directory.RenameWithoutReplacing(name, StoreNames.Spare(start)))
                DeleteUnlessMapped(name);
            ProtocolSteps.Reach(ProtocolStep.SegmentDeleted);
        }
    }

    /// <summary>
    /// Windows deletes no file that somebody has mapped, and says "access denied": it is left over for the next removal.
    /// </summary>
    private void DeleteUnlessMapped(string name)
    {
        try
        {
            store.Directory.Delete(name);
        }
        catch (QueueDiskException error) when (OperatingSystem.IsWindows() && error.Errno == DiskErrors.EACCES)
        {
        }
    }

    /// <summary>Removes the files that wait to be used again.</summary>
    public void RemoveSpares() => SpareFiles.RemoveBeyond(0, store.Directory);

    /// <summary>Makes the spares segments after those that exist.</summary>
    public void UseSpares(int sparesMax)
    {
        if (!store.Directory.List(StoreNames.CommitLog).Any(StoreNames.IsSpare))
            return;
        SegmentStarts segments = LogStartSearch.List(store.Directory, store.Meta);
        long end = store.Window.StartOf(store.WrittenTo);
        int ahead = -1;
        for (; segments.Contains(end); end += store.Window.SegmentLength)
            ahead++;
        if (ahead >= 0 && ahead < sparesMax)
            store.Maker.MakeOfSpares(end, sparesMax - ahead);
    }

    /// <summary>
    /// Each that counts. One that cannot be opened holds back everything, or everything that the policy lets it: it cannot come
    /// to be before the log.
    /// </summary>
    private void SyncCursors(RetentionOptions policy)
    {
        foreach (StoredCursor cursor in CursorFile.ReadAll(store.Directory))
        {
            // A damaged one can be synced, and holds back as one that cannot be read does.
            if (cursor.Error is QueueDiskException error)
            {
                if (cursor.IsUnknown && policy.UnconsumedBytesMax is null)
                    throw error;
                continue;
            }

            store.Directory.Sync(cursor.File);
        }
    }

    /// <summary>
    /// Those of which a power loss would leave an older state, before what is removed. One that is damaged holds back as a cursor
    /// does, and has nothing to save.
    /// </summary>
    private void SaveGroups(long limit)
    {
        var clock = new GroupClock(store.Settings.TimeProvider);
        bool isSavedBefore = false;
        foreach (string name in GroupFile.Names(store.Directory))
        {
            if (GroupFile.ReadSaved(store.Directory, store.Meta.StoreId, name) is { } saved && saved.Floor >= limit)
            {
                isSavedBefore = true;
                continue;
            }

            try
            {
                using MappedRegion? region = GroupFile.MapForReading(
                    store.Directory, store.Meta.StoreId, StoreNames.Group(name));
                if (region is not null)
                    GroupFile.Save(store.Directory, store.Meta.StoreId, name, new GroupTable(region), store.Control.Epoch, clock,
                        GroupFile.SaveWaitMax, store.Settings.LockWaits);
            }
            catch (QueueCorruptException)
            {
                // The plan has counted it as one that needs everything.
            }
        }

        // Whoever saved it may have died before its name was on disk.
        if (isSavedBefore)
            store.Directory.FlushEntries(StoreNames.Groups);
    }

    private void SetLogStart(long offset)
    {
        Debug.Assert(offset <= store.WrittenTo, "Log start <= tail.");
        store.Control.AnnounceColdWord(ControlLayout.LogStartAt, (ulong)offset);
        // P16 full: before the cursors are read again; pairs with P16 acquire in SegmentRoller and P16 full in LogConsumer.
        SharedWord.Exchange((ulong*)store.Control.LogStart, (ulong)offset);
        ProtocolSteps.Reach(ProtocolStep.LogStartStored);
        store.Control.SealColdBlock(store.Meta.StoreId);
        // Consumers before it are dropped: producers do not wait for them any more.
        store.CapacityWake.WakeIfAwaited();
    }
}
