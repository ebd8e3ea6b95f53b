using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Opening;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log;

/// <summary>
/// One queue's attachment to a store, from opening (<see cref="StoreOpening"/>) to the end: what it holds of the store, and the
/// producers, flushes and waits that work on it. It stays rooted while attached: no finalizer may unmap or unlock under a call
/// or a span.
/// </summary>
internal sealed class LogAttachment : IDisposable
{
    private static readonly HashSet<LogAttachment> s_attached = [];

    private readonly Lock _lock = new();
    private readonly SegmentRoller _roller;
    private readonly ProducerAdmission _admission;
    private PlatformLock? _producersLock;
    private int _producerCount;
    private bool _disposed;

    /// <param name="opened">The store.</param>
    /// <param name="settings">The user's options.</param>
    /// <param name="deleting">Called before retention removes a segment.</param>
    public LogAttachment(OpenedStore opened, LogSettings settings, Action<SegmentDeletingEventArgs>? deleting = null)
    {
        Store = new LogStore(opened, settings);
        Flusher = new FlushEngine(Store);
        Retention = new RetentionThread(Store, deleting);
        Store.SettleRemoval = Retention.Settle;
        if (settings.UnconsumedBytesMax > 0)
            ConsumerLimit = new ConsumerLimit(Store, settings.UnconsumedBytesMax);
        if (ConsumerLimit is not null)
            PendingAppends = new PendingAppends(Store, ConsumerLimit);
        _roller = new SegmentRoller(Store, Flusher, ConsumerLimit);
        _admission = new ProducerAdmission(Store, _roller, Flusher);
        AsyncWaits = new AsyncWaiter(Store, Store.Wake);
        DurableAsyncWaits = new AsyncWaiter(Store, Store.FlushWake);
        lock (s_attached)
            s_attached.Add(this);
        try
        {
            if (settings.FlushesAtIntervals)
                Flusher.StartTicking();
        }
        catch
        {
            // The system gave no thread. No other code will dispose an attachment that has no owner.
            Dispose();
            throw;
        }
    }

    public LogStore Store { get; }

    public FlushEngine Flusher { get; }

    public RetentionThread Retention { get; }

    /// <summary>How far producers may go beyond the slowest consumer; null: without limit.</summary>
    public ConsumerLimit? ConsumerLimit { get; }

    /// <summary>Asynchronous appends that wait for consumers; null without a limit.</summary>
    public PendingAppends? PendingAppends { get; }

    public AsyncWaiter AsyncWaits { get; }

    /// <summary>For consumers that see only what is on disk.</summary>
    public AsyncWaiter DurableAsyncWaits { get; }

    /// <summary>
    /// Starts a producer: takes the slot and the producers' lock, and zeroes the bytes of a dead Exclusive producer.
    /// </summary>
    public LogAppender OpenAppender()
    {
        lock (_lock)
        {
            PublicNames.ThrowIfDisposed(_disposed, PublicNames.Queue);
            Store.ThrowIfDamaged("appended");
            if (Store.Wake.IsPoisoned)
                throw Store.Poisoned();
            bool fences = Store.Os.RegisterForFence();
            ConsumerLimit?.Announce();
            _admission.Admit(fences, ref _producersLock, alone: Store.Settings.Exclusive);
            try
            {
                OwnerSlot slot = Store.Producers.Slot!;
                if (Store.Producers.Preparer is null)
                    StartPreparer();
                LogAppender appender = Store.Settings.Exclusive
                    ? new ExclusiveAppender(Store, Flusher, _roller, fences)
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
        PendingAppends?.Forget(appender);
        lock (_lock)
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
    }

    /// <summary>From here on, calls that wait for others end with <see cref="ObjectDisposedException"/>.</summary>
    public void BeginClosing()
    {
        Store.BeginClosing();
        Flusher.Interrupt();
        if (ConsumerLimit is not null)
            Store.RoomWake.Interrupt();
    }

    /// <summary>Releases the store; producers and consumers were closed before.</summary>
    public void Dispose()
    {
        if (_disposed)
            return;
        _disposed = true;
        Store.End();
        Debug.Assert(_producerCount == 0, "The queue closes its producers first.");
        Retention.Dispose();
        Flusher.Dispose();
        try
        {
            AsyncWaits.Dispose();
            DurableAsyncWaits.Dispose();
            PendingAppends?.Dispose();
        }
        finally
        {
            ConsumerLimit?.Dispose();
            Store.Dispose();
        }

        lock (s_attached)
            s_attached.Remove(this);
    }

    private unsafe void StartPreparer()
    {
        LogSettings settings = Store.Settings;
        bool syncs = settings.WritesAhead && !Store.Os.IsPortable;
        var preparer = new SegmentPreparer(Store.Maker, Store.Window, settings.PrepareAhead, syncs ? Flusher.SyncAhead : null);
        Store.Producers.Preparer = preparer;
        if (syncs)
            // P14 acquire: a frame's start; pairs with P14 full in SegmentRoller.
            preparer.Begin(SharedWord.ReadAcquire(Store.Control.TailHint));
    }

    private void EndProducing(bool clean)
    {
        OwnProducers producers = Store.Producers;
        try
        {
            producers.Preparer?.Dispose();
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
