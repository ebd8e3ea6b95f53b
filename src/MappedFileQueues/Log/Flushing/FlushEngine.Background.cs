using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

// The queue's own thread: checkpoints after completed segments, at most once a second; the flushes of the level Interval; the
// asynchronous calls.
//
// It ticks twice per interval. When a whole interval has passed and everything is on disk, it sleeps without a timer, as a waiter
// of WakeSignal, and the next publish of any process wakes it. It flushes one interval after its own last flush, or half an
// interval after it saw another process's flush. So several attached processes share the work, and no message waits longer than
// the interval. A consumer's queue ticks too, because the writer may be dead. When nothing is unflushed, nothing is synced.
//
// This thread owes nothing to a particular caller, so it throws no errors. A failed sync poisons the queue, and every caller
// learns of that. Any other error is kept (FlushFailure), and appends throw it once the interval's promise is broken.
internal sealed unsafe partial class FlushEngine
{
    /// <summary>This many bytes of completed segments, at least one segment, are left unwritten.</summary>
    public const long UnwrittenMax = 64L * 1024 * 1024;

    private static readonly TimeSpan TickMin = TimeSpan.FromMilliseconds(1);
    private static readonly TimeSpan TickMax = TimeSpan.FromDays(1);

    /// <summary>So many flushes in a row must meet the same claim before that is told: two intervals.</summary>
    private const int HeldUpMax = 3;

    /// <summary>How long it sleeps while it waits for a publish: a process that only polls may attach meanwhile.</summary>
    private static readonly TimeSpan IdleSleepMax = TimeSpan.FromMinutes(1);

    /// <summary>How often the index is brought up to the durable offset, at most.</summary>
    private static readonly TimeSpan IndexInterval = TimeSpan.FromSeconds(1);

    /// <summary>How long the end of a queue waits for another process's flush.</summary>
    private static readonly TimeSpan EndWaitMax = TimeSpan.FromSeconds(1);

    private readonly Lock _threadLock = new();
    private readonly AutoResetEvent _noticed = new(false);
    private readonly TimeSpan _halfInterval =
        TimeSpan.FromTicks(Math.Clamp(store.Settings.FlushInterval.Ticks / 2, TickMin.Ticks, TickMax.Ticks));
    private Thread? _thread;
    private volatile bool _stopping;
    private volatile bool _ticks;
    private volatile bool _rolled;
    private long _lastTick;
    private long _lastRoll;
    private long _lastIndex;
    private int _ticksLeft;
    private bool _isIdle = true;
    private bool _waitsForPublish;
    private int _notices;
    private long _heldUpAt = -1;
    private int _heldUp;
    private long _seenConfirmed;
    private long _seenLimit;
    private long _seenCompleted;

    /// <summary>The end of what the system has been asked to write.</summary>
    private long _writtenBackTo;

    /// <summary>The result of a flush for which no caller waits.</summary>
    private enum BackgroundFlush
    {
        /// <summary>There was nothing that could be flushed.</summary>
        Nothing,

        /// <summary>Another thread or process is flushing right now.</summary>
        Elsewhere,

        /// <summary>It has flushed.</summary>
        Done,
    }

    /// <summary>From now on everything is flushed within the interval: the level says so, or a message asked for it.</summary>
    /// <exception cref="MappedFileQueueException">The system gives no thread: nothing is promised.</exception>
    public void StartTicking()
    {
        if (_ticks)
            return;
        EnsureStarted();
        _ticks = true;
        Notice();
    }

    /// <summary>
    /// Notes that a segment was completed. Never waits and never fails: without a thread the next roll tries again, and until
    /// then the next opener has more to walk over.
    /// </summary>
    public void NoticeRoll()
    {
        _rolled = true;
        try
        {
            Notice();
        }
        catch (MappedFileQueueException error)
        {
            Failure.Note(error, isAttempt: false);
        }
    }

    /// <summary>
    /// After half an interval another process's flush is recent enough; after a whole interval it may be too old. Retention
    /// raises the durable offset too, to the log start, and flushes nothing. But when it has removed all that was published
    /// before the last tick, the next tick is early enough for the rest: where messages live for less than half an interval,
    /// none is flushed only to be thrown away.
    /// <para>A checkpoint's flush is none either, unless it covers all of that: it ends where the tail's segment begins, and may
    /// come a second after the roll, so what is in that segment may be older than the flush. A flush of everything that ends
    /// there by chance is taken for one, and costs one more.</para>
    /// </summary>
    /// <param name="confirmed">The durable offset.</param>
    /// <param name="seenConfirmed">The same at the last tick.</param>
    /// <param name="seenLimit">No frame that was published at the last tick begins at or above it.</param>
    /// <param name="logStart">The log start.</param>
    /// <param name="segmentLength">Of the store.</param>
    internal static bool IsRecent(long confirmed, long seenConfirmed, long seenLimit, long logStart, long segmentLength) =>
        confirmed >= seenLimit
        || (confirmed != seenConfirmed && confirmed > logStart && confirmed % segmentLength != 0);

