using System.Diagnostics;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// Flushes in the background, on a thread of its own: checkpoints after completed segments, at most once a second; the flushes of
/// the level Interval; the asynchronous calls.
/// <para>It ticks twice per interval. When a whole interval has passed and everything is on disk, it sleeps without a timer, as a
/// waiter of <see cref="WakeSignal"/>, and the next publish of any process wakes it. It flushes one interval after its own last
/// flush, or half an interval after it saw another process's flush. So several attached processes share the work, and no message
/// waits longer than the interval. A consumer's queue ticks too, because the writer may be dead. When nothing is unflushed,
/// nothing is synced.</para>
/// <para>This thread owes nothing to a particular caller, so it throws no errors. A failed sync poisons the queue, and every
/// caller learns of that. Any other error is kept (<see cref="FlushFailure"/>), and appends throw it once the interval's promise
/// is broken. </para>
/// </summary>
internal sealed class FlushThread : IDisposable
{
    private static readonly TimeSpan TickMin = TimeSpan.FromMilliseconds(1);
    private static readonly TimeSpan TickMax = TimeSpan.FromDays(1);

    /// <summary>So many flushes in a row must meet the same claim before that is told: two intervals.</summary>
    private const int HeldUpMax = 3;

    /// <summary>How long it sleeps while it waits for a publish: a process that only polls may attach meanwhile.</summary>
    private static readonly TimeSpan IdleSleepMax = TimeSpan.FromMinutes(1);

    private readonly LogStore _store;
    private readonly LogFlusher _flusher;
    private readonly Lock _lock = new();
    private readonly AutoResetEvent _noticed = new(false);
    private readonly TimeSpan _halfInterval;
    private readonly WriteBehind _writeBehind;
    private Thread? _thread;
    private volatile bool _stopping;
    private volatile bool _ticks;
    private volatile bool _rolled;
    private long _lastTick;
    private long _lastRoll;
    private int _ticksLeft;
    private bool _isIdle = true;
    private bool _waitsForPublish;
    private int _notices;
    private long _heldUpAt = -1;
    private int _heldUp;
    private long _seenConfirmed;
    private long _seenLimit;
    private long _seenCompleted;

    public FlushThread(LogStore store, LogFlusher flusher)
    {
        _store = store;
        _flusher = flusher;
        Pending = new PendingFlushes(store, flusher);
        _writeBehind = new WriteBehind(store);
        TimeSpan half = store.Settings.FlushInterval / 2;
        _halfInterval = half < TickMin ? TickMin : half > TickMax ? TickMax : half;
    }

    /// <summary>The asynchronous calls that wait.</summary>
    public PendingFlushes Pending { get; }

    /// <summary>Begins to write completed segments to disk before they are flushed.</summary>
    public WriteBehind WriteBehind => _writeBehind;

    /// <summary>True if everything is flushed within the interval, because the level says so or a message asked for it.</summary>
    public bool Ticks => _ticks;

