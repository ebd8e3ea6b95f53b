using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Inspection;

/// <summary>
/// A store seen by a reader that leaves no trace: it opens and maps everything read-only, holds no lock and does not count as
/// attached. It cannot raise the waiters' flag, so it polls; it cannot repair, so it steps over a dead owner's claim.
/// </summary>
internal sealed unsafe class ReadOnlyStore : LogView, IDisposable
{
    private readonly ControlPage? _control;
    private readonly MetaWatch? _metaWatch;
    private long _checkpoint;

    private ReadOnlyStore(HeldDirectory directory, StoreMeta meta, bool verifiesChecksum)
        : base(directory, meta, verifiesChecksum)
    {
        Window = new SegmentWindow(directory, meta.SegmentLength, writable: false);
        try
        {
            _metaWatch = new MetaWatch(directory);
            _control = ControlPage.OpenForReading(directory);
            NotedEpoch = ReadEpoch();
            _checkpoint = ReadCheckpoint();
        }
        catch
        {
            _metaWatch?.Dispose();
            _control?.Dispose();
            throw;
        }
    }

    public override SegmentWindow Window { get; }

    /// <summary>The epoch that the reader's place is good for.</summary>
    public long NotedEpoch { get; set; }

    public static ReadOnlyStore Open(string path, bool verifiesChecksum)
    {
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null)
            ?? throw Missing(path);
        return directory.Into(
            opened => new ReadOnlyStore(opened, StoreMetaFile.Read(opened) ?? throw Missing(path), verifiesChecksum));
    }

    /// <summary>Read anew each time: retention raises it while this store reads.</summary>
    public override long LogStart => LogStartSearch.Find(Directory, Meta, _control);

    // P20 acquire: pairs with P20 full in BlockAllocator.
    public override long Allocated => _control is null ? 0 : SharedWord.ReadAcquire(_control.Allocated);

    /// <summary>
    /// Decided by the checkpoint, which has a checksum, and by what a flush of this boot has confirmed: the tail hint may be
    /// damaged, or older than a power loss that no process has recovered from yet.
    /// </summary>
    public override bool HasPassed(long offset) =>
        offset < Math.Max(_checkpoint, Confirmed) && Window.StartOf(offset) >= LogStart;

    /// <summary>
    /// Reads the checkpoint anew each time. If the store was recovered in this boot, the control page counts too.
    /// </summary>
    public override long PassedTo => LogFilesLook.PassedTo(Directory, Meta, _control);

    // P14 acquire: pairs with P14 full in SegmentRoller.
    public override long WrittenTo => _control is null ? 0 : SharedWord.ReadAcquire(_control.TailHint);

    // P17 acquire: read after the frames that were looked at; pairs with P17 release in ProducerAdmission.
    public override bool MayHoldUnpublished => !IsRecovered || SharedWord.ReadAcquire(_control!.ExclusiveAtWork) != 0;

    public override bool MayGrow => IsRecovered && _control!.CorruptAt < 0;

    /// <summary>Where the last recovery found damage, so that producers refuse to start; -1 when it found none.</summary>
    public long RefusedAt => HasValidControl && _control!.Stage == RecoveryStage.Finished ? _control.CorruptAt : -1;

    /// <summary>Whether the control page exists and its cold block is valid.</summary>
    public bool HasValidControl => _control is not null && _control.IsColdBlockValid(Meta.StoreId);

    /// <summary>Whether the control page belongs to this boot, so that memory is whole.</summary>
    private bool IsRecovered => LogFilesLook.IsRecovered(Meta, _control);

    /// <summary>Everything below it was published and is on disk; 0 when the store was not recovered in this boot.</summary>
    private long Confirmed => IsRecovered ? LogFilesLook.Confirmed(_control!) : 0;

    /// <summary>The end of the published messages: where a reader starts that wants only later ones.</summary>
    public long FindLatest() => StoreStatus.FindPublished(Directory, Meta, _control, IsOfThisBoot);

    /// <summary>The current state of the store.</summary>
    public MappedFileQueueInfo GatherInfo(bool countsMessages = false) =>
        StoreStatus.Gather(Directory, Meta, _control, countsMessages, IsOfThisBoot, TimeProvider.System);

    /// <summary>Whether an offset is a frame's start or the tail, by a walk from its segment's first byte.</summary>
    public bool IsFrameStart(long offset)
    {
        if (offset < LogStart || offset % FrameHeader.Size != 0 || offset > LogLimits.OffsetMax)
            return false;
        long start = Window.StartOf(offset);
        if (offset == LogStart)
            return true;
        // A segment file may exist long before the tail reaches it: the segment before it must lead up to its start.
        if (offset == start)
            start -= Meta.SegmentLength;
        return new MessageCounter(Directory, Meta).Leads(start, offset);
    }

    /// <summary>
    /// Whether a recovery has cut the log since the last note. The end of the log may have been removed and reused, and after a
    /// poison its files are new ones, so that nothing is ever appended to the files that are mapped here.
    /// </summary>
    public bool WasCut => _control is not null && _control.Epoch != NotedEpoch && _control.IsColdBlockValid(Meta.StoreId);

    /// <summary>
    /// The lowest offset at which the log was cut since the noted epoch, according to the salvaged files; the largest offset if
    /// there was no cut.
    /// </summary>
    public long FindCut()
    {
        long lowest = long.MaxValue;
        foreach (string name in Directory.List(StoreNames.Salvage))
        {
            if (StoreNames.TryParseCut(name, out long tail, out long epoch) && epoch > NotedEpoch)
                lowest = Math.Min(lowest, tail);
        }

        return lowest;
    }

    /// <summary>Notes the current epoch. A span that outlives a move must not keep the former file in use.</summary>
    public void NoteCut()
    {
        Window.Forget();
        NotedEpoch = _control!.Epoch;
        _checkpoint = ReadCheckpoint();
    }

    /// <summary>
    /// Follows the rule of <see cref="ClaimRepair"/>. The owner may have published and ended between the look and the probe, so
    /// only an unchanged header is stepped over.
    /// </summary>
    public override ClaimFate Repair(ulong* header, ulong claim, long offset)
    {
        // Not recovered in this boot: what is after the claim is not trusted yet and will be cut off.
        if (!IsOfThisBoot)
            return ClaimFate.Living;
        // Damage found since the look: the next look reports it.
        if (IsDamage(header, claim, offset))
            return ClaimFate.Changed;
        ClaimOwner owner = ClaimRepair.OwnerOf(Directory, claim, GenerationNow(claim) ?? OwnGeneration(claim));
        // P4 acquire: after the probe; pairs with P3 and P4 full in SharedAppender and ClaimRepair.
        if (SharedWord.ReadAcquire(header) != claim)
            return ClaimFate.Changed;
        return owner == ClaimOwner.Dead ? ClaimFate.StepOver : ClaimFate.Living;
    }

    /// <summary>
    /// Follows the rule of <see cref="ClaimRepair"/> with what is known here: only the checkpoint if the store was not recovered
    /// in this boot, and no generations in a copy of a store without their table.
    /// </summary>
    public override bool IsDamage(ulong* header, ulong claim, long offset)
    {
        if (!IsOfThisBoot)
            return offset < _checkpoint;
        uint generation = GenerationNow(claim) ?? OwnGeneration(claim);
        // A removal raises the log start, then confirmed, and claims may be open in what it removes.
        long flushedTo = offset < LogStart ? 0 : Math.Max(_checkpoint, Confirmed);
        return ClaimRepair.IsDamage(header, claim, offset, generation, flushedTo);
    }

    public override ClaimOwner OwnerOf(ulong claim) => ClaimRepair.OwnerOf(Directory, claim, GenerationNow(claim) ?? 0);

    public override void ThrowIfReadingEnded(bool isClosed, string name = PublicNames.Consumer) =>
        PublicNames.ThrowIfDisposed(isClosed, PublicNames.Reader);

    /// <summary>Throws when the store was deleted or replaced.</summary>
    public override void ThrowIfReplaced() => _metaWatch!.ThrowIfReplaced();

    public void Dispose()
    {
        Window.CloseFiles();
        _metaWatch?.Dispose();
        _control?.Dispose();
        Directory.Dispose();
    }

    private long ReadCheckpoint() => new CheckpointFile(Directory, Meta.StoreId).Read()?.Offset ?? 0;

    /// <summary>
    /// Whether the store was recovered in this boot, according to the control page or else the checkpoint. If not, what is
    /// after the checkpoint may be cut off by the next opener.
    /// </summary>
    public bool IsOfThisBoot => LogFilesLook.IsThisBoot(RecoveredIn());

    /// <summary>The checkpoint's epoch counts when the control page is missing, damaged or in the middle of a recovery.</summary>
    private long ReadEpoch() => _control is not null && _control.IsColdBlockValid(Meta.StoreId)
        ? _control.Epoch
        : new CheckpointFile(Directory, Meta.StoreId).Read()?.Epoch ?? 0;

    private Guid RecoveredIn()
    {
        if (_control is null || !_control.IsColdBlockValid(Meta.StoreId))
            return new CheckpointFile(Directory, Meta.StoreId).Read()?.BootId ?? Guid.Empty;
        return _control.Stage == RecoveryStage.Finished ? _control.BootId : Guid.Empty;
    }

    private static uint OwnGeneration(ulong claim) => SlotLayout.Generation(FrameHeader.HighHalf(claim));

    /// <summary>The generation of the claim's slot; null when the table is missing.</summary>
    private uint? GenerationNow(ulong claim) =>
        StoreStatus.ReadSlot(Directory, SlotLayout.Slot(FrameHeader.HighHalf(claim)))?.Generation;

    private static QueueNotFoundException Missing(string path) =>
        new($"There is no store: path={path}. Correct the path; readers make nothing.", path);
}
