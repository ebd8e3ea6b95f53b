using System.Runtime.InteropServices;
using System.Text;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// The mapped `control` page. The hot words are hints and counters that everybody changes by interlocked operations; the cold
/// block (which boot recovered the store, its epoch, what was flushed before, low water, exclusive producer at work, damage) is
/// written only under the `open` lock and carries a checksum, because a wrong low water or a wrong boot would cost messages,
/// where a wrong hint only costs a walk.
/// </summary>
internal sealed unsafe class ControlPage : IDisposable
{
    private readonly MappedRegion _region;

    private ControlPage(MappedRegion region) => _region = region;

    /// <summary>
    /// A frame's start that some walker reached; appends begin their walk here. Written by producers, read by openers.
    /// </summary>
    public long* TailHint => (long*)_region.Word(ControlLayout.TailHintAt);

    /// <summary>Everything before it is on disk. Raised by the leader of a flush.</summary>
    public long* Confirmed => (long*)_region.Word(ControlLayout.ConfirmedAt);

    /// <summary>From the tail up to here all blocks exist. Raised after the allocation by whoever allocated.</summary>
    public long* Allocated => (long*)_region.Word(ControlLayout.AllocatedAt);

    /// <summary>Offsets below it are gone. Raised by retention before it unlinks.</summary>
    public long* LowWater => (long*)_region.Word(ControlLayout.LowWaterAt);

    /// <summary>The directory entries of all segments that start below it are on disk.</summary>
    public long* DirectoryFlushed => (long*)_region.Word(ControlLayout.DirectoryFlushedAt);

    /// <summary>1 from the attach of an Exclusive producer to its orderly end: bytes beyond the tail may be dirty.</summary>
    public ulong* ExclusiveAtWork => _region.Word(ControlLayout.ExclusiveAtWorkAt);

    /// <summary>
    /// The target of the flush under way, 0 when none is: whoever gets the flush lock and finds it knows that its leader died.
    /// </summary>
    public long* FlushTarget => (long*)_region.Word(ControlLayout.FlushTargetAt);

    /// <summary>1 once a producer publishes without a fence of its own: waiters must fence it before they sleep.</summary>
    public ulong* FenceNeeded => _region.Word(ControlLayout.FenceNeededAt);

    public ulong* WakeSequence => _region.Word(ControlLayout.WakeSequenceAt);

    public ulong* WaiterFlag => _region.Word(ControlLayout.WaiterFlagAt);

    /// <summary>The two words of those who wait for a flush; bit 63 of the flag is not used.</summary>
    public ulong* FlushWakeSequence => _region.Word(ControlLayout.FlushWakeSequenceAt);

    public ulong* FlushWaiterFlag => _region.Word(ControlLayout.FlushWaiterFlagAt);

    /// <summary>Counts claims of dead producers that were turned into padding.</summary>
    public ulong* RepairCount => _region.Word(ControlLayout.RepairCountAt);

    /// <summary>
    /// 1 once a process attached that polls (Portable): it wakes nobody, so sleepers look for its messages themselves.
    /// </summary>
    public ulong* HasPollers => _region.Word(ControlLayout.HasPollersAt);

    /// <summary>The boot that last recovered the store; meaningful when <see cref="IsColdBlockValid"/>.</summary>
    public Guid BootId
    {
        get => MemoryMarshal.Read<Guid>(Bytes(ControlLayout.BootIdAt, 16));
        set => MemoryMarshal.Write(Bytes(ControlLayout.BootIdAt, 16), value);
    }

    /// <summary>The epoch of the offsets that are handed out now.</summary>
    public long Epoch
    {
        get => MemoryMarshal.Read<long>(Bytes(ControlLayout.EpochAt, 8));
        set => MemoryMarshal.Write(Bytes(ControlLayout.EpochAt, 8), value);
    }

    /// <summary>
    /// What recovery knew to be on disk; behind it confirmed, which starts at the checkpoint then, says more. Nobody is promised
    /// anything by it: it tells a bad frame that was flushed, which is damage, from one that the disk never had.
    /// </summary>
    public long FlushedBelow
    {
        get => MemoryMarshal.Read<long>(Bytes(ControlLayout.FlushedBelowAt, 8));
        set => MemoryMarshal.Write(Bytes(ControlLayout.FlushedBelowAt, 8), value);
    }

