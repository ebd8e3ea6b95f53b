using System.Diagnostics;

namespace MappedFileQueues.Memory;

/// <summary>The places of the protocols where a test may stop or kill a process.</summary>
internal enum ProtocolStep
{
    Claimed,
    PayloadWritten,
    NextHeaderZeroed,
    BatchInnerWritten,
    Published,
    SequenceRaised,
    SleepersWoken,
    TemporaryMade,
    TemporaryFlushed,
    SegmentRenamed,
    RestPadded,
    SegmentEntered,
    RepairProbed,
    RepairDone,
    WaiterFlagRaised,
    OpenLocked,
    MetaWritten,
    MetaRenamed,
    AttachedAlone,
    RecoveryBegun,
    ClaimPadded,
    SegmentRewritten,
    SalvageCopied,
    PageZeroed,
    LaterMoved,
    CursorsClamped,
    CheckpointSlotWritten,
    ControlCleared,
    Recovered,
    SlotTaken,
    ExclusiveMarked,
    CursorStored,
    WaitAnnounced,
    CursorDeleted,
    CursorDeletionFlushed,
    RemovalPlanned,
    LogStartRecorded,
    LogStartStored,
    LogStartRaised,
    SegmentDeleted,
    SegmentInUse,
    SpareTaken,
    SpareZeroed,
    ZeroingBegun,
    RecycledZeroed,
    SnapshotBegun,
    SnapshotLinked,
    SnapshotCopied,
    SnapshotRenamed,
    CallChecked,
    ClaimTimedOut,
    AsyncWaitAdded,
    FlushMarked,
    FlushSynced,
    DurableRaised,
    GroupSavedMade,
    GroupMade,
    GroupDeleted,
    GroupSaved,
    GroupNextRead,
    GroupNextScanned,
    GroupRangesScanned,
    GroupRangeTaken,
    GroupRangeFilled,
    GroupHandedOut,
    GroupBitsAcknowledged,
    GroupRangeEnded,
    GroupSingleTaken,
    GroupSingleFilled,
    GroupSingleWhole,
    GroupBitMoved,
    GroupReturned,
    GroupSingleHeld,
    GroupTakenOver,
    GroupBitsTurned,
    GroupSettled,
    GroupGivenBack,
    GroupLetterSent,
    ProducerSequenceStored,
    PackHeaderWritten,
    PackNeedleWritten,
    PackApplied,
    PackSynced,
    PackOldVolumeSynced,
    PackVolumeWritten,
    PackVolumeRenamed,
    PackCheckpointWritten,
    PackCheckpointRenamed,
    PackTailEnded,
    PackCompactionCopied,
    PackCompactionRenamed,
    PackEntriesMoved,
    PackEvictionMade,
    PackEntriesEvicted,
    PackVolumeDeleted,
}

/// <summary>
/// The seam for step tests. The calls exist only where MFQ_STEPS is defined. No package defines it; the tests' child process
/// compiles the engine with it.
/// </summary>
internal static class ProtocolSteps
{
    /// <summary>Called at each step, on the thread that reaches it.</summary>
    public static Action<ProtocolStep>? Handler { get; set; }

    /// <summary>
    /// Takes over the work of the background threads, which are not started then: a run on one thread is the same each time.
    /// </summary>
#if MFQ_STEPS
    public static Action<Action>? Background { get; set; }
#else
    public static Action<Action>? Background => null;
#endif

    [Conditional("MFQ_STEPS")]
    public static void Reach(ProtocolStep step) => Handler?.Invoke(step);
}
