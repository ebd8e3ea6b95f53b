namespace MappedFileQueues.Format;

/// <summary>How far the recovery of a store has come, as stored in the control page.</summary>
internal enum RecoveryStage : ulong
{
    /// <summary>No recovery has run: the page is new, or was lost.</summary>
    Unknown = 0,

    /// <summary>A process that is not alone may attach.</summary>
    Finished = 1,

    /// <summary>A lone opener is at work, or died at work. Nothing is lost: the next opener does the same.</summary>
    AfterDeaths = 2,

    /// <summary>
    /// A lone opener is cutting the log, or died while it did: the next opener cuts again, whatever else it finds.
    /// </summary>
    AfterPowerLoss = 3,
}

/// <summary>
/// The 4 KiB of `control`, which every process maps. Each word that is written while others read it has 128 bytes of its own
/// (two cache lines: x64 prefetches them in pairs). The page holds nothing that opening cannot rebuild; `docs/FORMAT.md` lists
/// the writers and readers of each word.
/// </summary>
internal static class ControlLayout
{
    /// <summary>Length of the file in bytes.</summary>
    public const int Length = 4096;

    /// <summary>"MFQCTRL2", little-endian.</summary>
    public const ulong Magic = 0x324C_5254_4351_464D;

    public const int Stride = 128;

    // The cold block: written only under the `open` lock, with a checksum over it and the four cold words.
    public const int MagicAt = 0;
    public const int StoreIdAt = 8;
    public const int BootIdAt = 24;
    public const int EpochAt = 40;
    public const int ColdChecksumAt = 48;

    /// <summary>The checksum after the change of a word that is under way; 0 between two changes.</summary>
    public const int NextChecksumAt = 52;

    /// <summary>A word of its own, so that one store changes it; the checksum does not cover it.</summary>
    public const int RecoveryStageAt = 56;

    public const int FlushedBelowAt = 64;

    public const int TailHintAt = 1 * Stride;
    public const int DurableAt = 2 * Stride;
    public const int AllocatedAt = 3 * Stride;
    public const int WakeSequenceAt = 4 * Stride;
    public const int WaiterFlagAt = 5 * Stride;
    public const int LogStartAt = 6 * Stride;

    /// <summary>In the line of the log start: a consumer's Commit reads both.</summary>
    public const int ProducersMayWaitAt = LogStartAt + 8;
    public const int DirectoryFlushedAt = 7 * Stride;
    public const int ExclusiveAtWorkAt = 8 * Stride;
    public const int FlushTargetAt = 9 * Stride;
    public const int BarrierNeededAt = 10 * Stride;
    public const int FlushWakeSequenceAt = 11 * Stride;
    public const int FlushWaiterFlagAt = 12 * Stride;
    public const int RepairCountAt = 13 * Stride;
    public const int HasPollersAt = 14 * Stride;
    public const int CorruptAtAt = 15 * Stride;

    // Why work in the background fails, for information: since when (milliseconds since 1970 UTC; 0 while it succeeds), which
    // process reports it, and its text in UTF-8.
    public const int FailureProcessIn = 8;
    public const int FailureLengthIn = 12;
    public const int FailureTextIn = 16;

    /// <summary>Flushes.</summary>
    public const int FlushFailureAt = 16 * Stride;
    public const int FlushFailureTextMax = 1008;

    public const int CapacityWakeSequenceAt = 24 * Stride;
    public const int CapacityWaiterFlagAt = 25 * Stride;
    public const int ConsumersChangedAt = 26 * Stride;

    /// <summary>Retention; as for flushes.</summary>
    public const int RetentionFailureAt = 27 * Stride;
    public const int RetentionFailureTextMax = 496;

    // Which file `queue.meta` was at the last recovery: its inode and creation time. Not covered by the checksum: a wrong value
    // raises the epoch, no more.
    public const int MetaInodeAt = 31 * Stride;
    public const int MetaBirthAt = MetaInodeAt + 8;

    /// <summary>The top bit of the waiter flag: an earlier flush failed.</summary>
    public const ulong PoisonBit = 1UL << 63;
}
