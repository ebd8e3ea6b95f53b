using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

/// <summary>
/// One queue's attachment to a store: its files, mappings and locks, from opening (<see cref="StoreOpening"/>) to the end. It
/// stays rooted while attached: no finalizer may unmap or unlock under a call or a span.
/// </summary>
internal sealed unsafe class LogStore : ILogView, IDisposable
{
    private static readonly HashSet<LogStore> s_attached = [];

    private readonly PlatformLock _attached;
    private readonly CheckpointFile _checkpoints;
    private readonly MetaWatch _metaWatch;
    private readonly Lock _lock = new();

    /// <summary>
    /// Guards the list alone: whoever flushes asks for it at a claim in the way.
    /// </summary>
    private readonly Lock _sharedAppendersLock = new();
    private readonly List<SharedAppender> _sharedAppenders = [];
    private OwnerSlot? _slot;
    private PlatformLock? _producersLock;
    private SegmentPreparer? _preparer;
    private int _producerCount;
    private ExclusiveAppender? _exclusiveAppender;
    private volatile bool _closing;
    private volatile bool _disposed;

    public LogStore(OpenedStore opened, LogSettings settings)
    {
        Os = opened.Os;
        Directory = opened.Directory;
        Meta = opened.Meta;
        Control = opened.Control;
        Settings = settings;
        _attached = opened.Attached;
        _checkpoints = opened.Checkpoints;
        _metaWatch = opened.MetaWatch;
        Checksum = new FrameChecksum(Meta.StoreId);
        Window = new SegmentWindow(
            Directory, Meta.SegmentLength, writable: true, Control, syncFailed: () => Wake!.Poison());
        Maker = new SegmentMaker(Directory, Window, Control, allocatesInPlace: !Os.IsPortable)
        {
            NamesLost = () => Flusher!.Poison(),
            LookWhileWaiting = ThrowIfClosing,
            LockTimeout = settings.LockTimeout > LockWait.Timeout ? settings.LockTimeout : LockWait.Timeout,
        };
        Slots = opened.Slots;
        Wake = new WakeSignal(Os, Control);
        Holes = new HoleRepair(Directory, Slots, Checksum, Wake, Control);
        Roller = new SegmentRoller(this);
        FlushWake = new WakeSignal(Os, Control.FlushWakeSequence, Control.FlushWaiterFlag);
        Flusher = new LogFlusher(this, opened.Checkpoints);
        FlushFailure = new FlushFailure(this);
        FlushThread = new FlushThread(this);
        AsyncWaits = new AsyncWaiter(this, Wake);
        DurableAsyncWaits = new AsyncWaiter(this, FlushWake);
        lock (s_attached)
            s_attached.Add(this);
        try
        {
            if (settings.FlushesAtIntervals)
                FlushThread.StartTicking();
        }
        catch
        {
            // No thread to be had. Nobody else will dispose what has no owner.
            Dispose();
            throw;
        }
    }

    public OperatingSystemServices Os { get; }

    public StoreDirectory Directory { get; }

    public StoreMeta Meta { get; }

    public LogSettings Settings { get; }

    public ControlPage Control { get; }

    public FrameChecksum Checksum { get; }

    public SegmentWindow Window { get; }

    public SegmentMaker Maker { get; }

    public SegmentRoller Roller { get; }

    public SlotTable Slots { get; }

    public WakeSignal Wake { get; }

    public HoleRepair Holes { get; }

    /// <summary>Wakes those who wait for the confirmed offset, or for the lead of a flush.</summary>
    public WakeSignal FlushWake { get; }

    public LogFlusher Flusher { get; }

    public FlushThread FlushThread { get; }

    /// <summary>Why flushes that nobody waits for fail, if they do.</summary>
    public FlushFailure FlushFailure { get; }

    public AsyncWaiter AsyncWaits { get; }

    /// <summary>Of consumers that see only what is on disk.</summary>
    public AsyncWaiter DurableAsyncWaits { get; }

