using System.Diagnostics;
using System.Runtime.ExceptionServices;
using MappedFileQueues.Format;
using MappedFileQueues.Inspection;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Log.Opening;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Snapshots;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Engine;

/// <summary>
/// One open store, from opening to the end, for both kinds of queue: what works on it (producers, consumers, flushes, retention,
/// waits), the calls under way, and the one place where all of it ends. It stays rooted while it is open: no finalizer may unmap
/// or unlock under a call or a span.
/// <para>The end has three stages, which <see cref="LogStore"/> keeps: no new call begins and waits end; producers, consumers and
/// the calls under way have ended, and threads and the last flush follow; files and locks are released.</para>
/// </summary>
internal sealed partial class StoreEngine : IDisposable
{
    /// <summary>The remedy when a consumer that is to be changed holds its name.</summary>
    private const string CloseOrWait = "Close it, or raise LockTimeout.";

    private static readonly HashSet<StoreEngine> s_open = [];

    private readonly Lock _lock = new();
    private readonly List<IDisposable> _children = [];
    private readonly CallGate _gate = new();
    private readonly Action<CorruptionSkippedEventArgs>? _onSkipped;
    private readonly Action<MessagesSkippedEventArgs>? _onGap;
    private readonly SegmentRoller _roller;
    private readonly ProducerAdmission _admission;
    private readonly AsyncWaiter _asyncWaits;

    private readonly GroupSaver _groupSaver;

    /// <summary>For consumers that see only what is on disk.</summary>
    private readonly AsyncWaiter _durableAsyncWaits;

    /// <summary>How far producers may go beyond the slowest consumer; null: without limit.</summary>
    private readonly ConsumerLimit? _consumerLimit;

    /// <summary>Asynchronous appends that wait for consumers; null without a limit.</summary>
    private readonly PendingAppends? _pendingAppends;

    /// <param name="options">The user's options.</param>
    /// <param name="kind">Structs or messages.</param>
    /// <param name="structSize">The size of the struct in bytes; 0 for messages.</param>
    /// <param name="fingerprint">That of the struct's layout; 0 for messages.</param>
    /// <param name="onSkipped">Called when a consumer has skipped damage.</param>
    /// <param name="onGap">Called when a consumer has skipped what was removed.</param>
    /// <param name="onDeleting">Called before retention removes a segment.</param>

    public StoreEngine(
        MappedFileQueueOptions options,
        StoreKind kind,
        int structSize,
        ulong fingerprint,
        Action<CorruptionSkippedEventArgs>? onSkipped = null,
        Action<MessagesSkippedEventArgs>? onGap = null,
        Action<SegmentDeletingEventArgs>? onDeleting = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        options.Validate();
        LogSettings settings = new(options);
        Level = options.Durability;
        Corruption = options.Corruption;
        _onSkipped = onSkipped;
        _onGap = onGap;
        StoreRequest request = StoreRequest.From(options, kind, structSize, fingerprint);
        Store = StoreOpening.Open(request, settings, options.Platform ?? CurrentPlatform.Services);
        Flusher = new FlushEngine(Store);
        Retention = new StoreRetention(Store, onDeleting);
        RetentionThread = new RetentionThread(Store, Retention);
        if (settings.UnconsumedBytesMax > 0)
        {
            _consumerLimit = new ConsumerLimit(Store, settings.UnconsumedBytesMax);
            _pendingAppends = new PendingAppends(Store, _consumerLimit);
        }

        _roller = new SegmentRoller(Store, Flusher, RetentionThread, _consumerLimit);
        _admission = new ProducerAdmission(Store, _roller, Flusher);
        _asyncWaits = new AsyncWaiter(Store, Store.Wake);
        _durableAsyncWaits = new AsyncWaiter(Store, Store.FlushWake);
        _groupSaver = new GroupSaver(Store);
        lock (s_open)
            s_open.Add(this);
        try
        {
            if (settings.FlushesAtIntervals)
                Flusher.StartTicking();
            BeginRetention(options.Retention);
        }
        catch
        {
            // For example, the system gave no thread. Nobody else disposes what its constructor did not return.
            Dispose();
            throw;
        }
    }

    public LogStore Store { get; }

    public FlushEngine Flusher { get; }

    public StoreRetention Retention { get; }

    public RetentionThread RetentionThread { get; }

    public DurabilityLevel Level { get; }

    /// <summary>The policy of consumers and readers that do not name their own.</summary>
    public CorruptionPolicy Corruption { get; }

    public long ConfirmedOffset
    {
        get
        {
            using CallGate.Call call = BeginCall();
            return Store.ConfirmedOffset;
        }
    }

