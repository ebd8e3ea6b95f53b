using MappedFileQueues.Format;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Sequences;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Engine;

/// <summary>The producers, and what they share: the slot, the lock and the preparer.</summary>
internal sealed partial class StoreEngine
{
    private readonly Lock _producing = new();
    private PlatformLock? _producersLock;
    private int _producerCount;

    /// <summary>
    /// Starts a producer: takes the slot and the producers' lock, and zeroes the bytes of a dead Exclusive producer.
    /// </summary>
    public LogAppender OpenAppender()
    {
        using CallGate.Call call = BeginCall();
        lock (_producing)
        {
            Store.ThrowIfDamaged("appended");
            if (Store.Wake.IsPoisoned)
                throw Store.Poisoned();
            bool isRegistered = Store.Os.RegisterForBarrier();
            _consumerLimit?.Announce();
            _admission.Admit(isRegistered, ref _producersLock, alone: Store.Settings.Exclusive);
            try
            {
                OwnerSlot slot = Store.Producers.Slot!;
                if (Store.Producers.Preparer is null)
                    StartPreparer();
                LogAppender appender = Store.Settings.Exclusive
                    ? new ExclusiveAppender(Store, Flusher, _roller, isRegistered)
                    : new SharedAppender(Store, Flusher, _roller, slot);
                Store.Producers.Add(appender);
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
    /// Ends a producer and drains it. With the last one, releases the slot and the producers' lock, last of all.
    /// </summary>
    public void CloseAppender(LogAppender appender)
    {
        bool clean = appender.Close();
        if (_pendingAppends is not null)
            Uninterrupted.Run(() => _pendingAppends.Forget(appender));
        Uninterrupted.Run(_producing.Enter);
        try
        {
            Remove(appender, clean);
        }
        finally
        {
            _producing.Exit();
        }
    }

    private void Remove(LogAppender appender, bool clean)
    {
        bool leftClean = false;
        try
        {
            Store.Producers.Remove(appender);
            leftClean = clean && appender.TryLeaveClean();
        }
        finally
        {
            if (--_producerCount == 0)
                EndProducing(leftClean);
        }
    }

    /// <summary>Takes the id of a producer, and waits for it up to LockTimeout.</summary>
    /// <exception cref="QueueInUseException">Another producer holds it.</exception>
    public PlatformLock TakeProducerId(string id)
    {
        using CallGate.Call call = BeginCall();
        ThrowIfInvalidId(id);
        Store.ThrowIfReplaced();
        TimeSpan timeout = Store.Settings.LockTimeout > LockWait.Passing ? Store.Settings.LockTimeout : LockWait.Passing;
        PlatformLock held = LockWait.TryTake(
            Store.Directory, StoreNames.ProducerLock(id), LockKind.Exclusive, timeout, Store.ThrowIfClosing,
            Store.Settings.LockWaits)
            ?? throw Store.Directory.InUse(
                StoreNames.ProducerLock(id), "Another producer holds this id",
                "Close it, choose another id, or raise LockTimeout.",
                $"id=\"{id}\", path={Store.Path}", waited: Store.Settings.LockTimeout);
        return held.Into(taken =>
        {
            // With the id held: its lock may be a new file.
            Store.ThrowIfLocksRemoved();
            return taken;
        });
    }

    /// <summary>Opens the file of a producer whose id the caller holds, and finds its last sequence in the log.</summary>
    /// <param name="id">The id.</param>
    /// <param name="last">The last sequence; 0 for none.</param>
    /// <param name="end">Its message is before this offset.</param>
    public ProducerFile OpenProducerFile(string id, out ulong last, out long end)
    {
        using CallGate.Call call = BeginCall();
        var file = ProducerFile.Open(Store.Directory, Store.Meta, id, Store.ConfirmedOffset);
        try
        {
            (last, long offset) = file.Known;
            // A damaged log may end before it; nobody produces there.
            if (offset < 0 || offset % FrameHeader.Size != 0 || (Store.CorruptAt < 0 && offset > Store.PassedTo))
                throw ProducerFile.Damaged(Store.Directory, id);
            end = FindEndAfter(id, Math.Max(offset, Store.LogStart));
            Dictionary<ulong, ulong> highest = new() { [file.Id] = last };
            // Also before the log start: a removal that is under way, or has died, raises that before the file knows what goes.
            new SequenceScan(Store.Directory, Store.Meta).Run([offset], end, highest);
            // Again: what was removed during the walk is known to the file now.
            last = Math.Max(highest[file.Id], file.Known.Sequence);
            return file;
        }
        catch
        {
            file.Dispose();
            throw;
        }
    }

    /// <summary>A good log must not be called damaged because the producer's file names a place inside a message.</summary>
    private long FindEndAfter(string id, long offset)
    {
        var walk = new FrameWalk(Store);
        try
        {
            return walk.FindPublishedEnd(offset);
        }
        catch (QueueCorruptException error) when (error.Offset == offset)
        {
            // Not in the filter: the runtime would swallow what the walk throws.
            if (new FrameWalk(Store).IsFrameStart(offset))
                throw;
            throw ProducerFile.Damaged(Store.Directory, id);
        }
    }

    /// <summary>Forgets a producer that nobody holds; false when there is none.</summary>
    public bool DeleteProducer(string id)
    {
        using CallGate.Call call = BeginCall();
        ThrowIfInvalidId(id);
        if (Store.Directory.Identify(ProducerFile.NameOf(id)) is null)
        {
            // Whoever has removed it may have died before a power loss could not bring it back.
            Store.Directory.FlushEntriesIfThere(StoreNames.Producers);
            return false;
        }

        using PlatformLock held = TakeProducerId(id);
        bool existed = Store.Directory.Delete(ProducerFile.NameOf(id));
        Store.Directory.FlushEntries(StoreNames.Producers);
        if (!Store.Os.IsPortable)
            ConsumerRemoval.TryRemoveLock(Store.Directory, Store.Control, StoreNames.ProducerLock(id));
        return existed;
    }

    private static void ThrowIfInvalidId(string id)
    {
        ArgumentException.ThrowIfNullOrEmpty(id);
        StoreNames.ThrowIfInvalid(id, "A producer's id is");
    }

    /// <summary>Whether producers wait for consumers at a limit.</summary>
    public bool IsLimited => _consumerLimit is not null;

    /// <summary>Asynchronous appends wait for consumers: later ones wait after them.</summary>
    public bool IsAnyAppendWaiting => _pendingAppends?.IsAnyThere == true;

    /// <summary>Begins the wait of a producer that found no room.</summary>
    /// <exception cref="QueueFullException">The options say that it does not wait.</exception>
    public CapacityWait BeginCapacityWait(CallDeadline deadline)
    {
        ThrowIfFull();
        return new CapacityWait(Store, _consumerLimit!, _gate, deadline);
    }

    /// <summary>Appends messages when there is room; the result is the first one's offset.</summary>
    public Task<long> AppendLater(LogAppender appender, WaitingMessages messages, CancellationToken cancellationToken)
    {
        using CallGate.Call call = BeginCall();
        return _pendingAppends!.Add(appender, messages, cancellationToken);
    }

    /// <summary>Called when there is no room.</summary>
    public void ThrowIfFull()
    {
        if (!Store.Settings.ThrowsWhenFull)
            return;
        using CallGate.Call call = BeginCall();
        throw new QueueFullException("Consumers are too far behind; nothing was appended: "
            + $"{CapacityWait.Describe(Store, _consumerLimit!)}.");
    }

    /// <summary>Makes room for the next messages of an appender.</summary>
    public void Prepare(LogAppender appender, long bytes)
    {
        using CallGate.Call call = BeginCall();
        appender.Prepare(bytes);
    }

    private void StartPreparer()
    {
        LogSettings settings = Store.Settings;
        bool syncs = settings.WritesAhead && !Store.Os.IsPortable;
        Store.Producers.Preparer = new SegmentPreparer(
            Store.Maker, Store.Allocator, Store.Window, settings.PrepareAhead, Store.ThrowIfClosing,
            syncs ? Flusher.SyncAhead : null);
        Store.Producers.Preparer.Begin(Store.WrittenTo);
    }

    private void EndProducing(bool clean)
    {
        OwnProducers producers = Store.Producers;
        try
        {
            if (producers.Preparer is { } preparer)
                Uninterrupted.Run(preparer.Dispose);
            // Not clean: the word stays set, and the next producer looks for dirty bytes beyond the tail.
            if (clean && Store.Settings.Exclusive)
                _admission.TryClearExclusive();
        }
        finally
        {
            producers.Preparer = null;
            // The locks go last: until then no process may take this queue's claims for a dead one's. A fenced claim is padding
            // already.
            _producersLock?.Dispose();
            _producersLock = null;
            producers.Slot?.Dispose();
            producers.Slot = null;
        }
    }
}
