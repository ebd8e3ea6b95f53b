#if MFQ_PLANTED
namespace MappedFileQueues.Memory;

/// <summary>Mistakes that an engine of this kind is easily built with. The crash laboratory must catch each of them.</summary>
internal enum PlantedFault
{
    None,

    /// <summary>A flush confirms without syncing.</summary>
    NoFlush,

    /// <summary>The checkpoint is written before the sync that it stands for.</summary>
    CheckpointBeforeSync,

    /// <summary>A new segment's name is not made durable.</summary>
    DirectoryNotFlushed,

    /// <summary>The first header of a batch is stored before the inner ones.</summary>
    BatchHeadFirst,

    /// <summary>A dead owner's frame becomes free instead of padding.</summary>
    DeadFrameReused,

    /// <summary>The claim of a stopped process is taken for a dead one's.</summary>
    StoppedOwnerIsDead,

    /// <summary>The same boot counts as the same memory, whatever stands in the store.</summary>
    MemoryTakenForWhole,

    /// <summary>Whoever does not get `attached` alone takes it for granted that somebody alive has recovered.</summary>
    AttachedUnrecovered,

    /// <summary>Recovery leaves what lies behind the tail.</summary>
    RestNotZeroed,

    /// <summary>The checksum does not cover the frame's place.</summary>
    ChecksumWithoutOffset,

    /// <summary>A read commits the message before the caller has it.</summary>
    CursorBeforeRead,

    /// <summary>A sync that fails counts as one that did not.</summary>
    FlushErrorIgnored,

    /// <summary>Recovery begins at the tail hint.</summary>
    TailHintTrusted,

    /// <summary>Only the queue whose flush failed knows of it.</summary>
    PoisonNotShared,

    /// <summary>A slot changes hands under the same generation.</summary>
    GenerationNotRaised,

    /// <summary>Segments behind a cut stay where they are.</summary>
    LaterSegmentsLeft,

    /// <summary>Cursors may stand above the tail after a cut.</summary>
    CursorsNotClamped,

    /// <summary>The whole frames of a torn batch count.</summary>
    HalfBatchKept,

    /// <summary>An Exclusive producer leaves what stands at the next header's place.</summary>
    NextHeaderNotZeroed,

    /// <summary>A dead claim becomes padding, and nobody who sleeps hears of it.</summary>
    SilentRepair,

    /// <summary>The control page is a hole in its file.</summary>
    ControlNotAllocated,

    /// <summary>A file that is appended to counts as flushed without a sync.</summary>
    AppendNotFlushed,

    /// <summary>A file that is used again keeps its old content behind the new.</summary>
    ReusedNotCleared,

    /// <summary>Zeros that a crash left at the end of a file stay there.</summary>
    ZeroTailKept,

    /// <summary>Nothing says which zeros at the end of a file are room.</summary>
    RoomNotMarked,

    /// <summary>A put counts as durable without a sync.</summary>
    PackNotFlushed,

    /// <summary>A new volume's name is not made durable.</summary>
    PackNameNotFlushed,

    /// <summary>A compaction leaves an object out because of a newer one that is not on disk yet.</summary>
    CompactionNotFlushed,

    /// <summary>A compaction leaves deletions out while what they delete is still there.</summary>
    TombstonesDropped,

    /// <summary>A place of a pack at which no needle stands is its end, whatever stands behind it.</summary>
    PackDamageIsEnd,

    /// <summary>What a power cut has left out is damage.</summary>
    PackCutIsDamage,

    /// <summary>A key answers with the older value although damage hides the newer one.</summary>
    PackHiddenForgotten,
}

/// <summary>
/// The one mistake that is switched on. This file, and each place that asks it, is compiled into the crash laboratory only.
/// </summary>
internal static class PlantedFaults
{
    public static PlantedFault Active { get; set; }

    public static bool Has(PlantedFault fault) => Active == fault;
}
#endif
