using System.Runtime.CompilerServices;

namespace MappedFileQueues.Memory;

/// <summary>Mistakes that are easily made in an engine of this kind. The crash laboratory must catch each of them.</summary>
internal enum PlantedFault
{
    None,

    /// <summary>A removed segment becomes another one while a process maps it.</summary>
    MappedSegmentRecycled,

    /// <summary>A recycled segment keeps its old bytes.</summary>
    RecycledNotZeroed,

    /// <summary>The bound of what is allocated rises over old bytes before they are zeroed.</summary>
    AllocatedRaisedEarly,

    /// <summary>A file that a snapshot shares is recycled.</summary>
    HardLinkIgnored,

    /// <summary>Segments go before the log start is on disk.</summary>
    LogStartNotRecorded,

    /// <summary>The log start is raised after the segments went.</summary>
    LogStartAfterDeletion,

    /// <summary>A deletion does not look at the cursors again.</summary>
    CursorsNotReadAgain,

    /// <summary>The second look at the cursors lets a deletion go further than the first one did.</summary>
    LimitRaisedLate,

    /// <summary>The log start is recorded after the segments went.</summary>
    LogStartRecordedLate,

    /// <summary>A deletion does not sync the cursors that it has looked at.</summary>
    CursorsNotSynced,

    /// <summary>What was removed still waits for a flush.</summary>
    DurableNotRaised,

    /// <summary>The names of recycled segments are not made durable.</summary>
    RecycledNameNotFlushed,

    /// <summary>All makers use one temporary name, and open the file of a dead one instead of creating their own.</summary>
    TemporaryNameShared,

    /// <summary>A producer enters a segment without a look at the log start.</summary>
    LogStartNotReadAgain,

    /// <summary>Recovery leaves what is left over of removed segments.</summary>
    LeftoversKept,

    /// <summary>Recovery believes a log start that was not recorded.</summary>
    UnrecordedLogStartKept,

    /// <summary>A producer's file speaks of messages that are not on disk.</summary>
    SequenceHintAboveDurable,

    /// <summary>Messages go before the file of their producer knows them.</summary>
    SequenceNotSettled,

    /// <summary>The file of a producer knows messages that are about to go before that is recorded.</summary>
    SequenceSettledBeforeRecord,

    /// <summary>A flush confirms without syncing.</summary>
    NoFlush,

    /// <summary>The checkpoint is written before the sync that it records.</summary>
    CheckpointBeforeSync,

    /// <summary>A new segment's name is not made durable.</summary>
    DirectoryNotFlushed,

    /// <summary>The first header of a batch is stored before the inner ones.</summary>
    BatchHeadFirst,

    /// <summary>A dead owner's frame becomes free instead of padding.</summary>
    DeadFrameReused,

    /// <summary>The claim of a stopped process is taken for a dead one's.</summary>
    StoppedOwnerIsDead,

    /// <summary>The same boot counts as the same memory, whatever the store shows.</summary>
    MemoryTakenForWhole,

    /// <summary>A process that does not get `attached` alone assumes that a live process has recovered the store.</summary>
    AttachedUnrecovered,

    /// <summary>Recovery leaves the bytes after the tail.</summary>
    RestNotZeroed,

    /// <summary>The checksum does not cover the frame's offset.</summary>
    ChecksumWithoutOffset,

    /// <summary>The checksum does not cover whether a header block comes before the message.</summary>
    BlockNotInChecksum,

    /// <summary>A read commits the message before the caller has it.</summary>
    CursorBeforeRead,

    /// <summary>A failed sync counts as a successful one.</summary>
    FlushErrorIgnored,

    /// <summary>Recovery begins at the tail hint.</summary>
    TailHintTrusted,

    /// <summary>Only the queue whose flush failed knows about the failure.</summary>
    PoisonNotShared,

    /// <summary>A slot changes hands under the same generation.</summary>
    GenerationNotRaised,

    /// <summary>Segments after a power loss stay where they are.</summary>
    LaterSegmentsLeft,

    /// <summary>Cursors may be above the tail after a power loss.</summary>
    CursorsNotClamped,

    /// <summary>The whole frames of a torn batch count as messages.</summary>
    HalfBatchKept,

    /// <summary>An Exclusive producer leaves the old bytes at the next header's place.</summary>
    NextHeaderNotZeroed,

