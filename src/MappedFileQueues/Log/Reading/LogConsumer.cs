using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Reading;

/// <summary>
/// A named consumer: a reader, its stored cursor, and waiting. The public consumers are thin shells over it. One thread at a time
/// may use it; <see cref="Dispose"/> may come from any thread.
/// </summary>
internal sealed unsafe partial class LogConsumer : IWaitingConsumer, IDisposable
{
    private readonly WakeSignal _signal;
    private readonly AsyncWaiter _asyncWaits;
    private readonly PendingRead _asyncWait;
    private ReusedWait<bool> _untilSomething;
    private ReusedWait<bool> _untilThere;
    private readonly CursorFile _cursorFile;
    private readonly ulong* _cursor;
    private readonly long* _logStart;
    private readonly ulong* _producersMayWait;
    private readonly Lock _disposing = new();
    private readonly RetentionThread _retention;
    private readonly Lock _interrupting = new();
    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private bool _disposed;
    private readonly Lock _reading = new();
    private bool _isInterruptible = true;
    private long? _committedAtEnd;

    /// <param name="store">The store.</param>
    /// <param name="retention">The queue's retention.</param>
    /// <param name="asyncWaits">Where its asynchronous calls wait.</param>
    /// <param name="name">The consumer's name.</param>
    /// <param name="cursor">Its stored offset.</param>
    /// <param name="offset">The offset at which it starts.</param>
    /// <param name="durableOnly">True if it sees a message only once that is on disk; flushes wake it instead of
    /// publishers.</param>
    /// <param name="policy">What it does where the log is damaged.</param>
    /// <param name="report">Called for skipped damage, with the error, the damage's offset and the next offset.</param>
    /// <param name="onOutOfRange">What it does when the messages at its offset were removed.</param>
    /// <param name="reportGap">Called for skipped messages, with the offset before and the one after.</param>
    public LogConsumer(
        LogStore store,
        RetentionThread retention,
        AsyncWaiter asyncWaits,
        string name,
        CursorFile cursor,
        long offset,
        bool durableOnly = false,
        CorruptionPolicy policy = CorruptionPolicy.Throw,
        Action<QueueCorruptException, long, long>? report = null,
        OutOfRangePolicy onOutOfRange = OutOfRangePolicy.Throw,
        Action<long, long>? reportGap = null)
    {
        Store = store;
        _retention = retention;
        Name = name;
        _signal = durableOnly ? store.FlushWake : store.Wake;
        _asyncWaits = asyncWaits;
        _cursorFile = cursor;
        _cursor = cursor.Word;
        Policy = policy;
        DamageSkipper? skipper = policy == CorruptionPolicy.Throw ? null : new DamageSkipper(store, policy, report);
        GapSkipper? gaps = onOutOfRange == OutOfRangePolicy.Throw
            ? null
            : new GapSkipper(() => FindAfterGap(onOutOfRange), TryStoreCursor, reportGap);
        Reader = new LogReader(store, durableOnly ? store.Control.Durable : null, skipper, gaps, retention);
        _asyncWait = new PendingRead(asyncWaits, Reader, PublicNames.Consumer);
        _untilSomething = new ReusedWait<bool>(this, static (out isThere) => isThere = true);
        _untilThere = new ReusedWait<bool>(this, (out isThere) => isThere = IsMessageThere());
        _logStart = store.Control.LogStart;
        _producersMayWait = store.Control.ProducersMayWait;
        Reader.MoveTo(offset);
        IsInLog = TryStoreCursor(offset) || !retention.IsRemoved(offset);
    }

    /// <summary>False when the messages at the offset where it was to start were removed meanwhile.</summary>
    public bool IsInLog { get; }

    public LogStore Store { get; }

    public string Name { get; }

    public LogReader Reader { get; }

    /// <summary>Completes when the consumer is disposed.</summary>
    public Task Ended => _ended.Task;

    public CorruptionPolicy Policy { get; }

    /// <summary>
    /// The stored offset: everything before it is done. Any thread: the lock keeps the page mapped meanwhile.
    /// </summary>
    public long CommittedOffset
    {
        get
        {
            lock (_reading)
                return _committedAtEnd ?? StoredOffset;
        }
    }

    // P15 acquire: pairs with P15 release in StoreCursor.
    private long StoredOffset =>
        CursorWord.TryRead(SharedWord.ReadAcquire(_cursor), out long offset) ? offset : Reader.Offset;

