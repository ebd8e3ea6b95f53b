using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Engine;

/// <summary>The consumers: their names, and where they begin.</summary>
internal sealed partial class StoreEngine
{
    /// <summary>Takes a consumer's name, and waits for it up to LockTimeout.</summary>
    /// <param name="name">The name.</param>
    /// <param name="options">Where it starts, and what it sees.</param>
    /// <param name="face">Creates its public face.</param>
    public T OpenConsumer<T>(string name, ConsumerOptions options, Func<LogConsumer, T> face)
        where T : IDisposable
    {
        using CallGate.Call call = BeginCall();
        StoreNames.ThrowIfInvalid(name, "A consumer's name is");
        options.Validate();
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
            Store.CapacityWake.WakeIfAwaited();
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
        StoreNames.ThrowIfInvalid(name, "A consumer's name is");
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
        StoreNames.ThrowIfInvalid(name, "A consumer's name is");
        options.Validate();
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

    /// <summary>Moves a consumer and stores its position.</summary>
    public void Seek(LogConsumer consumer, QueueStart start)
    {
        using CallGate.Call call = BeginCall();
        while (true)
        {
            long offset = ConsumerStart.FindNew(Store, RetentionThread, start, consumer.Policy);
            try
            {
                consumer.Move(offset);
                return;
            }
            catch (OffsetOutOfRangeException) when (start.ExactOffset is null && offset < Store.LogStart)
            {
                // The oldest segment was removed in between.
            }
        }
    }

    /// <summary>Where a start is now.</summary>
    public long FindOffset(QueueStart start)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return ConsumerStart.FindNew(Store, RetentionThread, start, Corruption);
    }

    /// <summary>How many messages begin before an offset, since number 0.</summary>
    public long FindNumber(long offset)
    {
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return ConsumerStart.FindNumber(Store, RetentionThread, offset, Corruption);
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
            AsyncWaiter waits = options.DurableOnly ? _durableAsyncWaits : _asyncWaits;
            bool isNew = isReset || !cursor.HasOffset;
            bool skipsGaps = options.OnOutOfRange != OutOfRangePolicy.Throw;
            LogConsumer consumer;
            do
            {
                long offset = isNew
                    ? ConsumerStart.FindNew(Store, RetentionThread, options.Start, policy, skipsGaps)
                    : ConsumerStart.FindStored(Store, RetentionThread, cursor, name, policy);
                consumer = new LogConsumer(Store, RetentionThread, waits, name, cursor, offset, options.DurableOnly, policy,
                    (error, from, to) => _onSkipped?.Invoke(new CorruptionSkippedEventArgs(name, error, from, to)),
                    options.OnOutOfRange,
                    (from, to) => _onGap?.Invoke(new MessagesSkippedEventArgs(name, from, to)));
            }
            // Segments were removed meanwhile: where a new consumer starts is another place now, unless the caller named it.
            while (isNew && !consumer.IsInLog && !(skipsGaps && options.Start.ExactOffset is not null));
            if (!consumer.IsInLog && !skipsGaps)
                throw ConsumerStart.Removed(Store, name, cursor.Offset);
            // It holds retention back, after a power loss too. Each time: whoever made the cursor may have died before this.
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
}
