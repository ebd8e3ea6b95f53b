using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// One call of a producer that waits for consumers. It is no call on a lane and holds no claim: the caller tries its append
/// after each <see cref="Next"/>, which is the waiter's second look. The queue's gate is held only within it, because an append
/// may run a user's code, and that may dispose the queue.
/// </summary>
internal sealed class CapacityWait : IDisposable
{
    /// <summary>As much room as a spinning producer waits for: it appends thousands of messages before it looks again.</summary>
    private const long SpinForMax = 64 * 1024;

    /// <summary>A producer that spins without end tries its append again after this time.</summary>
    private static readonly TimeSpan SpinOnce = TimeSpan.FromMicroseconds(50);

    /// <summary>The longest sleep while a claim is after the slowest consumer: its owner may be dead.</summary>
    private static readonly TimeSpan ClaimSleepMax = TimeSpan.FromMilliseconds(2);

    private readonly LogStore _store;
    private readonly ConsumerLimit _limit;
    private readonly CallGate _gate;
    private readonly CallDeadline _deadline;
    private readonly CancellationTokenRegistration _registration;
    private readonly bool _spinsAlways;
    private bool _hasTried;
    private bool _hasSpun;
    private bool _mayBeWoken;
    private TimeSpan _sleepMax;
    private ulong _sequence;
    private int _sleeps;
    private long _lookedAt = Stopwatch.GetTimestamp();

    /// <param name="store">The store.</param>
    /// <param name="limit">What the producer waits for.</param>
    /// <param name="gate">Keeps the store mapped.</param>
    /// <param name="deadline">How long the call may take.</param>
    /// <exception cref="InvalidOperationException">This thread has an open claim: no consumer comes past it.</exception>
    public CapacityWait(LogStore store, ConsumerLimit limit, CallGate gate, CallDeadline deadline)
    {
        (_store, _limit, _gate, _deadline) = (store, limit, gate, deadline);
        _spinsAlways = store.Settings.SpinDuration == Timeout.InfiniteTimeSpan;
        store.Producers.ThrowIfOwnClaimIsOpen();
        _registration =
            deadline.CancellationToken.UnsafeRegister(static wait => ((CapacityWait)wait!).Interrupt(), this);
    }

    /// <summary>Comes before each attempt; after one that found no room it sleeps first.</summary>
    /// <exception cref="TimeoutException">The time is up.</exception>
    /// <exception cref="OperationCanceledException">Cancelled.</exception>
    public void Next()
    {
        if (_hasTried)
            Sleep();
        _hasTried = true;
        Prepare();
    }

    public void Dispose() => _registration.Dispose();

    /// <summary>Spins at first; then the waiter's steps 1 to 3.</summary>
    private void Prepare()
    {
        using CallGate.Call call = _gate.Begin();
        _store.ThrowIfClosing();
        // A spin ends with an append without the flag: most waits end there, and no consumer pays for a wake.
        _mayBeWoken = !_spinsAlways && (_hasSpun || _store.Settings.SpinDuration == TimeSpan.Zero);
        _hasSpun = true;
        if (_mayBeWoken)
            _sleepMax = _limit.Prepare(out _sequence, _sleeps);
        else
            Spin(_spinsAlways ? SpinOnce : _store.Settings.SpinDuration);
    }

    /// <summary>Waiter's step 5, after an append that found no room.</summary>
    private void Sleep()
    {
        using CallGate.Call call = _gate.Begin();
        _store.ThrowIfClosing();
        if (_deadline.CancellationToken.IsCancellationRequested)
            throw new OperationCanceledException($"Cancelled while waiting for consumers; nothing was appended: {Describe()}.",
                _deadline.CancellationToken);
        if (_deadline.IsOver)
            throw new TimeoutException($"Consumers did not make room in time; nothing was appended: {Describe()}.");
        if (!_mayBeWoken || TrySleepOut())
            _store.ThrowIfReplaced(ref _lookedAt, Stopwatch.GetTimestamp());
    }

    /// <summary>False when it was woken.</summary>
    private bool TrySleepOut()
    {
        TimeSpan sleep = _limit.MeetsClaim && ClaimSleepMax < _sleepMax ? ClaimSleepMax : _sleepMax;
        sleep = _deadline.Limit(sleep);
        _sleeps++;
        long began = Stopwatch.GetTimestamp();
        _store.CapacityWake.Sleep(_sequence, sleep);
        return Stopwatch.GetElapsedTime(began) >= sleep;
    }

    /// <summary>What every message about a full queue says.</summary>
    public static string Describe(LogStore store, ConsumerLimit limit)
    {
        long? slowest = null;
        try
        {
            slowest = limit.FindSlowest();
        }
        catch (MappedFileQueueException)
        {
            // A cursor that cannot be read just now is not why the call ends.
        }

        return $"slowest={slowest?.ToString(CultureInfo.InvariantCulture) ?? "unknown"}, limit={limit.BytesMax}, "
            + $"path={store.Path}. Find the slowest consumer with GetInfo or mfq info; delete one that nobody needs any more";
    }

    private string Describe() => Describe(_store, _limit);

    /// <summary>
    /// Waits for room for many messages, for a while. Without it, a fast producer would look at the cursor of a fast consumer
    /// after every few messages, and each look costs both a cache line. It ends after a bounded time whatever it sees: the
    /// consumer may have made room before the first look here.
    /// </summary>
    private void Spin(TimeSpan spin)
    {
        if (spin == TimeSpan.Zero)
            return;
        long first = _limit.FindSlowest();
        long goal = Math.Clamp(_limit.BytesMax / 4, 1, SpinForMax);
        long began = Stopwatch.GetTimestamp();
        do
        {
            Thread.SpinWait(20);
            long moved = _limit.FindSlowest() - first;
            if (moved < 0 || moved >= goal)
                return;
            _store.ThrowIfClosing();
        }
        while (Stopwatch.GetElapsedTime(began) < spin && !_deadline.CancellationToken.IsCancellationRequested
            && !_deadline.IsOver);
    }

    private void Interrupt()
    {
        try
        {
            using CallGate.Call call = _gate.Begin();
            _store.CapacityWake.Interrupt();
        }
        catch (ObjectDisposedException)
        {
            // The end of the queue has ended the wait.
        }
    }
}