    /// <summary>
    /// Waits for a message up to the time-out (<see cref="Timeout.InfiniteTimeSpan"/> never ends); false when the time is up.
    /// </summary>
    public bool TryWait(TimeSpan timeout, CancellationToken cancellationToken, out byte* payload, out int length)
    {
        using LogReader.Call call = Reader.EnterLongCall();
        ThrowIfBarred();
        bool found = TryTake(timeout, cancellationToken, out payload, out length);
        // Not earlier: a damage handler may have let another thread read meanwhile.
        Reader.NoteSpan();
        return found;
    }

    /// <summary>
    /// True if a read would find a message. The message is not in hand afterwards: a Commit before the read must not include it.
    /// </summary>
    public bool IsMessageThere()
    {
        using LogReader.Call call = Reader.EnterLongCall();
        ThrowIfBarred();
        if (Reader.HasMessage)
            return true;
        bool found = TryLook(out _, out _) == ReadStatus.Message;
        Reader.PutBack();
        return found;
    }

    /// <summary>Like the other overload; copies the message while the mapping is held.</summary>
    public bool TryWait<T>(TimeSpan timeout, CancellationToken cancellationToken, out T message)
        where T : unmanaged
    {
        using LogReader.Call call = Reader.EnterLongCall();
        return TryTake(timeout, cancellationToken, out message);
    }

    /// <summary>
    /// Takes the messages that are there and moves past them, first past the one in hand; returns their count. If it throws, the
    /// messages that it took are read again by the next call.
    /// </summary>
    /// <param name="destination">Takes the messages.</param>
    /// <param name="waits">Waits for the first one.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public int TakeBatch<T>(Span<T> destination, bool waits, CancellationToken cancellationToken = default)
        where T : unmanaged
    {
        using LogReader.Call call = Reader.EnterLongCall();
        ThrowIfBarred();
        Reader.Advance();
        long first = Reader.Offset;
        // The slow path must take, not only look at, what the fast path leaves (a frame across the bound, a hole, a roll): the
        // fast path would leave it again.
        int count = TakeRun(destination);
        try
        {
            while (count < destination.Length && TryTake(
                waits && count == 0 ? Timeout.InfiniteTimeSpan : TimeSpan.Zero, cancellationToken, out destination[count]))
            {
                Reader.Advance();
                count++;
                count += TakeRun(destination[count..]);
            }
        }
        catch when (count > 0)
        {
            if (Reader.IsInOwnCall && !Reader.IsBarred)
                Reader.MoveTo(first);
            throw;
        }

        return count;
    }

    /// <summary>Moves back to a message that was read: a batch that could not be completed is read again.</summary>
    public void GoBackTo(long offset)
    {
        using LogReader.Call call = Reader.EnterCall();
        if (!Reader.IsBarred)
            Reader.MoveTo(offset);
    }

    /// <summary>Like TryWait, in a call that is already marked.</summary>
    private bool TryTake<T>(TimeSpan timeout, CancellationToken cancellationToken, out T message)
        where T : unmanaged
    {
        ThrowIfBarred();
        bool found = TryTake(timeout, cancellationToken, out byte* payload, out _);
        message = found ? Unsafe.ReadUnaligned<T>(payload) : default;
        return found;
    }

    /// <summary>
    /// Marks everything read so far as done, including the message in hand. A release store; the page is the file.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public void Commit()
    {
        LogReader reader = Reader;
        byte here;
        if (!reader.TryBegin(&here, out CallMark mark))
        {
            CommitRarely(&here);
            return;
        }

        long offset = reader.Advance();
        StoreCursor(offset);
        ProtocolSteps.Reach(ProtocolStep.CursorStored);
        // P16 acquire: retention dropped this consumer; pairs with P16 full in SegmentTrimmer.
        // P37 acquire: pairs with P37 full in ConsumerLimit.Announce, which sends everybody a barrier.
        if (offset < SharedWord.ReadAcquire(_logStart) || SharedWord.ReadAcquire(_producersMayWait) != 0)
            LookAndEnd(offset);
        else
            mark.End();
    }

    /// <summary>The same; a durable one also survives a power loss.</summary>
    public void Commit(bool durable)
    {
        Commit();
        if (durable)
            FlushCursor();
    }

    /// <summary>A durable commit that flushes on a pool thread.</summary>
    public ValueTask CommitAsync(CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled(cancellationToken);
        Commit();
        return new ValueTask(Task.Run(FlushCursor, CancellationToken.None));
    }

