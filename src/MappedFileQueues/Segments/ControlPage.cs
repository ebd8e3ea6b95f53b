using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// The mapped `control` page. The hot words are hints and counters that every process changes by interlocked operations. The
/// cold block (the boot that recovered the store, its epoch, what was flushed before, the log start, exclusive producer at work,
/// damage) is written only under the `open` lock and carries a checksum: a wrong log start or a wrong boot would cost
/// messages, while a wrong hint costs only a walk.
/// </summary>
internal sealed unsafe class ControlPage : IDisposable
{
    private readonly MappedRegion _region;

    /// <summary>The words outside the cold block that its checksum covers, in this order.</summary>
    private static ReadOnlySpan<int> ColdWordsBeyond =>
        [ControlLayout.LogStartAt, ControlLayout.ExclusiveAtWorkAt, ControlLayout.CorruptAtAt];

    private ControlPage(MappedRegion region) => _region = region;

    /// <summary>
    /// The start of a frame that some walker reached. Appends begin their walk here. Written by producers, read by openers.
    /// </summary>
    public long* TailHint => (long*)_region.Word(ControlLayout.TailHintAt);

    /// <summary>Everything before it is on disk. Raised by the leader of a flush.</summary>
    public long* Durable => (long*)_region.Word(ControlLayout.DurableAt);

    /// <summary>From the tail up to here all blocks exist. The process that allocated them raises it afterwards.</summary>
    public long* Allocated => (long*)_region.Word(ControlLayout.AllocatedAt);

    /// <summary>Offsets below it are gone. Raised by retention before it unlinks.</summary>
    public long* LogStart => (long*)_region.Word(ControlLayout.LogStartAt);

    /// <summary>The directory entries of all segments that start below it are on disk.</summary>
    public long* DirectoryFlushed => (long*)_region.Word(ControlLayout.DirectoryFlushedAt);

    /// <summary>1 from the attach of an Exclusive producer to its orderly end: bytes beyond the tail may be dirty.</summary>
    public ulong* ExclusiveAtWork => _region.Word(ControlLayout.ExclusiveAtWorkAt);

    /// <summary>
    /// The target of the flush under way, 0 when there is none. A thread that gets the flush lock and finds a target knows that
    /// its leader died.
    /// </summary>
    public long* FlushTarget => (long*)_region.Word(ControlLayout.FlushTargetAt);

    /// <summary>1 once a producer publishes without a barrier of its own: waiters must send it one before they sleep.</summary>
    public ulong* BarrierNeeded => _region.Word(ControlLayout.BarrierNeededAt);

    public ulong* WakeSequence => _region.Word(ControlLayout.WakeSequenceAt);

    public ulong* WaiterFlag => _region.Word(ControlLayout.WaiterFlagAt);

    /// <summary>The two words of the threads that wait for a flush; bit 63 of the flag is not used.</summary>
    public ulong* FlushWakeSequence => _region.Word(ControlLayout.FlushWakeSequenceAt);

    public ulong* FlushWaiterFlag => _region.Word(ControlLayout.FlushWaiterFlagAt);

    /// <summary>The two words of the producers that wait for consumers; bit 63 of the flag is not used.</summary>
    public ulong* CapacityWakeSequence => _region.Word(ControlLayout.CapacityWakeSequenceAt);

    public ulong* CapacityWaiterFlag => _region.Word(ControlLayout.CapacityWaiterFlagAt);

    /// <summary>
    /// 1 once a queue with a limit of unconsumed bytes produces: a consumer that stores its offset then looks for waiting
    /// producers. 2 when it is certain that every consumer sees this.
    /// </summary>
    public ulong* ProducersMayWait => _region.Word(ControlLayout.ProducersMayWaitAt);

    /// <summary>Counts cursors that came or went.</summary>
    public ulong* ConsumersChanged => _region.Word(ControlLayout.ConsumersChangedAt);

    /// <summary>Counts the dead producers' claims that were turned into padding.</summary>
    public ulong* RepairCount => _region.Word(ControlLayout.RepairCountAt);

