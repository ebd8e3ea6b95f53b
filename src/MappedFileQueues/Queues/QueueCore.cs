using System.Diagnostics;
using System.Runtime.ExceptionServices;
using MappedFileQueues.Format;
using MappedFileQueues.Inspection;
using MappedFileQueues.Log;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Opening;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Snapshots;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>The core of both kinds of queue: an attached store, and the producers and consumers opened on it.</summary>
internal sealed class QueueCore : IDisposable
{
    /// <summary>The remedy when a consumer that is to be changed holds its name.</summary>
    private const string CloseOrWait = "Close it, or raise LockTimeout.";

    private readonly Lock _lock = new();
    private readonly List<IDisposable> _children = [];
    private readonly CallGate _gate = new();
    private readonly Action<CorruptionSkippedEventArgs>? _onSkipped;
    private readonly Action<MessagesSkippedEventArgs>? _onGap;
    private volatile bool _disposed;

    public QueueCore(
        MappedFileQueueOptions options,
        StoreKind kind,
        int structSize,
        ulong fingerprint,
        Action<CorruptionSkippedEventArgs>? onSkipped = null,
        Action<MessagesSkippedEventArgs>? onGap = null,
        Action<SegmentDeletingEventArgs>? onDeleting = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        LogSettings settings = options.ToSettings();
        Level = options.Durability;
        Corruption = options.Corruption;
        _onSkipped = onSkipped;
        _onGap = onGap;
        StoreRequest request = options.ToRequest(kind, structSize, fingerprint);
        OpenedStore opened = StoreOpening.Open(request, settings, options.Platform ?? CurrentPlatform.Services);
        Attachment = new LogAttachment(opened, settings, onDeleting);
        BeginRetention(options.Retention);
    }

    public LogAttachment Attachment { get; }

    public LogStore Store => Attachment.Store;

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

    /// <summary>Takes a consumer's name, and waits for it up to LockTimeout.</summary>
    /// <param name="name">The name.</param>
    /// <param name="options">Where it starts, and what it sees.</param>
    /// <param name="face">Creates its public face.</param>
    public T OpenConsumer<T>(string name, ConsumerOptions options, Func<LogConsumer, T> face)
        where T : IDisposable
    {
        using CallGate.Call call = BeginCall();
        ThrowIfInvalid(name);
        return Add(face(WaitForName(name, () => TryOpenConsumer(name, options),
            "Close it, choose another name, raise LockTimeout, or use OpenConsumerAsync.")));
    }

    /// <summary>Removes a consumer, once no process holds its name; false when there is none.</summary>
    public bool DeleteConsumer(string name) => ChangeConsumer(name, () =>
    {
        if (!ConsumerRemoval.HasTraces(Store.Directory, name))
            return false;
        using PlatformLock held = WaitForName(
            name, () => Store.Directory.TryLock(StoreNames.ConsumerLock(name), LockKind.Exclusive), CloseOrWait);
        try
        {
            return ConsumerRemoval.Remove(Store.Directory, Store.Control, Store.Os.IsPortable, name);
        }
        finally
        {
            Store.RoomWake.WakeIfAwaited();
        }
    });

    /// <summary>Moves the stored offset of a consumer that no process holds, or creates it; returns the offset.</summary>
    public long ResetConsumer(string name, QueueStart start) => ChangeConsumer(name, () =>
    {
        var options = new ConsumerOptions { Start = start };
        using LogConsumer consumer = WaitForName(name, () => TryOpenConsumer(name, options, isReset: true), CloseOrWait);
        return consumer.CommittedOffset;
    });

    /// <summary>What both calls share that change a consumer which they do not open.</summary>
    private T ChangeConsumer<T>(string name, Func<T> change)
    {
        using CallGate.Call call = BeginCall();
        ThrowIfInvalid(name);
        Store.ThrowIfReplaced();
        return change();
    }