    /// <summary>Stores an offset at or before what was read; the reading position stays.</summary>
    public void Commit(long nextOffset)
    {
        using LogReader.Call call = Reader.EnterCall();
        ThrowIfBarred();
        if (nextOffset > Reader.NextOffset || nextOffset < 0)
            throw new OffsetOutOfRangeException($"Only messages that were read can be committed: offset={nextOffset}, "
                + $"read={Reader.NextOffset}, consumer={Name}, path={Store.Path}. Commit an offset that a read returned.");
        ThrowIfNoFrameStart(nextOffset);
        StoreCursorOrThrow(nextOffset);
    }

    /// <summary>Moves past the message in hand without committing.</summary>
    [SkipLocalsInit]
    public void Advance()
    {
        LogReader reader = Reader;
        byte here;
        if (!reader.TryBegin(&here, out _))
            BeginRarely(&here);
        reader.Advance();
        reader.EndCall();
    }

    /// <summary>Moves to an offset, verified as a frame's start or the tail, and stores it.</summary>
    public void Move(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        using LogReader.Call call = Reader.EnterCall();
        ThrowIfBarred();
        ThrowIfNoFrameStart(offset);
        StoreCursorOrThrow(offset);
        Reader.MoveTo(offset);
    }

    /// <summary>Throws while a message that was read is neither committed nor passed.</summary>
    public void ThrowIfInHand()
    {
        if (Reader.HasMessage)
            throw new InvalidOperationException($"The message in hand is not committed: offset={Reader.Offset}, "
                + $"consumer=\"{Name}\", path={Store.Path}. Commit it before you adjust the offset.");
    }

    /// <summary>Moves back to the stored offset.</summary>
    public void Rewind()
    {
        using LogReader.Call call = Reader.EnterCall();
        ThrowIfBarred();
        Reader.MoveTo(CommittedOffset);
    }

    /// <summary>
    /// Completes with true when a read would find a message, or something to throw; with false when the time is up.
    /// </summary>
    public ValueTask<bool> WaitAsync(TimeSpan timeout, CancellationToken cancellationToken) =>
        ReusedWait<bool>.Start(ref _untilSomething, timeout, cancellationToken);

    /// <summary>Completes when there is a message.</summary>
    public ValueTask<bool> WaitForMessageAsync(CancellationToken cancellationToken) => !Reader.IsBarred && IsMessageThere()
        ? new ValueTask<bool>(true)
        : ReusedWait<bool>.Start(ref _untilThere, Timeout.InfiniteTimeSpan, cancellationToken);

    /// <summary>The same for a call that takes something afterwards.</summary>
    public void BeginWait(IReadWait call, TimeSpan timeout, CancellationToken cancellationToken) =>
        _asyncWaits.Begin(_asyncWait, call, timeout, cancellationToken);

    /// <summary>
    /// Makes the stored offset survive a power loss. Any thread; Dispose waits for it. After an error the stored offset is still
    /// valid and survives the death of processes, and the next commit writes the page again.
    /// </summary>
    public void FlushCursor()
    {
        lock (_disposing)
        {
            PublicNames.ThrowIfDisposed(_disposed, PublicNames.Consumer);
            try
            {
                _cursorFile.Flush();
            }
            finally
            {
                // A file of a store that is gone can be flushed, and nobody finds it. Its folder's names cannot.
                Store.ThrowIfReplaced();
            }
        }
    }

    private void ThrowIfBarred() => Reader.ThrowIfBarred(PublicNames.Consumer);

    /// <summary>
    /// Ends waiting calls, waits for the call under way, and releases the name last. If this thread holds a span, the span ends
    /// here; otherwise its mapping stays until the next call of the thread that holds it.
    /// </summary>
    public void Dispose()
    {
        // A second caller, for example the queue's own end, returns only after the first: afterwards the store is unmapped.
        lock (_disposing)
        {
            if (_disposed)
            {
                // It may be the thread that held the span, which the end on another thread has left to it.
                Reader.ReleaseOrphan();
                return;
            }

            _disposed = true;
            try
            {
                Uninterrupted.Run(Close);
            }
            finally
            {
                _ended.SetResult();
            }
        }
    }

    private void Close()
    {
        Reader.Close(_signal.Interrupt);
        lock (_interrupting)
            _isInterruptible = false;
        _asyncWaits.Forget(Reader);
        Reader.ReleaseOrphan();
        lock (_reading)
            _committedAtEnd = StoredOffset;
        _cursorFile.Dispose();
    }