    /// <summary>From now on everything is flushed within the interval.</summary>
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
            _flusher.Failure.Note(error, isAttempt: false);
        }
    }

    /// <summary>Notes that there is something to do.</summary>
    public void Notice()
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
    public void EnsureStarted()
    {
        if (_thread is null && ProtocolSteps.Background is null)
            Start();
    }

    /// <summary>Ends the thread, after the work under way.</summary>
    public void Dispose()
    {
        Thread? thread;
        lock (_lock)
        {
            _stopping = true;
            thread = _thread;
        }

        if (thread is not null)
            Notice();
        thread?.Join();
        _noticed.Dispose();
    }

    private TimeSpan Tick => _isIdle ? _halfInterval * 2 : _halfInterval;

    private void Start()
    {
        lock (_lock)
        {
            if (_thread is not null || _stopping)
                return;
            _lastTick = Stopwatch.GetTimestamp();
            _thread = BackgroundThread.Start(Run, "flusher");
        }
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
    /// there is something to do already, and when this thread has to look by itself because a publisher cannot be fenced, or
    /// polls, and wakes no waiter.
    /// </summary>
    private bool TrySleepUntilPublish(int notices)
    {
        if (!_isIdle || !_ticks || _rolled || Pending.IsAnyThere || _store.HasPollers || _store.Wake.IsPoisoned
            || !_flusher.IsCheckpointed)
            return false;
        if (_store.Wake.Prepare(out ulong sequence) < WakeSignal.SleepMax)
            return false;
        Interlocked.Exchange(ref _waitsForPublish, true); // P36 full: before the look; pairs with P36 full in Notice.
        try
        {
            // P36 acquire: after the mark; pairs with P36 full in Notice.
            if (Volatile.Read(ref _notices) != notices || _stopping)
                return false;
            // This includes what lies after an open claim: its owner may die, and nothing would tell.
            if (_flusher.FindPublishedEnd() > _store.ConfirmedOffset)
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
            Pending.Serve();
            ServeRoll();
            ServeTick();
        }
        catch (QueueDeletedException error)
        {
            // Every read and flush meets this error, but an append meets it only when it enters a segment. There is nothing left
            // to flush.
            if (_ticks)
                _flusher.Failure.NoteEnd(error);
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
        (_lastTick, _lastRoll, _ticksLeft, _isIdle) = (0, 0, 0, true);
        Serve();
        if (_ticks)
            Notice();
    }

    private TimeSpan TimeToWait()
    {
        if (Pending.IsAnyThere)
            return TimeSpan.Zero;
        TimeSpan wait = Timeout.InfiniteTimeSpan;
        if (_rolled)
            wait = Left(_lastRoll, FlushRound.CheckpointInterval);
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
        _writeBehind.Start();
        if (Left(_lastRoll, FlushRound.CheckpointInterval) > TimeSpan.Zero)
            return;
        _rolled = false;
        _lastRoll = Stopwatch.GetTimestamp();
        if (WasRemoved())
        {
            // What was completed since may stay.
            _rolled = true;
            return;
        }

        try
        {
            _flusher.FlushCompletedSegments();
            if (!_ticks)
                _flusher.Failure.Clear();
        }
        catch (MappedFileQueueException error) when (error is not (QueueDeletedException or QueuePoisonedException))
        {
            _flusher.Failure.Note(error, isAttempt: false);
        }
    }

    private void ServeTick()
    {
        if (!_ticks || Left(_lastTick, Tick) > TimeSpan.Zero)
            return;
        _lastTick = Stopwatch.GetTimestamp();
        bool isRecent = !_isIdle && IsRecent();
        _seenLimit = new FrameWalk(_store).NowLimit;
        _isIdle = false;
        if (isRecent)
        {
            _flusher.Failure.Clear();
            _ticksLeft = 1;
        }
        else if (--_ticksLeft <= 0)
        {
            BackgroundFlush flush = TryFlush();
            _ticksLeft = flush == BackgroundFlush.Done ? 2 : 1;
            _isIdle = flush == BackgroundFlush.Nothing;
        }

        long confirmed = _store.ConfirmedOffset;
        if (confirmed != _seenConfirmed)
            _store.Producers.TakeBoundsBelow(confirmed);
        _seenConfirmed = confirmed;
        _flusher.CheckpointIfDue();
    }

    private bool IsRecent() => IsRecent(
        _store.ConfirmedOffset, _seenConfirmed, _seenLimit, _store.LowWater, _store.Meta.SegmentLength);

    /// <summary>
    /// After half an interval another process's flush is recent enough; after a whole interval it may be too old. Retention
    /// raises the confirmed offset too, to low water, and flushes nothing. But when it has removed all that was published
    /// before the last tick, the next tick is early enough for the rest: where messages live for less than half an interval,
    /// none is flushed only to be thrown away.
    /// <para>A checkpoint's flush is none either, unless it covers all of that: it ends where the tail's segment begins, and may
    /// come a second after the roll, so what is in that segment may be older than the flush. A flush of everything that ends
    /// there by chance is taken for one, and costs one more.</para>
    /// </summary>
    /// <param name="confirmed">The confirmed offset.</param>
    /// <param name="seenConfirmed">The same at the last tick.</param>
    /// <param name="seenLimit">No frame that was published at the last tick begins at or above it.</param>
    /// <param name="lowWater">Low water.</param>
    /// <param name="segmentLength">Of the store.</param>
    internal static bool IsRecent(long confirmed, long seenConfirmed, long seenLimit, long lowWater, long segmentLength) =>
        confirmed >= seenLimit
        || (confirmed != seenConfirmed && confirmed > lowWater && confirmed % segmentLength != 0);

    /// <summary>Whether retention has removed all segments that were complete when this was last asked.</summary>
    private unsafe bool WasRemoved()
    {
        long completed = _seenCompleted;
        // P14 acquire: pairs with P14 full in SegmentRoller.
        _seenCompleted = _store.Window.StartOf(SharedWord.ReadAcquire(_store.Control.TailHint));
        return _store.KeepsLittle && _store.LowWater >= completed;
    }

    /// <summary>The interval's flush.</summary>
    private BackgroundFlush TryFlush()
    {
        try
        {
            BackgroundFlush flush = _flusher.TryFlush();
            if (flush != BackgroundFlush.Elsewhere && !TellsOfClaim())
                _flusher.Failure.Clear();
            return flush;
        }
        catch (MappedFileQueueException error) when (error is not (QueueDeletedException or QueuePoisonedException))
        {
            _flusher.Failure.Note(error, isAttempt: true);
            throw;
        }
    }

    /// <summary>
    /// At a claim that stands for two intervals with messages after it the interval's promise is broken, and nothing has failed:
    /// its owner may publish it at any moment. So it is told as a failing flush, and appends go on.
    /// </summary>
    private bool TellsOfClaim()
    {
        long confirmed = _store.ConfirmedOffset;
        MappedFileQueueException? claim = _flusher.FindClaimInTheWay();
        _heldUp = claim is null ? 0 : confirmed == _heldUpAt ? _heldUp + 1 : 1;
        _heldUpAt = confirmed;
        if (_heldUp < HeldUpMax || _flusher.FindPublishedEnd() <= confirmed)
            return false;
        _flusher.Failure.Note(claim!, isAttempt: false);
        return true;
    }

    private static TimeSpan Left(long since, TimeSpan whole)
    {
        TimeSpan left = whole - Stopwatch.GetElapsedTime(since);
        return left > TimeSpan.Zero ? left : TimeSpan.Zero;
    }
}