    /// <summary>The index speaks of messages before they are on disk.</summary>
    IndexAboveConfirmed,

    /// <summary>An entry of the index is used although the log holds something else there.</summary>
    IndexStaleTrusted,

    /// <summary>An entry of the index is used although it counts from another origin.</summary>
    IndexSeriesIgnored,

    /// <summary>A dead claim becomes padding without a wake-up of the sleepers.</summary>
    SilentRepair,

    /// <summary>The control page is a hole in its file.</summary>
    ControlNotAllocated,

    /// <summary>An appended file counts as flushed without a sync.</summary>
    AppendNotFlushed,

    /// <summary>A reused file keeps its old content after the new.</summary>
    ReusedNotCleared,

    /// <summary>Zeros that a crash left at the end of a file stay there.</summary>
    ZeroTailKept,

    /// <summary>Nothing marks which zeros at the end of a file are prepared room.</summary>
    RoomNotMarked,

    /// <summary>A put counts as durable without a sync.</summary>
    PackNotFlushed,

    /// <summary>A new volume's name is not made durable.</summary>
    PackNameNotFlushed,

    /// <summary>A compaction leaves an object out because of a newer one that is not on disk yet.</summary>
    CompactionNotFlushed,

    /// <summary>A compaction leaves deletions out while what they delete is still there.</summary>
    TombstonesDropped,

    /// <summary>A place of a pack without a needle counts as the pack's end, whatever is after it.</summary>
    PackDamageIsEnd,

    /// <summary>A gap that a power loss left counts as damage.</summary>
    PackCutIsDamage,

    /// <summary>A key returns the older value although damage hides the newer one.</summary>
    PackHiddenForgotten,

    /// <summary>Objects are evicted in memory alone: what is deleted then comes back after a crash.</summary>
    PackEvictionNotSettled,

    /// <summary>A hand-out does not confirm the one before it.</summary>
    GroupNotConfirmed,

    /// <summary>A hand-out reads the state of the one before it after its second look at `next`.</summary>
    GroupStateReadLate,

    /// <summary>The record that `next` names counts as free once it is done.</summary>
    GroupNamedReused,

    /// <summary>A message leaves its range before the single that takes it is whole.</summary>
    GroupBitBeforeContent,

    /// <summary>A living member's messages are taken for a dead one's.</summary>
    GroupHolderTakenForDead,

    /// <summary>Who takes a range over forgets what its owner has half given back.</summary>
    GroupHalfMadeForgotten,

    /// <summary>The floor of a group reads the singles before the ranges.</summary>
    GroupFloorSinglesFirst,

    /// <summary>A removal does not save the groups that it has looked at.</summary>
    GroupNotSaved,

    /// <summary>The mapped table of a group is believed after a power loss.</summary>
    GroupLiveBelievedAfterCut,

    /// <summary>A group may be above the tail after a power loss.</summary>
    GroupNotClamped,

    /// <summary>What is saved of a group may be above the tail after a power loss.</summary>
    GroupSavedNotClamped,

    /// <summary>The bits of a range count although its messages are others by now.</summary>
    GroupBitsByCountIgnored,

    /// <summary>A message is done before its dead letter is on disk.</summary>
    LetterAfterDone,

    /// <summary>Slots begin with their first generation again before the groups forget their owners.</summary>
    GroupGenerationReset,
}

/// <summary>
/// The one mistake that is switched on. Only the crash laboratory, which compiles the engine with MFQ_PLANTED, can switch one on.
/// In every other build <see cref="Has"/> is a constant, and the compilers of machine code drop the branches that query it.
/// </summary>
internal static class PlantedFaults
{
#if MFQ_PLANTED
    [ThreadStatic]
    private static long t_firstBlocks;

    public static PlantedFault Active { get; set; }

    /// <summary>
    /// The laboratory's segments are shorter than <see cref="Segments.SegmentMaker.FirstBlocks"/>, and would never have a rest;
    /// 0: what is usual.
    /// </summary>
    public static long FirstBlocks { get => t_firstBlocks; set => t_firstBlocks = value; }

    public static bool Has(PlantedFault fault) => Active == fault;
#else
    public static long FirstBlocks => 0;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static bool Has(PlantedFault fault) => false;
#endif
}