    /// <summary>Takes the available messages that need nothing rare.</summary>
    private int TakeRun<T>(Span<T> destination)
        where T : unmanaged
    {
        int count = 0;
        foreach (ref T message in destination)
        {
            ref byte place = ref Unsafe.As<T, byte>(ref message);
            if (!Reader.TryCopyFixed(ref place, Unsafe.SizeOf<T>()) && !Reader.TryCopyExtended(ref place, Unsafe.SizeOf<T>()))
                break;
            Reader.Advance();
            count++;
        }

        return count;
    }

    /// <summary>
    /// Called by a token. If a wait's damage handler (called by <see cref="LogReader.TryRead"/>) disposes the queue, the wait is
    /// still registered when the signal's page is gone.
    /// </summary>
    private void InterruptByToken()
    {
        lock (_interrupting)
        {
            if (_isInterruptible)
                _signal.Interrupt();
        }
    }

    private void ThrowIfNoFrameStart(long offset)
    {
        if (!_retention.IsRemoved(offset) && offset % FrameHeader.Size == 0
            && (offset == Reader.Offset || offset == Reader.NextOffset
                || FrameStarts.Contains(Store, _retention, Policy, offset)))
            return;
        if (offset >= 0 && offset < Store.LogStart)
            throw Removed(offset);
        throw LogErrors.NoFrame(Store, offset, $"consumer={Name}, ");
    }

    /// <summary>
    /// Stores an offset that may be below the one before: a removal of segments may not have seen it yet. That raises the log
    /// start, then reads the cursors again; this stores the cursor, then reads the log start. So one of the two sees the other.
    /// False when the offset is removed, or may be.
    /// </summary>
    private bool TryStoreCursor(long offset)
    {
        StoreCursor(offset);
        Interlocked.MemoryBarrier(); // P16 full: the cursor before the log start; pairs with P16 full in SegmentTrimmer.
        Store.CapacityWake.WakeIfAwaited();
        return offset >= Store.LogStart;
    }

    private void StoreCursorOrThrow(long offset)
    {
        long before = StoredOffset;
        if (TryStoreCursor(offset) || !_retention.IsRemoved(offset))
            return;
        // It was removed since it was looked at: a cursor that stays there could not be opened again.
        StoreCursor(before);
        throw Removed(offset);
    }

    private OffsetOutOfRangeException Removed(long offset) => new(
        $"The messages at this offset were removed: offset={offset}, logStart={Store.LogStart}, consumer=\"{Name}\", "
        + $"path={Store.Path}. Move with a seek, or open with OnOutOfRange.");

    private long FindAfterGap(OutOfRangePolicy policy) => policy == OutOfRangePolicy.Latest
        ? FrameStarts.FindEnd(Store, _retention, Policy, Store.ConfirmedOffset)
        : Store.LogStart;

    /// <summary>
    /// A commit before the log: the consumer was dropped. One that skips what was removed does so at its next read. And producers
    /// may wait for the cursor that was just stored.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void LookAndEnd(long offset)
    {
        try
        {
            if (!Reader.SkipsGaps && _retention.IsRemoved(offset))
                throw Removed(offset);
            Interlocked.MemoryBarrier(); // P37 full: the cursor before the flag; pairs with P37 full in ConsumerLimit.
            Store.CapacityWake.WakeIfAwaited();
        }
        finally
        {
            Reader.EndCall();
        }
    }

    /// <summary>A commit by a thread that was not the last caller, or one that is refused.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void CommitRarely(byte* stack)
    {
        BeginRarely(stack);
        long offset = Reader.Advance();
        StoreCursor(offset);
        ProtocolSteps.Reach(ProtocolStep.CursorStored);
        LookAndEnd(offset);
    }

    private void StoreCursor(long offset)
    {
        // P15 release: the messages before it were read; pairs with P15 acquire in CursorFile.
        SharedWord.WriteRelease(_cursor, CursorWord.From(offset));
    }

    /// <summary>Marks a call that takes the reader over from another thread, or is refused.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void BeginRarely(byte* stack)
    {
        Reader.TakeOver(stack);
        if (!Reader.IsBarred)
            return;
        Exception error = Reader.Barred(PublicNames.Consumer);
        Reader.EndCall();
        throw error;
    }
}