    /// <summary>
    /// 1 once a process attached that polls (Portable): it wakes nobody, so sleepers look for its messages themselves.
    /// </summary>
    public ulong* HasPollers => _region.Word(ControlLayout.HasPollersAt);

    /// <summary>The boot that last recovered the store; meaningful only when <see cref="IsColdBlockValid"/> is true.</summary>
    public ref Guid BootId => ref At<Guid>(ControlLayout.BootIdAt);

    /// <summary>The epoch of the offsets that are assigned now.</summary>
    public ref long Epoch => ref At<long>(ControlLayout.EpochAt);

    /// <summary>
    /// What recovery knew to be on disk. Later, confirmed says more; it starts at the checkpoint. No durability promise rests on
    /// this value: it tells a bad frame that was flushed, which is damage, from one that never reached the disk.
    /// </summary>
    public long FlushedBelow => At<long>(ControlLayout.FlushedBelowAt);

    /// <summary>
    /// Which file `queue.meta` was at the last recovery. This page is copied with the store, so another file tells a copy.
    /// </summary>
    public ref FileOrigin MetaOrigin => ref At<FileOrigin>(ControlLayout.MetaInodeAt);

    /// <summary>How far recovery has come. The lone opener writes it; a process that attaches beside others reads it.</summary>
    // P30 acquire: what recovery wrote is seen; pairs with P30 release in SetStage.
    public RecoveryStage Stage => (RecoveryStage)SharedWord.ReadAcquire(_region.Word(ControlLayout.RecoveryStageAt));

    /// <summary>
    /// Where recovery met an impossible frame; -1 when the log is whole. Every process that attaches reads it: a second opener
    /// is not alone and examines nothing else. The word holds the offset + 1, so that an empty page means "whole".
    /// </summary>
    public long CorruptAt => At<long>(ControlLayout.CorruptAtAt) - 1;

    /// <summary>
    /// Maps the page and creates the file when it is missing or short. A full disk throws here: a lone opener always asks for
    /// the block, because an earlier opener may have created the file without getting one.
    /// </summary>
    public static ControlPage Open(HeldDirectory directory, bool isAlone = false)
    {
        using PlatformFile file = directory.Open(StoreNames.Control, FileOpening.ReadWriteOrCreate)!;
        bool isShort = file.Length < ControlLayout.Length;
        if (isShort)
            file.SetLength(ControlLayout.Length);
        if ((isShort || isAlone) && !PlantedFaults.Has(PlantedFault.ControlNotAllocated))
            file.Allocate(0, ControlLayout.Length);

        return new ControlPage(MappedRegion.MapWhole(file, ControlLayout.Length, writable: true));
    }

    /// <summary>Maps the page for a reader that leaves no trace; null when the file is missing or too short.</summary>
    /// <param name="directory">The store.</param>
    /// <param name="writable">For one that raises the waiters' flag and writes nothing else.</param>
    /// <exception cref="QueueDiskException">The page cannot be written.</exception>
    public static ControlPage? OpenForReading(HeldDirectory directory, bool writable = false)
    {
        using PlatformFile? file = directory.Open(StoreNames.Control, writable ? FileOpening.ReadWrite : FileOpening.Read);
        return file is null || file.Length < ControlLayout.Length
            ? null
            : new ControlPage(MappedRegion.MapWhole(file, ControlLayout.Length, writable));
    }

    /// <summary>Whether the cold block is valid and belongs to this store.</summary>
    public bool IsColdBlockValid(Guid storeId) =>
        *_region.Word(ControlLayout.MagicAt) == ControlLayout.Magic
        && At<Guid>(ControlLayout.StoreIdAt) == storeId
        && IsChecksum(ColdChecksum(changedAt: -1, 0));

    /// <summary>
    /// Announces the next value of one of the four cold words among the hot ones: the block is valid before and after the store,
    /// so that a process that is killed between the store and the seal leaves a valid page. Only under the `open` lock.
    /// </summary>
    public void AnnounceColdWord(int position, ulong value)
    {
        // A process that died before its seal has left the checksum that is valid now in the word that is overwritten here.
        uint now = ColdChecksum(changedAt: -1, 0);
        if (IsChecksum(now))
            At<uint>(ControlLayout.ColdChecksumAt) = now;
        At<uint>(ControlLayout.NextChecksumAt) = ColdChecksum(position, value);
    }

