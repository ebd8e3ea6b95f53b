using System.Diagnostics;
using System.Runtime.CompilerServices;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Groups;

/// <summary>
/// How a member waits: as a consumer does, by the steps of <see cref="WakeSignal"/>, but it also wakes up for messages that come
/// back: when the first one is due, and every 100 ms while others have messages in hand, because the dead wake nobody.
/// </summary>
internal sealed unsafe partial class GroupMember
{
    /// <summary>How often the owners of records are looked at while other members have messages in hand.</summary>
    private static readonly TimeSpan s_lookInterval = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest sleep at a claimed frame, whose owner may be dead and then wakes no waiter.</summary>
    private static readonly TimeSpan s_claimSleepMax = TimeSpan.FromMilliseconds(2);

    private readonly Lock _interrupting = new();
    private bool _isInterruptible = true;

    /// <summary>At first long ago: what the dead have left comes before what is new.</summary>
    private long _lookedAt = Stopwatch.GetTimestamp() - (long)(s_lookInterval.TotalSeconds * Stopwatch.Frequency);

    /// <summary>When a call that found nothing has last checked the store's place. Many short calls share it.</summary>
    private long _checkedPlaceAt;
    private uint _empties;

    private bool _othersHold;
    private int _callsToLook;
    private int _callsPerClock = CallsPerLook;
    private long _tick;

    /// <summary>Completes when a call would take something.</summary>
    public ValueTask<bool> WaitForMessageAsync(CancellationToken cancellationToken) => !_reader.IsBarred && IsMessageThere()
        ? new ValueTask<bool>(true)
        : ReusedWait<bool>.Start(ref _untilThere, Timeout.InfiniteTimeSpan, cancellationToken);

    /// <inheritdoc/>
    public void BeginWait(IReadWait call, TimeSpan timeout, CancellationToken cancellationToken) =>
        _around.AsyncWaits.Begin(_asyncWait, call, timeout, cancellationToken);

    /// <summary>Where runs are to be the same each time, the clock does not count.</summary>
    private bool IsLookTime =>
        ProtocolSteps.Background is not null || Stopwatch.GetElapsedTime(_lookedAt) >= s_lookInterval;