    /// <summary>How far recovery has come. Whoever attaches beside others asks; written by the lone opener.</summary>
    // P30 acquire: what recovery wrote is seen; pairs with P30 release in SetStage.
    public RecoveryStage Stage => (RecoveryStage)SharedWord.ReadAcquire(_region.Word(ControlLayout.RecoveryStageAt));

    /// <summary>
    /// Where recovery met a frame that cannot be; -1 when the log is whole. Everybody who attaches reads it: who opens second is
    /// not alone and looks at nothing else. The word holds the offset + 1, so that an empty page says "whole".
    /// </summary>
    public long CorruptAt
    {
        get => MemoryMarshal.Read<long>(Bytes(ControlLayout.CorruptAtAt, 8)) - 1;
        set => MemoryMarshal.Write(Bytes(ControlLayout.CorruptAtAt, 8), value + 1);
    }

    /// <summary>
    /// Maps the page, making the file when it is missing or short. A full disk throws here: a lone opener always asks for the
    /// block, because one before it may have made the file and got none.
    /// </summary>
    public static ControlPage Open(HeldDirectory directory, bool isAlone = false)
    {
        using PlatformFile file = directory.Open(StoreNames.Control, FileOpening.ReadWriteOrCreate)!;
        bool isShort = file.Length < ControlLayout.Length;
        if (isShort)
            file.SetLength(ControlLayout.Length);
#if MFQ_PLANTED
        if (!PlantedFaults.Has(PlantedFault.ControlNotAllocated))
#endif
        if (isShort || isAlone)
            file.Allocate(0, ControlLayout.Length);

        return new ControlPage(MappedRegion.MapWhole(file, ControlLayout.Length, writable: true));
    }

    /// <summary>Maps the page for a reader that leaves no trace; null when it is missing or too short to be one.</summary>
    public static ControlPage? OpenForReading(HeldDirectory directory)
    {
        using PlatformFile? file = directory.Open(StoreNames.Control, FileOpening.Read);
        return file is null || file.Length < ControlLayout.Length
            ? null
            : new ControlPage(MappedRegion.MapWhole(file, ControlLayout.Length, writable: false));
    }

    /// <summary>Whether the cold block is what somebody wrote for this store.</summary>
    public bool IsColdBlockValid(Guid storeId) =>
        *_region.Word(ControlLayout.MagicAt) == ControlLayout.Magic
        && MemoryMarshal.Read<Guid>(Bytes(ControlLayout.StoreIdAt, 16)) == storeId
        && MemoryMarshal.Read<uint>(Bytes(ControlLayout.ColdChecksumAt, 4)) == ColdChecksum();

    /// <summary>Writes magic, store id and checksum for the cold block as it stands now. Only under the `open` lock.</summary>
    public void SealColdBlock(Guid storeId)
    {
        *_region.Word(ControlLayout.MagicAt) = ControlLayout.Magic;
        MemoryMarshal.Write(Bytes(ControlLayout.StoreIdAt, 16), storeId);
        MemoryMarshal.Write(Bytes(ControlLayout.ColdChecksumAt, 4), ColdChecksum());
    }

    /// <summary>True while the page says that flushes fail.</summary>
    // P34 acquire: pairs with P34 release in WriteFlushFailure.
    public bool HasFlushFailure => SharedWord.ReadAcquire(_region.Word(ControlLayout.FlushFailureAt)) != 0;

    /// <summary>
    /// Says why flushes fail, to whoever asks for information in any process. Of two who say so at once either may win, and
    /// their texts may mix: nothing but a text depends on it.
    /// </summary>
    public void WriteFlushFailure(DateTimeOffset since, string text)
    {
        ClearFlushFailure();
        Span<byte> destination = Bytes(ControlLayout.FlushFailureTextAt, ControlLayout.FlushFailureTextMax);
        Encoding.UTF8.GetEncoder().Convert(text, destination, flush: true, out _, out int length, out _);
        MemoryMarshal.Write(Bytes(ControlLayout.FlushFailureProcessAt, 4), Environment.ProcessId);
        MemoryMarshal.Write(Bytes(ControlLayout.FlushFailureLengthAt, 4), length);
        // P34 release: after the text; pairs with P34 acquire in ReadFlushFailure.
        SharedWord.WriteRelease(
            _region.Word(ControlLayout.FlushFailureAt), (ulong)Math.Max(1, since.ToUnixTimeMilliseconds()));
    }

