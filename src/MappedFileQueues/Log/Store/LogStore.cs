using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>
/// What one queue holds of a store: its files, mappings and locks, the words of its control page, and the guards of every call.
/// It does not know the appenders, flusher and readers; `StoreEngine` owns it and them.
/// </summary>
internal sealed unsafe class LogStore : LogView, IDisposable
{
    /// <summary>The stages of its life: the one state from which every part of the queue tells that the end has begun.</summary>
    private const int Open = 0, Closing = 1, Ended = 2;

    private readonly PlatformLock _attached;
    private readonly PlatformLock? _metaLock;
    private readonly MetaWatch _metaWatch;
    private volatile bool _keepsLittle;
    private volatile int _stage;

    /// <summary>Takes over everything that it is given; <see cref="Dispose"/> closes it.</summary>
    public LogStore(
        OperatingSystemServices os,
        HeldDirectory directory,
        StoreMeta meta,
        LogSettings settings,
        ControlPage control,
        SlotTable slots,
        CheckpointFile checkpoints,
        MetaWatch metaWatch,
        PlatformLock attached,
        PlatformLock? metaLock,
        OpeningRecovery recovery)
        : base(directory, meta, settings.VerifyChecksum)
    {
        Os = os;
        Control = control;
        Settings = settings;
        Slots = slots;
        Checkpoints = checkpoints;
        Recovery = recovery;
        _attached = attached;
        _metaLock = metaLock;
        _metaWatch = metaWatch;
        Wake = new WakeSignal(Os, Control);
        FlushWake = new WakeSignal(Os, Control, Control.FlushWakeSequence, Control.FlushWaiterFlag);
        CapacityWake = new WakeSignal(Os, Control, Control.CapacityWakeSequence, Control.CapacityWaiterFlag);
        Window = new SegmentWindow(Directory, Meta.SegmentLength, writable: true, Control, syncFailed: Wake.Poison);
        Spares = new SpareWatch(Directory);
        Maker = new SegmentMaker(
            Directory, Window, Control, allocatesInPlace: !Os.IsPortable, () => Producers.Slot?.Name, Poison, ThrowIfClosing,
            settings.LockTimeout > LockWait.Timeout ? settings.LockTimeout : LockWait.Timeout, settings.LockWaits, Spares,
            ThrowIfReplaced);
        Allocator = new BlockAllocator(Directory, Window, Control, Maker);
        Claims = new ClaimRepair(Directory, Slots, Checksum, Wake, CapacityWake, Control);
    }

    public OperatingSystemServices Os { get; }

    public LogSettings Settings { get; }

    public ControlPage Control { get; }

    /// <summary>What this queue's opening found.</summary>
    public OpeningRecovery Recovery { get; }

    public override SegmentWindow Window { get; }

    public SegmentMaker Maker { get; }

    public BlockAllocator Allocator { get; }

    /// <summary>Tells producers of a file that retention is about to free.</summary>
    public SpareWatch Spares { get; }

    public SlotTable Slots { get; }

    public CheckpointFile Checkpoints { get; }

    public WakeSignal Wake { get; }

    /// <summary>Wakes the threads that wait for the durable offset, or for the lead of a flush.</summary>
    public WakeSignal FlushWake { get; }

    /// <summary>Wakes the producers that wait for consumers.</summary>
    public WakeSignal CapacityWake { get; }

    public ClaimRepair Claims { get; }

    public OwnProducers Producers { get; } = new();

    /// <summary>
    /// The policy keeps so little that a segment is used again before it would be written back: nothing is written before a flush
    /// asks for it.
    /// </summary>
    public bool KeepsLittle
    {
        get => _keepsLittle;
        set => _keepsLittle = value;
    }

    /// <summary>Some process that is or was attached publishes without waking anybody.</summary>
    // P35 acquire: a hint, late by one sleep at most; pairs with P35 release in StoreOpening.
    public bool HasPollers => SharedWord.ReadAcquire(Control.HasPollers) != 0;