    private CallGate.Call BeginCall()
    {
        ThrowIfDisposed();
        return _gate.Begin();
    }

    /// <summary>Opens a child that must be closed before the store.</summary>
    public T Open<T>(Func<T> open)
        where T : IDisposable
    {
        using CallGate.Call call = BeginCall();
        return Add(open());
    }

    private T Add<T>(T child)
        where T : IDisposable
    {
        lock (_lock)
        {
            if (!Store.IsClosing)
            {
                _children.Add(child);
                return child;
            }
        }

        child.Dispose();
        throw new ObjectDisposedException(PublicNames.Queue);
    }

    public void Remove(IDisposable child)
    {
        lock (_lock)
            _children.Remove(child);
    }

    public void ThrowIfDisposed() => Store.ThrowIfClosing();

    /// <inheritdoc cref="LogStore.TryFence"/>
    public bool TryFence(long offset, int slot)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return Store.TryFence(offset, slot);
    }

    public MappedFileQueueInfo GetInfo(bool countsMessages = false)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return StoreStatus.Gather(
            Store.Directory, Store.Meta, Store.Control, countsMessages, isRecovered: true, Store.Settings.TimeProvider);
    }

    /// <summary>What this queue has done itself. Reads no file.</summary>
    public MappedFileQueueStatistics GetStatistics()
    {
        using CallGate.Call call = BeginCall();
        (long flushes, TimeSpan duration, TimeSpan durationMax, DateTimeOffset? lastFlush) = Flusher.Times;
        (long waits, TimeSpan longest, string? lastLock) = Store.Settings.LockWaits.Read();
        return new MappedFileQueueStatistics
        {
            RecoveredAfterPowerLoss = Store.Recovery.IsAfterPowerLoss,
            RepairedAtOpening = Store.Recovery.RepairedClaims,
            FlushCount = flushes,
            FlushDuration = duration,
            FlushDurationMax = durationMax,
            LastFlush = lastFlush,
            LongLockWaitCount = waits,
            LongLockWaitMax = longest,
            LastLongLockWait = lastLock,
        };
    }

    /// <summary>Makes a consistent copy of the store in another directory.</summary>
    public SnapshotResult Snapshot(string target, SnapshotOptions? options)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(target);
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return new SnapshotWriter(Store, Flusher)
            .Write(Path.TrimEndingDirectorySeparator(SystemPath.Full(target)), options?.KeepStoreId ?? false);
    }

    /// <summary>
    /// Closes producers and consumers first, then the calls that belong to neither. Nothing is unmapped under a running call.
    /// </summary>
    /// <exception cref="InvalidOperationException">A handler of SegmentDeleting calls it in a Trim or SetRetention, which would
    /// never end.</exception>
    public void Dispose()
    {
        if (Retention.IsLooking && !RetentionThread.IsCurrent)
            throw new InvalidOperationException("A handler that is told of a removal cannot close the queue: "
                + $"path={Store.Path}. Close it after the call has returned.");
        List<IDisposable> children;
        lock (_lock)
        {
            if (!Store.TryBeginClosing())
                return;
            children = [.. _children];
            _children.Clear();
        }

        Flusher.Interrupt();
        if (_consumerLimit is not null)
            Store.CapacityWake.Interrupt();
        // An exception must not keep the rest from closing: a half-closed queue would hold its locks forever.
        Exception? first = null;
        foreach (IDisposable child in children)
        {
            try
            {
                Uninterrupted.Run(child.Dispose);
            }
            catch (Exception error)
            {
                first ??= error;
            }
        }

        _gate.Close();
        End();
        if (first is not null)
            ExceptionDispatchInfo.Throw(first);
    }

    /// <summary>
    /// Ends the threads, flushes for the last time, and releases the store. No interrupt of this thread ends a wait here: a
    /// thread that runs on would meet unmapped pages, and what is not released would be held for the life of the process.
    /// </summary>
    private void End()
    {
        Store.End();
        Debug.Assert(_producerCount == 0, "Each producer is a child, and was closed.");
        Uninterrupted.Run(_groupSaver.Dispose);
        Uninterrupted.Run(RetentionThread.Dispose);
        Retention.Dispose();
        Flusher.Dispose();
        try
        {
            Uninterrupted.Run(_asyncWaits.Dispose);
            Uninterrupted.Run(_durableAsyncWaits.Dispose);
            if (_pendingAppends is not null)
                Uninterrupted.Run(_pendingAppends.Dispose);
        }
        finally
        {
            _consumerLimit?.Dispose();
            Store.Dispose();
        }

        Uninterrupted.Run(Forget);
    }

    private void Forget()
    {
        lock (s_open)
            s_open.Remove(this);
    }
}