    /// <summary>A flush has succeeded.</summary>
    // P34 release: pairs with P34 acquire in HasFlushFailure.
    public void ClearFlushFailure() => SharedWord.WriteRelease(_region.Word(ControlLayout.FlushFailureAt), 0);

    /// <summary>What <see cref="WriteFlushFailure"/> has said; null when flushes do not fail.</summary>
    public FlushFailureText? ReadFlushFailure()
    {
        // P34 acquire: before the text; pairs with P34 release in WriteFlushFailure.
        ulong since = SharedWord.ReadAcquire(_region.Word(ControlLayout.FlushFailureAt));
        if (since is 0 or > long.MaxValue)
            return null;
        int length = MemoryMarshal.Read<int>(Bytes(ControlLayout.FlushFailureLengthAt, 4));
        int processId = MemoryMarshal.Read<int>(Bytes(ControlLayout.FlushFailureProcessAt, 4));
        Span<byte> text = Bytes(ControlLayout.FlushFailureTextAt, Math.Clamp(length, 0, ControlLayout.FlushFailureTextMax));
        // Bytes of a file: what would move a terminal's cursor, or end a line, is no text.
        char[] characters = Encoding.UTF8.GetString(text).ToCharArray();
        for (int i = 0; i < characters.Length; i++)
            characters[i] = char.IsControl(characters[i]) ? ' ' : characters[i];
        long milliseconds = Math.Min((long)since, DateTimeOffset.MaxValue.ToUnixTimeMilliseconds());
        return new FlushFailureText(DateTimeOffset.FromUnixTimeMilliseconds(milliseconds), processId, new string(characters));
    }

    /// <summary>Says how far recovery has come: before its first change, and behind its last.</summary>
    public void SetStage(RecoveryStage stage) =>
        // P30 release: what recovery wrote comes first; pairs with P30 acquire in Stage.
        SharedWord.WriteRelease(_region.Word(ControlLayout.RecoveryStageAt), (ulong)stage);

    /// <summary>Whether the store was recovered in this boot, to the end: then memory is whole, and nobody has to wait.</summary>
    public bool IsRecovered(Guid storeId, Guid boot) =>
        Stage == RecoveryStage.Finished && BootId == boot && IsColdBlockValid(storeId);

    /// <summary>
    /// Sets every word to zero but the stage, and, where the cold block is to stay, that. Only by a lone opener. The three cold
    /// words among the hot ones go too: unless they were zero, the cold block is not valid until it is sealed again.
    /// </summary>
    public void Clear(bool keepsColdBlock)
    {
        const int behindStage = ControlLayout.RecoveryStageAt + sizeof(ulong);
        if (!keepsColdBlock)
        {
            Bytes(0, ControlLayout.RecoveryStageAt).Clear();
            Bytes(behindStage, ControlLayout.Stride - behindStage).Clear();
        }

        Bytes(ControlLayout.Stride, ControlLayout.Length - ControlLayout.Stride).Clear();
    }

    public void Dispose() => _region.Dispose();

    private uint ColdChecksum()
    {
        Span<byte> cold = stackalloc byte[ControlLayout.ColdChecksumAt + 32];
        Bytes(0, ControlLayout.ColdChecksumAt).CopyTo(cold);
        Bytes(ControlLayout.LowWaterAt, 8).CopyTo(cold[ControlLayout.ColdChecksumAt..]);
        Bytes(ControlLayout.ExclusiveAtWorkAt, 8).CopyTo(cold[(ControlLayout.ColdChecksumAt + 8)..]);
        Bytes(ControlLayout.CorruptAtAt, 8).CopyTo(cold[(ControlLayout.ColdChecksumAt + 16)..]);
        Bytes(ControlLayout.FlushedBelowAt, 8).CopyTo(cold[(ControlLayout.ColdChecksumAt + 24)..]);
        return Crc32C.Compute(cold);
    }

    private Span<byte> Bytes(int position, int length) => new(_region.Pointer + position, length);
}

/// <summary>Why flushes fail, as the control page says it.</summary>
/// <param name="Since">Since when none has succeeded in the process that says so.</param>
/// <param name="ProcessId">That process.</param>
/// <param name="Text">Its error.</param>
internal sealed record FlushFailureText(DateTimeOffset Since, int ProcessId, string Text);