    /// <summary>
    /// Where recovery met an impossible frame; -1 when the log is whole. While it is set, producers refuse to start, nothing is
    /// confirmed, and readers stop there.
    /// </summary>
    public long CorruptAt => Control.CorruptAt;

    /// <summary>Everything before it is on disk.</summary>
    // P18 acquire: pairs with P18 full in FlushEngine.
    public long ConfirmedOffset => SharedWord.ReadAcquire(Control.Durable);

    // P16 acquire: pairs with P16 full in SegmentTrimmer.
    public override long LogStart => SharedWord.ReadAcquire(Control.LogStart);

    // P20 acquire: pairs with P20 full in BlockAllocator.
    public override long Allocated => SharedWord.ReadAcquire(Control.Allocated);

    // P14 acquire: a walker reached it; pairs with P14 full in SegmentRoller.
    public override long PassedTo => Math.Max(SharedWord.ReadAcquire(Control.TailHint), ConfirmedOffset);

    // P14 acquire: pairs with P14 full in SegmentRoller.
    public override long WrittenTo => SharedWord.ReadAcquire(Control.TailHint);

    // P17 acquire: read after the frames that were examined; pairs with P17 release in ProducerAdmission.
    public override bool MayHoldUnpublished => SharedWord.ReadAcquire(Control.ExclusiveAtWork) != 0;

    public override bool MayGrow => CorruptAt < 0;

    /// <inheritdoc/>
    /// <remarks>The hint may be far below what a flush has confirmed. Both are read before the log start.</remarks>
    public override bool HasPassed(long offset) => offset < PassedTo && Window.StartOf(offset) >= LogStart;

    public override ClaimOwner OwnerOf(ulong claim) => Producers.Own(claim) ? ClaimOwner.Living : Claims.OwnerOf(claim);

    public override bool IsDamage(ulong* header, ulong claim, long offset) => Claims.IsDamage(header, claim, offset);

    /// <summary>Damage is left to the next read, which knows the reader's policy.</summary>
    public override ClaimFate Repair(ulong* header, ulong claim, long offset) =>
        IsDamage(header, claim, offset) || TryRepair(header, claim, offset) ? ClaimFate.Changed : ClaimFate.Living;

    /// <summary>Turns a dead owner's claim into padding; true when the header is no longer this claim.</summary>
    public bool TryRepair(ulong* header, ulong claim, long offset)
    {
        if (Producers.Own(claim))
        {
            Producers.ThrowIfOwnClaimIsOpen();
            // The claim of another thread of this queue.
            // P3 acquire: whether it was published meanwhile; pairs with P3 full in SharedAppender.
            return SharedWord.ReadAcquire(header) != claim;
        }

        return IsDamage(header, claim, offset)
            ? throw Corrupt(offset, claim)
            : Claims.TryRepair(header, claim, offset);
    }

    /// <summary>
    /// Takes a claim away from its owner, dead or alive, because an operator says so: it becomes padding by one compare-and-swap.
    /// A living owner's publish then fails, and its Produce throws; what it still stores lands inside the padding. This queue's
    /// own claims stay.
    /// </summary>
    /// <param name="offset">Where a walk has found the claim: the start of a frame.</param>
    /// <param name="slot">The slot whose claim is meant.</param>
    /// <returns>False when no claim of that slot is there, any longer.</returns>
    public bool TryFence(long offset, int slot)
    {
        long start = Window.StartOf(offset);
        using SegmentWindow.Use use = Window.BeginUse(start);
        if (use.Segment is not { } segment)
            return false;
        long end = offset - start + FrameHeader.Size;
        if (end > segment.Usable || segment.MakeReadable(end - FrameHeader.Size, end, end) < end)
            return false;
        ulong* header = segment.HeaderAt(offset - start);
        // P4 acquire: the claim as it is now; pairs with P2 full in SharedAppender.
        ulong claim = SharedWord.ReadAcquire(header);
        return FrameHeader.State(claim) == FrameState.Claimed && SlotLayout.Slot(FrameHeader.HighHalf(claim)) == slot
            && !Producers.Own(claim) && !IsDamage(header, claim, offset) && Claims.Abandon(header, claim, offset);
    }