    /// <summary>Works while this queue has producers.</summary>
    public SegmentPreparer? Preparer => _preparer;

    /// <summary>
    /// Where recovery met a frame that cannot be; -1 when the log is whole. Producers refuse to start then, nothing is
    /// confirmed any more, readers read up to it.
    /// </summary>
    public long CorruptAt => Control.CorruptAt;

    public string Path => Directory.Path;

    public bool VerifiesChecksum => Settings.VerifyChecksum;

    public int FixedLength => Meta.Kind == StoreKind.Struct ? Meta.StructSize : -1;

    public long LowWater => SharedWord.ReadAcquire(Control.LowWater); // P16 acquire: pairs with P16 release in LogOrigin.

    public long Allocated => SharedWord.ReadAcquire(Control.Allocated); // P20 acquire: pairs with P20 full in SegmentMaker.

    /// <summary>Starts a producer: slot, producers' lock, the bytes of a dead Exclusive producer.</summary>
    public LogAppender OpenAppender()
    {
        lock (_lock)
        {
            PublicNames.ThrowIfDisposed(_disposed, PublicNames.Queue);
            ThrowIfDamaged("appended");
            if (Wake.IsPoisoned)
                throw Poisoned();
            bool fences = Os.RegisterForFence();
            ProducerAdmission.Admit(this, fences, ref _slot, ref _producersLock, alone: Settings.Exclusive);
            try
            {
                Maker.Owner =
                    _slot!.Index.ToString("D4", System.Globalization.CultureInfo.InvariantCulture) + "-" + _slot.Generation;
                if (_preparer is null)
                    StartPreparer();
                LogAppender appender;
                if (Settings.Exclusive)
                {
                    _exclusiveAppender = new ExclusiveAppender(this, fences);
                    appender = _exclusiveAppender;
                }
                else
                {
                    var shared = new SharedAppender(this, _slot);
                    lock (_sharedAppendersLock)
                        _sharedAppenders.Add(shared);
                    appender = shared;
                }

                _producerCount++;
                return appender;
            }
            catch
            {
                if (_producerCount == 0)
                    EndProducing(clean: true);
                throw;
            }
        }
    }

    /// <summary>
    /// Ends a producer: drains it, and with the last one lets the slot and the producers' lock go, last of all.
    /// </summary>
    public void CloseAppender(LogAppender appender)
    {
        bool clean = appender.Close();
        lock (_lock)
        {
            bool zeroed = clean;
            try
            {
                zeroed = LeaveSegments(appender, clean);
            }
            finally
            {
                if (--_producerCount == 0)
                    EndProducing(zeroed);
            }
        }
    }

    /// <summary>Throws when recovery found the log damaged.</summary>
    public void ThrowIfDamaged(string whatNot)
    {
        long at = CorruptAt;
        if (at >= 0)
            throw new QueueCorruptException(
                $"The log is damaged, so nothing can be {whatNot}: offset={at}, path={Path}. Consumers read up to the damage.",
                StoreNames.Segment(Window.StartOf(at)), at);
    }

    /// <summary>Throws when this thread has an open claim on this queue: it would wait for itself.</summary>
    public void ThrowIfOwnClaimIsOpen()
    {
        lock (_sharedAppendersLock)
        {
            bool isOpen = _exclusiveAppender?.HasOwnOpenClaim == true;
            foreach (SharedAppender appender in _sharedAppenders)
                isOpen |= appender.HasOwnOpenClaim();
            if (isOpen)
                throw new InvalidOperationException(
                    "This thread has an open claim on this queue and would wait for itself. Publish or dispose the claim first.");
        }
    }

    /// <summary>Sends every lane of this queue's producers to its rare path.</summary>
    public void TakeBounds()
    {
        lock (_sharedAppendersLock)
        {
            _exclusiveAppender?.TakeBounds();
            foreach (SharedAppender appender in _sharedAppenders)
                appender.TakeBounds();
        }
    }