    private TimeSpan Tick => _isIdle ? _halfInterval * 2 : _halfInterval;

    private bool IsTickDue => _ticks && Left(_lastTick, Tick) <= TimeSpan.Zero;

    /// <summary>Notes that there is something to do.</summary>
    private void Notice()
    {
        if (ProtocolSteps.Background is { } background)
        {
            background(ServeAtOnce);
            return;
        }

        EnsureStarted();
        // First the count, then the look: either the thread sees the count before it sleeps, or this thread sees that it may
        // sleep.
        Interlocked.Increment(ref _notices); // P36 full: pairs with P36 full in TrySleepUntilPublish.
        _noticed.Set();
        if (Volatile.Read(ref _waitsForPublish)) // P36 acquire: after the count; pairs with P36 full in TrySleepUntilPublish.
            _store.Wake.Interrupt();
    }

    /// <summary>Call it before promising anything that only the thread can keep.</summary>
    private void EnsureStarted()
    {
        if (_thread is not null || ProtocolSteps.Background is not null)
            return;
        lock (_threadLock)
        {
            if (_thread is not null || _stopping)
                return;
            _lastTick = Stopwatch.GetTimestamp();
            _thread = BackgroundThread.Start(Run, "flusher");
        }
    }

    private void EndThread()
    {
        Thread? thread;
        lock (_threadLock)
        {
            _stopping = true;
            thread = _thread;
        }

        if (thread is not null)
            Notice();
        thread?.Join();
        _noticed.Dispose();
    }

    private void Run()
    {
        while (!_stopping)
        {
            int notices = Volatile.Read(ref _notices); // P36 acquire: before the work; pairs with P36 full in Notice.
            Serve();
            if (!TrySleepUntilPublish(notices))
                _noticed.WaitOne(TimeToWait());
        }
    }

    /// <summary>
    /// Sleeps until a message is published, or until <see cref="Notice"/> says that there is something else to do. False when
    /// there is something to do already, and when this thread has to look by itself because no barrier reaches a publisher, or
    /// polls, and wakes no waiter.
    /// </summary>
    private bool TrySleepUntilPublish(int notices)
    {
        if (!_isIdle || !_ticks || _rolled || IsAnyPending || _store.HasPollers || _store.Wake.IsPoisoned || !IsCheckpointed
            || !IsIndexComplete)
            return false;
        if (_store.Wake.Prepare(out ulong sequence) < WakeSignal.SleepMax)
            return false;
        Interlocked.Exchange(ref _waitsForPublish, true); // P36 full: before the look; pairs with P36 full in Notice.
        try
        {
            // P36 acquire: after the mark; pairs with P36 full in Notice.
            if (Volatile.Read(ref _notices) != notices || _stopping)
                return false;
            // This includes what is after an open claim: its owner may die, and nothing would tell.
            if (FindPublishedEnd() > _store.ConfirmedOffset)
                return false;
            _store.Wake.Sleep(sequence, IdleSleepMax);
        }
        catch (MappedFileQueueException)
        {
            // The next tick meets the error and handles it.
            return false;
        }
        finally
        {
            Volatile.Write(ref _waitsForPublish, false); // P36 relaxed: a needless interrupt at most.
        }

        // The interval begins with the publish that woke this thread.
        _lastTick = Stopwatch.GetTimestamp();
        return true;
    }

    private void Serve()
    {
        try
        {
            ServePending();
            // Before the roll, which writes nothing back while a tick is due.
            ServeTick();
            ServeRoll();
            if (Left(_lastIndex, IndexInterval) <= TimeSpan.Zero)
                KeepIndex(isLast: false);
        }
        catch (QueueDeletedException error)
        {
            // Every read and flush meets this error, but an append meets it only when it enters a segment. There is nothing left
            // to flush.
            if (_ticks)
                Failure.NoteEnd(error);
            _ticks = false;
        }
        catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
        {
            // Poisoned: callers meet it. Any other error was noted where it was met. Or the queue is closing.
        }
    }