    /// <summary>Repeats an attempt that needs a consumer's name, up to LockTimeout.</summary>
    private T WaitForName<T>(string name, Func<T?> tryTake, string remedy)
        where T : class
    {
        var deadline = new Deadline(Store.Settings.LockTimeout);
        long began = Stopwatch.GetTimestamp();
        try
        {
            while (true)
            {
                if (tryTake() is { } taken)
                    return taken;
                if (deadline.IsOver && IsHeld(name))
                    throw NameInUse(name, remedy);
                Store.ThrowIfClosing();
                Thread.Sleep(1);
            }
        }
        finally
        {
            Store.Settings.LockWaits.Note(StoreNames.ConsumerLock(name), began);
        }
    }

    /// <summary>The same, but waits for the name until cancelled.</summary>
    public async ValueTask<T> OpenConsumerAsync<T>(
        string name, ConsumerOptions options, Func<LogConsumer, T> face, CancellationToken cancellationToken)
        where T : IDisposable
    {
        using CallGate.Call call = BeginCall();
        ThrowIfInvalid(name);
        int pauseMs = 1;
        while (true)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (TryOpenConsumer(name, options) is { } consumer)
                return Add(face(consumer));
            await Task.Delay(pauseMs, cancellationToken).ConfigureAwait(false);
            pauseMs = Math.Min(pauseMs * 2, 50);
        }
    }

    private T Add<T>(T child)
        where T : IDisposable
    {
        lock (_lock)
        {
            if (!_disposed)
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

    public void ThrowIfDisposed() => PublicNames.ThrowIfDisposed(_disposed, PublicNames.Queue);

    public long Flush()
    {
        using CallGate.Call call = BeginCall();
        return Attachment.Flusher.Flush();
    }

    /// <summary>Completes when everything before the goal is on disk, as far as it is published at the call.</summary>
    public ValueTask<long> FlushAsync(long goal, CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<long>(cancellationToken);
        using CallGate.Call call = BeginCall();
        long confirmed = Store.ConfirmedOffset;
        if (goal <= confirmed)
            return ValueTask.FromResult(confirmed);
        Store.Producers.ThrowIfOwnClaimIsOpen();
        return Attachment.Flusher.WaitForAsync(goal, null, cancellationToken);
    }

    /// <summary>Waits for a flush of everything before the goal.</summary>
    public void WaitForFlush(long goal, CallDeadline deadline)
    {
        using CallGate.Call call = BeginCall();
        Attachment.Flusher.WaitFor(goal, deadline);
    }

    /// <summary>The same without blocking. The result is the offset that the caller passes.</summary>
    public ValueTask<long> WaitForFlushAsync(long goal, long offset, CancellationToken cancellationToken)
    {
        using CallGate.Call call = BeginCall();
        return Store.ConfirmedOffset >= goal
            ? ValueTask.FromResult(offset)
            : Attachment.Flusher.WaitForAsync(goal, offset, cancellationToken);
    }

    /// <summary>Whether producers wait for consumers at a limit.</summary>
    public bool IsLimited => Attachment.ConsumerLimit is not null;

    /// <summary>Begins the wait of a producer that found no room.</summary>
    /// <exception cref="QueueFullException">The options say that it does not wait.</exception>
    public RoomWait BeginRoomWait(CallDeadline deadline)
    {
        ThrowIfFull();
        return new RoomWait(Store, Attachment.ConsumerLimit!, _gate, deadline);
    }

    /// <summary>Appends messages when there is room; the result is the first one's offset.</summary>
    public Task<long> AppendLater(LogAppender appender, WaitingMessages messages, CancellationToken cancellationToken)
    {
        using CallGate.Call call = BeginCall();
        return Attachment.PendingAppends!.Add(appender, messages, cancellationToken);
    }

    /// <summary>Called when there is no room.</summary>
    public void ThrowIfFull()
    {
        if (!Store.Settings.ThrowsWhenFull)
            return;
        using CallGate.Call call = BeginCall();
        throw new QueueFullException("Consumers are too far behind; nothing was appended: "
            + $"{RoomWait.Describe(Store, Attachment.ConsumerLimit!)}.");
    }

    public LogAppender OpenAppender()
    {
        using CallGate.Call call = BeginCall();
        return Attachment.OpenAppender();
    }

    /// <summary>Makes room for the next messages of an appender.</summary>
    public void Prepare(LogAppender appender, long bytes)
    {
        using CallGate.Call call = BeginCall();
        appender.Prepare(bytes);
    }

    /// <summary>Moves a consumer and stores its position.</summary>
    public void Seek(LogConsumer consumer, QueueStart start)
    {
        using CallGate.Call call = BeginCall();
        while (true)
        {
            long offset = ConsumerStart.FindNew(Store, start, consumer.Policy);
            try
            {
                consumer.Move(offset);
                return;
            }
            catch (OffsetOutOfRangeException) when (start.ExactOffset is null && offset < Store.LowWater)
            {
                // The oldest segment was removed in between.
            }
        }
    }

    /// <summary>Removes whole segments before an offset, as far as consumers allow it; returns the oldest offset kept.</summary>
    public long Trim(long before)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return Attachment.Retention.Trim(before);
    }

    /// <summary>The oldest offset that <see cref="Trim"/> would keep.</summary>
    public long FindKept(long before)
    {
        using CallGate.Call call = BeginCall();
        return Attachment.Retention.FindKept(before);
    }

    /// <summary>The start of the first segment that was written to at a time or later.</summary>
    public long FindWrittenSince(DateTimeOffset time)
    {
        using CallGate.Call call = BeginCall();
        return Attachment.Retention.FindWrittenSince(time);
    }

    /// <inheritdoc cref="LogStore.TryFence"/>
    public bool TryFence(long offset, int slot)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return Store.TryFence(offset, slot);
    }

    /// <summary>Makes a policy the store's, for every process.</summary>
    public void SetRetention(RetentionOptions policy)
    {
        ArgumentNullException.ThrowIfNull(policy);
        policy.ThrowIfInvalid();
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        try
        {
            WriteRetention(policy);
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno))
        {
            // The new policy may be the remedy: what it removes makes room for itself.
            Attachment.Retention.MakeRoom(policy);
            WriteRetention(policy);
        }

        Attachment.Retention.Notice();
    }

    private void WriteRetention(RetentionOptions policy)
    {
        using (Store.TakeOpenLock())
            RetentionFile.Write(Store.Directory, Store.Meta.StoreId, policy);
    }

    /// <summary>Applies the store's policy now, for a program that does not have the store open for long.</summary>
    public void ApplyRetention()
    {
        using CallGate.Call call = BeginCall();
        Attachment.Retention.Apply();
    }

    /// <summary>Sets the policy of the options before anything is removed, or begins with the one that the store has.</summary>
    private void BeginRetention(RetentionOptions? policy)
    {
        try
        {
            if (policy is not null && policy != TryReadRetention())
            {
                SetRetention(policy);
                return;
            }

            // Whoever wrote it may have died before its name survived a power cut.
            if (policy is not null)
                Store.Directory.FlushEntries("");
            if (Store.Directory.Identify(StoreNames.Retention) is not null)
                Attachment.Retention.Notice();
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    /// <summary>Null also where the policy is damaged: setting it is the remedy.</summary>
    private RetentionOptions? TryReadRetention()
    {
        try
        {
            return RetentionFile.Read(Store.Directory, Store.Meta.StoreId);
        }
        catch (QueueFormatException)
        {
            return null;
        }
    }

    public MappedFileQueueInfo GetInfo(bool countsMessages = false)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return StoreStatus.Gather(Store.Directory, Store.Meta, Store.Control, countsMessages, isRecovered: true);
    }

    /// <summary>What this queue has done itself. Reads no file.</summary>
    public MappedFileQueueStatistics GetStatistics()
    {
        using CallGate.Call call = BeginCall();
        (long flushes, TimeSpan duration, TimeSpan durationMax, DateTimeOffset? lastFlush) = Attachment.Flusher.Times;
        (long waits, TimeSpan longest, string? lastLock) = Store.Settings.LockWaits.Read();
        return new MappedFileQueueStatistics
        {
            RecoveredAfterCut = Store.Recovery.IsAfterCut,
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
        return new SnapshotWriter(Store, Attachment.Flusher)
            .Write(Path.TrimEndingDirectorySeparator(Path.GetFullPath(target)), options?.KeepStoreId ?? false);
    }

    /// <summary>
    /// Closes producers and consumers first, then the calls that belong to neither. Nothing is unmapped under a running call.
    /// </summary>
    public void Dispose()
    {
        List<IDisposable> children;
        lock (_lock)
        {
            if (_disposed)
                return;
            _disposed = true;
            children = [.. _children];
            _children.Clear();
        }

        Attachment.BeginClosing();
        // An exception must not keep the rest from closing: a half-closed queue would hold its locks forever.
        Exception? first = null;
        foreach (IDisposable child in children)
        {
            try
            {
                child.Dispose();
            }
            catch (Exception error)
            {
                first ??= error;
            }
        }

        _gate.Close();
        Attachment.Dispose();
        if (first is not null)
            ExceptionDispatchInfo.Throw(first);
    }

    private LogConsumer? TryOpenConsumer(string name, ConsumerOptions options, bool isReset = false)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        CursorFile? cursor = CursorFile.TryOpen(Store.Directory, Store.Control, name);
        if (cursor is null)
            return null;
        try
        {
            // With the name held: its lock may be a new file.
            Store.ThrowIfLocksRemoved();
            CorruptionPolicy policy = options.Corruption ?? Corruption;
            AsyncWaiter waits = options.DurableOnly ? Attachment.DurableAsyncWaits : Attachment.AsyncWaits;
            bool isNew = isReset || !cursor.HasOffset;
            LogConsumer consumer;
            do
            {
                long offset = isNew
                    ? ConsumerStart.FindNew(Store, options.Start, policy)
                    : ConsumerStart.FindStored(Store, cursor, name, policy);
                consumer = new LogConsumer(Store, waits, name, cursor, offset, options.DurableOnly, policy,
                    (error, from, to) => _onSkipped?.Invoke(new CorruptionSkippedEventArgs(name, error, from, to)),
                    options.OnOutOfRange,
                    (from, to) => _onGap?.Invoke(new MessagesSkippedEventArgs(name, from, to)));
            }
            // Segments were removed meanwhile: where a new consumer starts is another place now.
            while (isNew && !consumer.IsInLog);
            if (!consumer.IsInLog && options.OnOutOfRange == OutOfRangePolicy.Throw)
                throw ConsumerStart.Removed(Store, name, cursor.Offset);
            // It holds retention back, after a power cut too. Each time: whoever made the cursor may have died before this.
            consumer.FlushCursor();
            return consumer;
        }
        catch
        {
            cursor.Dispose();
            throw;
        }
    }

    /// <summary>
    /// Whether a consumer holds the name. `info` probes the name with a shared lock, which blocks taking it for a moment but is
    /// no reason to refuse it.
    /// </summary>
    private bool IsHeld(string name)
    {
        using PlatformLock? probe = Store.Directory.Probe(StoreNames.ConsumerLock(name));
        return probe is null;
    }

    private QueueInUseException NameInUse(string name, string remedy) => Store.Directory.InUse(
        StoreNames.ConsumerLock(name),
        "Another consumer holds this name",
        remedy,
        $"consumer=\"{name}\", path={Store.Path}",
        waited: Store.Settings.LockTimeout);

    private static void ThrowIfInvalid(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        if (!StoreNames.IsValidConsumer(name))
            throw new ArgumentException(
                $"A consumer's name is up to 100 characters of A-Z a-z 0-9 . _ - : name=\"{name}\".", nameof(name));
    }
}