    /// <summary>The same for the lanes of Shared producers that have stood still below an offset while others wrote.</summary>
    public void TakeBoundsBelow(long offset)
    {
        lock (_sharedAppendersLock)
        {
            foreach (SharedAppender appender in _sharedAppenders)
                appender.TakeBoundsBelow(offset);
        }
    }

    /// <summary>From here on calls that wait for others give up with <see cref="ObjectDisposedException"/>.</summary>
    public void BeginClosing()
    {
        _closing = true;
        Flusher.Interrupt();
    }

    /// <summary>Called in every loop that waits for another process or thread.</summary>
    public void ThrowIfClosing() => PublicNames.ThrowIfDisposed(_closing, PublicNames.Queue);

    /// <summary>Turns a dead owner's claim into padding; true when the header is no longer this claim.</summary>
    public bool TryRepair(ulong* header, ulong claim, long offset)
    {
        if (_slot is { } own && FrameHeader.HighHalf(claim) == own.Owner)
        {
            ThrowIfOwnClaimIsOpen();
            // Of another thread of this queue, whose slot is held: alive, without a probe.
            // P3 acquire: whether it was published meanwhile; pairs with P3 full in SharedAppender.
            return SharedWord.ReadAcquire(header) != claim;
        }

        return IsDamage(header, claim, offset)
            ? throw Corrupt(offset, claim, Window.StartOf(offset) + Window.SegmentLength - offset)
            : Holes.TryRepair(header, claim, offset);
    }

    public bool IsDamage(ulong* header, ulong claim, long offset) => Holes.IsDamage(header, claim, offset);

    /// <inheritdoc/>
    // P14 acquire: read before low water, which goes up first; pairs with P14 full in SegmentRoller.
    public bool HasPassed(long offset) =>
        offset < SharedWord.ReadAcquire(Control.TailHint) && Window.StartOf(offset) >= LowWater;

    // P14 acquire: a walker reached it; pairs with P14 full in SegmentRoller.
    public long PassedTo => Math.Max(SharedWord.ReadAcquire(Control.TailHint), Flusher.ConfirmedOffset);

    public long WrittenTo => SharedWord.ReadAcquire(Control.TailHint); // P14 acquire: pairs with P14 full in SegmentRoller.

    // P17 acquire: read behind the frames that were looked at; pairs with P17 release in ProducerAdmission.
    public bool MayHoldUnpublished => SharedWord.ReadAcquire(Control.ExclusiveAtWork) != 0;

    public bool MayGrow => CorruptAt < 0;

    public ClaimOwner OwnerOf(ulong claim) =>
        _slot is { } own && FrameHeader.HighHalf(claim) == own.Owner ? ClaimOwner.Living : Holes.OwnerOf(claim);

    /// <summary>Damage is for the next look to tell, which knows what the reader does about it.</summary>
    HoleFate ILogView.Repair(ulong* header, ulong claim, long offset) =>
        IsDamage(header, claim, offset) || TryRepair(header, claim, offset) ? HoleFate.Changed : HoleFate.Living;

    public void ThrowIfReadingEnded(LogReader reader)
    {
        PublicNames.ThrowIfDisposed(reader.IsClosed || _disposed, PublicNames.Consumer);
        if (Wake.IsPoisoned)
            throw Poisoned();
    }

    public void ThrowIfWrongLength(int length, long offset)
    {
        if (Meta.Kind == StoreKind.Struct && length != Meta.StructSize)
            throw new QueueCorruptException(
                $"A message has not the size of the store's struct: offset={offset}, length={length}, "
                + $"structSize={Meta.StructSize}. What lies before it can be read; restore the file.",
                StoreNames.Segment(Window.StartOf(offset)), offset);
    }

    /// <inheritdoc cref="MetaWatch.ThrowIfReplaced"/>
    public void ThrowIfReplaced() => _metaWatch.ThrowIfReplaced();