    /// <summary>For a test that runs the background itself: every interval has passed, and the next one begins.</summary>
    private void ServeAtOnce()
    {
        if (_stopping)
            return;
        (_lastTick, _lastRoll, _lastIndex, _ticksLeft, _isIdle) = (0, 0, 0, 0, true);
        Serve();
        if (_ticks)
            Notice();
    }

    private TimeSpan TimeToWait()
    {
        if (IsAnyPending)
            return TimeSpan.Zero;
        TimeSpan wait = Timeout.InfiniteTimeSpan;
        if (_rolled)
            wait = Left(_lastRoll, CheckpointInterval);
        if (_ticks && !_store.Wake.IsPoisoned)
        {
            TimeSpan tick = Left(_lastTick, Tick);
            wait = wait < TimeSpan.Zero || tick < wait ? tick : wait;
        }

        // The event counts whole milliseconds; if this rounded down, the rest would be spent spinning.
        return wait < TimeSpan.Zero ? wait : TimeSpan.FromMilliseconds(Math.Ceiling(wait.TotalMilliseconds));
    }

    private void ServeRoll()
    {
        if (!_rolled)
            return;
        bool isWrittenBack = TryWriteBack();
        if (Left(_lastRoll, CheckpointInterval) > TimeSpan.Zero)
            return;
        _rolled = !isWrittenBack;
        _lastRoll = Stopwatch.GetTimestamp();
        if (WasRemoved())
        {
            // What was completed since may stay.
            _rolled = true;
            return;
        }

        try
        {
            long confirmed = _store.ConfirmedOffset;
            FlushCompletedSegments();
            // Where it has flushed nothing, because of an open claim or another leader, what others tell stays.
            if (!_ticks)
                Failure.Clear(onlyOwn: _store.ConfirmedOffset == confirmed);
        }
        catch (MappedFileQueueException error) when (error is not (QueueDeletedException or QueuePoisonedException))
        {
            Failure.Note(error, isAttempt: false);
        }
    }

    /// <summary>Whether retention has removed all segments that were complete when this was last asked.</summary>
    private bool WasRemoved()
    {
        long completed = _seenCompleted;
        _seenCompleted = FindCompletedEnd();
        return _store.KeepsLittle && _store.LogStart >= completed;
    }

    /// <summary>
    /// Makes the system write completed segments to disk as soon as there are enough of them, instead of at the next flush.
    /// Otherwise a producer that appends gigabytes a second would fill memory with unwritten pages up to the system's limit, at
    /// which every writing process has to wait. Nothing is promised; flushes follow as usual, and come first: false when one is
    /// due, and another process may keep it from flushing.
    /// </summary>
    private bool TryWriteBack()
    {
        long goal = FindCompletedEnd();
        long from = Math.Max(_writtenBackTo, _store.Window.StartOf(_store.ConfirmedOffset));
        if (goal - from < UnwrittenMax || _store.KeepsLittle)
            return true;
        _store.Producers.Preparer?.ReleaseBelow(goal);
        try
        {
            while (from < goal && Continues())
            {
                _store.Window.WriteBack(from, Continues);
                // Otherwise it is begun again: what is clean costs nothing.
                if (Continues())
                    from += _store.Window.SegmentLength;
            }
        }
        catch (QueueDiskException)
        {
            // For example, no descriptor is left. A flush meets the same error where it counts; after lost data, callers meet
            // the poison.
            from = goal;
        }

        _writtenBackTo = from;
        return from >= goal;

        bool Continues() => !_stopping && !IsAnyPending && !IsTickDue;
    }

    private void ServeTick()
    {
        if (!IsTickDue)
            return;
        _lastTick = Stopwatch.GetTimestamp();
        bool isRecent = !_isIdle
            && IsRecent(_store.ConfirmedOffset, _seenConfirmed, _seenLimit, _store.LogStart, _store.Meta.SegmentLength);
        _seenLimit = new FrameWalk(_store).NowLimit;
        _isIdle = false;
        if (isRecent)
        {
            Failure.Clear(onlyOwn: true);
            _ticksLeft = 1;
        }
        else if (--_ticksLeft <= 0)
        {
            BackgroundFlush flush = FlushInterval();
            _ticksLeft = flush == BackgroundFlush.Done ? 2 : 1;
            _isIdle = flush == BackgroundFlush.Nothing;
        }

        long confirmed = _store.ConfirmedOffset;
        if (confirmed != _seenConfirmed)
            _store.Producers.TakeBoundsBelow(confirmed);
        _seenConfirmed = confirmed;
        // Calls that wait for their own flush leave the checkpoint to this thread.
        if (IsCheckpointDue)
            CheckpointDurable();
    }