    /// <summary>A sync has failed, whichever thread asked for it: nothing is durable any more, in any process.</summary>
    public void Poison()
    {
        Wake.Poison();
        FlushWake.Interrupt();
        CapacityWake.Interrupt();
        PoisonFile.Make(Directory);
    }

    /// <summary>
    /// From here on, no new call begins, and calls that wait for others end with <see cref="ObjectDisposedException"/>. False
    /// when that came before. The caller holds the queue's lock.
    /// </summary>
    public bool TryBeginClosing()
    {
        if (IsClosing)
            return false;
        _stage = Closing;
        return true;
    }

    public bool IsClosing => _stage != Open;

    /// <summary>From here on, a reader that somebody still holds touches no shared word.</summary>
    public void End() => _stage = Ended;

    /// <summary>No call is under way any longer; threads and the last flush follow.</summary>
    public bool HasEnded => _stage == Ended;

    /// <summary>Called in every loop that waits for another process or thread.</summary>
    public void ThrowIfClosing() => PublicNames.ThrowIfDisposed(IsClosing, PublicNames.Queue);

    /// <summary>Throws when recovery found the log damaged.</summary>
    public void ThrowIfDamaged(string whatNot)
    {
        long at = CorruptAt;
        if (at >= 0)
            throw new QueueCorruptException(
                $"The log is damaged, so nothing can be {whatNot}: offset={at}, path={Path}. "
                + "Consumers read up to the damage; restore the file, or run `mfq repair`.",
                StoreNames.Segment(Window.StartOf(at)), at);
    }

    public override void ThrowIfReadingEnded(bool isClosed, string name = PublicNames.Consumer)
    {
        PublicNames.ThrowIfDisposed(isClosed || HasEnded, name);
        if (Wake.IsPoisoned)
            throw Poisoned();
    }

    /// <inheritdoc cref="MetaWatch.ThrowIfReplaced"/>
    public override void ThrowIfReplaced() => _metaWatch.ThrowIfReplaced();

    /// <inheritdoc cref="MetaWatch.ThrowIfSeenReplaced"/>
    public void ThrowIfSeenReplaced() => _metaWatch.ThrowIfSeenReplaced();

    /// <summary>Throws when lock files were removed under this queue.</summary>
    public void ThrowIfLocksRemoved()
    {
        if (!_attached.IsInPlace || Directory.Identify(StoreNames.ProducersLock) is null)
            throw MetaLock.LocksRemoved(Directory);
    }

    public QueuePoisonedException Poisoned(Exception? cause = null) => new(
        $"A flush of this store failed, so nothing is confirmed any more: path={Path}. Close every queue on it, in all "
        + "processes, then open it again: opening checks what the disk really holds.", cause);

    /// <summary>Takes the `open` lock for a call of this queue; the end of the queue ends the wait.</summary>
    public PlatformLock TakeOpenLock()
    {
        try
        {
            return OpenLock.Take(Directory, Settings.LockTimeout, ThrowIfClosing, Settings.LockWaits);
        }
        catch (QueueDiskException)
        {
            // The lock's folder is gone, perhaps with the store.
            ThrowIfReplaced();
            ThrowIfLocksRemoved();
            throw;
        }
    }

    /// <summary>
    /// Closes the files and releases the locks. A thread that still holds a span, or memory of a claim that was taken away,
    /// keeps only that segment mapped: it can read or write there until its next call, which finds a disposed object and touches
    /// no shared word.
    /// </summary>
    public void Dispose()
    {
        try
        {
            Checkpoints.Dispose();
            _metaWatch.Dispose();
            Window.CloseFiles();
            Slots.Dispose();
            Control.Dispose();
        }
        finally
        {
            // In this order: an opener that gets `attached` alone has to get the other as well.
            _metaLock?.Dispose();
            _attached.Dispose();
            Directory.Dispose();
        }
    }
}