    /// <inheritdoc cref="MetaWatch.ThrowIfSeenReplaced"/>
    public void ThrowIfSeenReplaced() => _metaWatch.ThrowIfSeenReplaced();

    public QueueCorruptException Corrupt(long offset, ulong header, long room) => LogErrors.Corrupt(Window, offset, header, room);

    public QueueCorruptException Truncated(SegmentMapping segment, long offset) => LogErrors.Truncated(segment, offset);

    public QueuePoisonedException Poisoned(Exception? cause = null) => new(
        $"A flush of this store failed, so nothing is confirmed any more: path={Path}. Close every queue on it, in all "
        + "processes, then open it again: that looks at what the disk really holds.", cause);

    /// <summary>A segment is complete: time for a checkpoint, so that opening after deaths has little to walk.</summary>
    public void NoticeRoll() => FlushThread.NoticeRoll();

    /// <summary>
    /// Lets go of the store; producers and consumers were closed before. Whoever has a span in hand still, or memory of a claim
    /// that was taken away, keeps that segment mapped and nothing else: all that is left to them is to read or write there, and
    /// to meet a disposed object at the next call, which looks at no shared word.
    /// </summary>
    public void Dispose()
    {
        if (_disposed)
            return;
        _disposed = true;
        Debug.Assert(_producerCount == 0, "The queue closes its producers first.");
        EndFlushing();
        try
        {
            AsyncWaits.Dispose();
            DurableAsyncWaits.Dispose();
            Flusher.Dispose();
            _checkpoints.Dispose();
            _metaWatch.Dispose();
            Window.CloseFiles();
            Slots.Dispose();
            Control.Dispose();
        }
        finally
        {
            _attached.Dispose();
            Directory.Dispose();
        }

        lock (s_attached)
            s_attached.Remove(this);
    }

    /// <returns>False when bytes that were never published may stand beyond the tail.</returns>
    private bool LeaveSegments(LogAppender appender, bool clean)
    {
        if (clean && appender is ExclusiveAppender exclusive)
        {
            bool zeroed = exclusive.TryZeroDirtyBytes();
            exclusive.LeaveSegment();
            return zeroed;
        }
        else if (appender is SharedAppender shared)
        {
            lock (_sharedAppendersLock)
                _sharedAppenders.Remove(shared);
            if (clean)
                shared.LeaveSegments();
        }

        return clean;
    }

    /// <summary>
    /// The last flush, where the level promises one. What fails here has poisoned the queue for those who are still there, and
    /// for the next opener; a Dispose does not throw.
    /// </summary>
    private void EndFlushing()
    {
        FlushThread.Dispose();
        try
        {
            if (FlushThread.Ticks && !Wake.IsPoisoned)
                Flusher.FlushAtEnd();
            Flusher.CheckpointConfirmed();
        }
        catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
        {
            Debug.Assert(error is not ObjectDisposedException, "Nothing is closed yet.");
        }

        FlushThread.Pending.Close();
    }

    private void StartPreparer()
    {
        bool syncs = Settings.WritesAhead && !Os.IsPortable;
        _preparer = new SegmentPreparer(Maker, Window, Settings.PrepareAhead, syncs ? Flusher.SyncAhead : null);
        if (syncs)
            // P14 acquire: a frame's start; pairs with P14 full in SegmentRoller.
            _preparer.Begin(SharedWord.ReadAcquire(Control.TailHint));
    }

    private void EndProducing(bool clean)
    {
        try
        {
            _preparer?.Dispose();
            // Not clean: the word stays, and the next producer looks for dirty bytes beyond the tail.
            if (clean && Settings.Exclusive)
                ProducerAdmission.TryClearExclusive(this);
        }
        finally
        {
            _preparer = null;
            // The locks go last: until then nobody may take this queue's claims for a dead one's. A claim that was fenced is
            // padding already.
            _producersLock?.Dispose();
            _producersLock = null;
            _slot?.Dispose();
            _slot = null;
        }
    }
}