    /// <summary>Writes magic, store id and checksum for the current cold block. Only under the `open` lock.</summary>
    public void SealColdBlock(Guid storeId)
    {
        *_region.Word(ControlLayout.MagicAt) = ControlLayout.Magic;
        At<Guid>(ControlLayout.StoreIdAt) = storeId;
        At<uint>(ControlLayout.ColdChecksumAt) = ColdChecksum(changedAt: -1, 0);
        At<uint>(ControlLayout.NextChecksumAt) = 0;
    }

    /// <summary>Changes one of these words of a valid block. Only a lone opener calls it.</summary>
    public void SetColdWord(int position, ulong value, Guid storeId)
    {
        AnnounceColdWord(position, value);
        *_region.Word(position) = value;
        SealColdBlock(storeId);
    }

    /// <summary>Why flushes fail.</summary>
    public FailureWords FlushFailure => new(_region, ControlLayout.FlushFailureAt, ControlLayout.FlushFailureTextMax);

    /// <summary>Why nothing, or less than the policy says, is removed.</summary>
    public FailureWords RetentionFailure =>
        new(_region, ControlLayout.RetentionFailureAt, ControlLayout.RetentionFailureTextMax);

    /// <summary>Records how far recovery has come: before its first change, and after its last.</summary>
    public void SetStage(RecoveryStage stage) =>
        // P30 release: what recovery wrote comes first; pairs with P30 acquire in Stage.
        SharedWord.WriteRelease(_region.Word(ControlLayout.RecoveryStageAt), (ulong)stage);

    /// <summary>Whether a recovery of the store was finished, in the boot that <see cref="BootId"/> tells.</summary>
    public bool IsRecovered(Guid storeId) => Stage == RecoveryStage.Finished && IsColdBlockValid(storeId);

    /// <summary>
    /// Zeroes every word except the stage, and except the cold block and its words where that stays. Only a lone opener calls it.
    /// </summary>
    public void Clear(bool keepsColdBlock)
    {
        const int behindStage = ControlLayout.RecoveryStageAt + sizeof(ulong);
        if (!keepsColdBlock)
        {
            Bytes(0, ControlLayout.RecoveryStageAt).Clear();
            Bytes(behindStage, ControlLayout.Stride - behindStage).Clear();
        }

        int from = ControlLayout.Stride;
        foreach (int word in keepsColdBlock ? ColdWordsBeyond : [])
        {
            Bytes(from, word - from).Clear();
            from = word + sizeof(ulong);
        }

        Bytes(from, ControlLayout.Length - from).Clear();
    }

    public void Dispose() => _region.Dispose();

    private bool IsChecksum(uint checksum)
    {
        uint next = At<uint>(ControlLayout.NextChecksumAt);
        return At<uint>(ControlLayout.ColdChecksumAt) == checksum || (next != 0 && next == checksum);
    }

    /// <summary>The checksum of the cold block as it is, or as it will be after the change of one word.</summary>
    private uint ColdChecksum(int changedAt, ulong value)
    {
        Span<byte> cold = stackalloc byte[ControlLayout.ColdChecksumAt + (4 * sizeof(ulong))];
        Bytes(0, ControlLayout.ColdChecksumAt).CopyTo(cold);
        Span<byte> words = cold[ControlLayout.ColdChecksumAt..];
        foreach (int word in (ReadOnlySpan<int>)[.. ColdWordsBeyond, ControlLayout.FlushedBelowAt])
        {
            MemoryMarshal.Write(words, word == changedAt ? value : *_region.Word(word));
            words = words[sizeof(ulong)..];
        }

        return Crc32C.Compute(cold);
    }

    private ref T At<T>(int position)
        where T : unmanaged => ref *(T*)(_region.Pointer + position);

    private Span<byte> Bytes(int position, int length) => new(_region.Pointer + position, length);
}