    private bool IsIndexComplete => _index.CompleteTo == _store.ConfirmedOffset;

    /// <summary>Brings the index up to the durable offset, in pieces, unless another thread or process flushes.</summary>
    private void KeepIndex(bool isLast)
    {
        _lastIndex = Stopwatch.GetTimestamp();
        bool isMore = !IsIndexComplete && !_store.Wake.IsPoisoned && _store.CorruptAt < 0;
        while (isMore && TryTakeBoth())
        {
            try
            {
                isMore = _index.CatchUp(isLast) && !isLast && !_stopping;
            }
            finally
            {
                ReleaseBoth();
            }
        }
    }

    /// <summary>The interval's flush.</summary>
    private BackgroundFlush FlushInterval()
    {
        try
        {
            BackgroundFlush flush = TryFlush();
            if (flush != BackgroundFlush.Elsewhere)
                NoteOutcome();
            return flush;
        }
        catch (MappedFileQueueException error) when (error is not (QueueDeletedException or QueuePoisonedException))
        {
            Failure.Note(error, isAttempt: true);
            throw;
        }
    }

    /// <summary>
    /// Flushes what is published and contiguous, if there is anything and no other thread or process is flushing. Never waits for
    /// a claim.
    /// </summary>
    private BackgroundFlush TryFlush()
    {
        if (_store.CorruptAt >= 0 || !IsAnythingUnflushed())
            return BackgroundFlush.Nothing;
        return TryLeadOneRound(limit: null, IsCheckpointDue) ? BackgroundFlush.Done : BackgroundFlush.Elsewhere;
    }

    /// <summary>
    /// The last flush of a queue whose calls have all ended. What cannot be flushed now is left to the other processes.
    /// </summary>
    private void FlushAtEnd()
    {
        long began = Stopwatch.GetTimestamp();
        BackgroundFlush flush;
        while ((flush = TryFlush()) == BackgroundFlush.Elsewhere && Stopwatch.GetElapsedTime(began) < EndWaitMax)
        {
            _store.FlushWake.Prepare(out ulong sequence);
            if (IsAnythingUnflushed())
                _store.FlushWake.Sleep(sequence, LeasePauseFirst);
        }

        if (flush == BackgroundFlush.Done)
            Failure.Clear(onlyOwn: true);
    }

    /// <summary>
    /// A flush did not fail. But at a claim that is there for two intervals with messages after it the interval's promise is
    /// broken: its owner may publish it at any moment. So it is told as a failing flush, and appends continue. What another
    /// process tells meanwhile stays: at the same claim it may have looked for longer.
    /// </summary>
    private void NoteOutcome()
    {
        long confirmed = _store.ConfirmedOffset;
        MappedFileQueueException? claim = FindClaimInTheWay(confirmed);
        _heldUp = claim is null ? 0 : confirmed == _heldUpAt ? _heldUp + 1 : 1;
        _heldUpAt = confirmed;
        Failure.EndAttempts();
        bool isHeldUp = claim is not null && FindPublishedEnd() > confirmed;
        if (isHeldUp && _heldUp >= HeldUpMax)
            Failure.Note(claim!, isAttempt: false);
        else if (!isHeldUp || _heldUp == 1)
            Failure.Clear(onlyOwn: claim is not null);
    }

    /// <summary>Why the next flush ends before it begins: a living producer's claim is there; null otherwise.</summary>
    private MappedFileQueueException? FindClaimInTheWay(long confirmed)
    {
        var walk = new FrameWalk(_store);
        _ = walk.FindContiguousEnd(confirmed, confirmed + 1);
        if (walk.ClaimInTheWay == 0)
            return null;
        int slot = SlotLayout.Slot(FrameHeader.HighHalf(walk.ClaimInTheWay));
        return new MappedFileQueueException("A message that was begun and is not finished is in the way of all flushes, and what "
            + $"was appended after it is not on disk: offset={confirmed}, slot={slot}, "
            + $"processes={string.Join(',', _store.Directory.LockHolders(StoreNames.SlotLock(slot))[0])}, path={_store.Path}. "
            + "Let its process continue, or end it.");
    }

    private static TimeSpan Left(long since, TimeSpan whole)
    {
        TimeSpan left = whole - Stopwatch.GetElapsedTime(since);
        return left > TimeSpan.Zero ? left : TimeSpan.Zero;
    }
}