    /// <summary>
    /// The clock is read once in a few calls, in fewer when these take long: a slow handler must not keep what the dead have left
    /// waiting.
    /// </summary>
    private void LookNowAndThen()
    {
        if (--_callsToLook <= 0)
            ReadClock();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void ReadClock()
    {
        // The precise clock takes 45 ns in a virtual machine. This one moves once in some milliseconds, and takes a tenth.
        long tick = Environment.TickCount64;
        if (tick == _tick && ProtocolSteps.Background is null)
        {
            _callsToLook = _callsPerClock;
            return;
        }

        double waits = (tick - _tick) / (s_lookInterval.TotalMilliseconds / 2);
        _callsPerClock = (int)Math.Clamp(_callsPerClock / waits, 1, CallsPerLook);
        _callsToLook = ProtocolSteps.Background is null ? _callsPerClock : CallsPerLook;
        (_tick, _nowMs) = (tick, _clock.NowMs);
        if (IsLookTime)
            Look();
    }

    /// <summary>
    /// For calls that do not sleep: whoever asks all the time does not pay for a look each time. Without one, nobody knows who
    /// holds what by now.
    /// </summary>
    private bool IsLookDue()
    {
        bool isDue = IsLookTime;
        _othersHold |= !isDue;
        return isDue;
    }

    /// <summary>Looks for what the dead have held; true when something has changed.</summary>
    private bool Look()
    {
        _reader.TakeFromEnded();
        _lookedAt = Stopwatch.GetTimestamp();
        _othersHold = true;
        GroupLook look = _leases.Look();
        _othersHold = look.OthersHold;
        if (look.HasChanged)
            NoteChange();
        return look.HasChanged;
    }

    private bool TryWait(int countMax, TimeSpan timeout, CancellationToken cancellationToken, out GroupLease lease)
    {
        _reader.TakeFromEnded();
        if (timeout == TimeSpan.Zero)
        {
            lease = null!;
            if (IsLookDue() && Look() && TryTakeNow(countMax, true, out lease))
                return true;
            _store.ThrowIfReplacedNowAndThen(ref _empties, ref _checkedPlaceAt);
            return false;
        }

        // An Exclusive producer's open claim is not in the log: the wait would never end.
        if (_store.Settings.Exclusive)
            _store.Producers.ThrowIfOwnClaimIsOpen();
        long began = Stopwatch.GetTimestamp();
        if (TrySpin(began, countMax, timeout, cancellationToken, out lease))
            return true;
        using CancellationTokenRegistration registration =
            cancellationToken.UnsafeRegister(static member => ((GroupMember)member!).InterruptSleep(), this);
        bool timedOut = false;
        while (true)
        {
            bool isForRoom = _isRoomShort;
            WakeSignal signal = isForRoom ? _leases.Room : _signal;
            TimeSpan sleep = signal.Prepare(out ulong sequence);
            if (TryTakeNow(countMax, true, out lease) || (Look() && TryTakeNow(countMax, true, out lease)))
                return true;
            cancellationToken.ThrowIfCancellationRequested();
            _store.ThrowIfReadingEnded(_reader.IsClosed, PublicNames.GroupMember);
            if (timedOut)
                return false;
            // The flag of the other signal is not up.
            if (isForRoom != _isRoomShort)
                continue;
            sleep = WakeSignal.Shorter(WakeSignal.Shorter(sleep, _store.Settings.RetryInterval), SleepMax());
            if (!signal.SleepWithin(sequence, sleep, timeout, began, out timedOut) && !_sawClaim)
                _store.ThrowIfReplaced(ref _checkedPlaceAt, Stopwatch.GetTimestamp());
        }
    }

    /// <summary>How long it may sleep though nobody wakes it.</summary>
    private TimeSpan SleepMax()
    {
        if (_sawClaim)
            return s_claimSleepMax;
        TimeSpan sleep = _othersHold || _isRoomShort ? s_lookInterval : Timeout.InfiniteTimeSpan;
        long due = _leases.Table.EarliestDue;
        return due == GroupLayout.NoneDue
            ? sleep
            : WakeSignal.Shorter(sleep, TimeSpan.FromMilliseconds(Math.Clamp(due - _clock.NowMs, 1, int.MaxValue)));
    }

    private bool TrySpin(
        long began, int countMax, TimeSpan timeout, CancellationToken cancellationToken, out GroupLease lease)
    {
        lease = null!;
        TimeSpan spin = WakeSignal.Shorter(_store.Settings.SpinDuration, timeout);
        if (spin == TimeSpan.Zero)
            return false;
        long looked = began;
        while (true)
        {
            if (TryTakeNow(countMax, true, out lease))
                return true;
            long now = Stopwatch.GetTimestamp();
            if (cancellationToken.IsCancellationRequested
                || (spin != Timeout.InfiniteTimeSpan && Stopwatch.GetElapsedTime(began, now) >= spin))
                return false;
            _store.ThrowIfReadingEnded(_reader.IsClosed, PublicNames.GroupMember);
            _store.ThrowIfReplaced(ref looked, now);
        }
    }

    /// <summary>
    /// Called by a token, and by the end. A damage handler may dispose the queue in a wait: then the pages of the signals are
    /// gone.
    /// </summary>
    private void InterruptSleep()
    {
        lock (_interrupting)
        {
            if (!_isInterruptible)
                return;
            _signal.Interrupt();
            _leases.Room.Interrupt();
        }
    }

    /// <summary>Its asynchronous wait. It looks on the thread that waits for all; the call itself does the rest.</summary>
    private sealed class GroupRead(GroupMember member)
        : PendingRead(member._around.AsyncWaits, member._reader, PublicNames.GroupMember)
    {
        /// <inheritdoc/>
        public override long LooksAt
        {
            get
            {
                TimeSpan interval = member._othersHold || member._isRoomShort ? s_lookInterval : WakeSignal.SleepMax;
                long looksAt = member._lookedAt + (long)(interval.TotalSeconds * Stopwatch.Frequency);
                long due = member._leases.Table.EarliestDue;
                if (due == GroupLayout.NoneDue)
                    return looksAt;
                long left = due - member._clock.NowMs;
                // A time that is over is not "now": the caller may have read the clock before this.
                return left <= 0
                    ? 0
                    : Math.Min(looksAt, Stopwatch.GetTimestamp() + (Math.Min(left, int.MaxValue) * Stopwatch.Frequency / 1000));
            }
        }

        /// <inheritdoc/>
        public override bool IsAnythingThere()
        {
            SawClaim = false;
            if (Stopwatch.GetTimestamp() >= LooksAt)
                return true;
            return !member._isRoomShort && IsMessageThere();
        }

        private bool IsMessageThere()
        {
            LogReader walker = member._walker;
            GroupScan.ReadNext(member._leases.Table, member._file.File, out _, out long end);
            try
            {
                // After padding it stays where the last walk came to.
                if (end != member._walkedFrom)
                {
                    // Others were handed messages since the call's own look. When they die over them nothing else moves.
                    member._othersHold = true;
                    member.MoveWalker(end);
                }

                if (!walker.HasSomething())
                    return false;
                SawClaim = !walker.TryRepairClaim();
                return !SawClaim;
            }
            catch (OffsetOutOfRangeException)
            {
                // The call throws it, or steps over what was removed.
                member._walkedFrom = -1;
                return true;
            }
        }
    }
}
