using System.Diagnostics;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Reading;

/// <summary>How a consumer waits: it looks, spins for a while, then sleeps by the steps of <see cref="WakeSignal"/>.</summary>
internal sealed unsafe partial class LogConsumer
{
    /// <summary>
    /// The longest sleep at a claimed frame, whose owner may be dead and then wakes no waiter. Only tests change it.
    /// </summary>
    public static TimeSpan ClaimSleepMax { get; set; } = TimeSpan.FromMilliseconds(2);

    private const int LooksPerTurn = 64;

    /// <summary>When a call that found nothing has last checked the store's place. Many short calls share it.</summary>
    private long _checkedPlaceAt;
    private uint _empties;

    private ReadStatus TryLook(out byte* payload, out int length)
    {
        ReadStatus status = Reader.TryRead(out payload, out length);
        while (status == ReadStatus.Claim && Reader.TryRepairClaim())
            status = Reader.TryRead(out payload, out length);
        return status;
    }

    private bool TryTake(TimeSpan timeout, CancellationToken cancellationToken, out byte* payload, out int length)
    {
        bool found = TryLook(out payload, out length) == ReadStatus.Message
            || (timeout != TimeSpan.Zero && TryWaitLong(timeout, cancellationToken, out payload, out length));
        if (found)
            Reader.EndSpan();
        else if (timeout == TimeSpan.Zero)
            Store.ThrowIfReplacedNowAndThen(ref _empties, ref _checkedPlaceAt);
        return found;
    }

    /// <summary>Spins, then performs the waiter's steps of <see cref="WakeSignal"/>.</summary>
    private bool TryWaitLong(TimeSpan timeout, CancellationToken cancellationToken, out byte* payload, out int length)
    {
        // A Shared producer's open claim is in the log, and the reader meets it there. An Exclusive one's is not: the wait would
        // never end.
        if (Store.Settings.Exclusive)
            Store.Producers.ThrowIfOwnClaimIsOpen();
        long began = Stopwatch.GetTimestamp();
        if (TrySpin(began, timeout, cancellationToken, out payload, out length))
            return true;
        using CancellationTokenRegistration registration =
            cancellationToken.UnsafeRegister(static consumer => ((LogConsumer)consumer!).InterruptByToken(), this);
        bool timedOut = false;
        while (true)
        {
            TimeSpan sleep = _signal.Prepare(out ulong sequence);
            ReadStatus status = TryLook(out payload, out length);
            if (status == ReadStatus.Message)
                return true;
            cancellationToken.ThrowIfCancellationRequested();
            Store.ThrowIfReadingEnded(Reader.IsClosed);
            if (timedOut)
                return false;
            sleep = WakeSignal.Shorter(sleep, Store.Settings.RetryInterval);
            if (status == ReadStatus.Claim)
                sleep = WakeSignal.Shorter(sleep, ClaimSleepMax);
            // Not woken: time to check whether the store is still the one that was opened.
            if (!_signal.SleepWithin(sequence, sleep, timeout, began, out timedOut) && status == ReadStatus.Empty)
                Store.ThrowIfReplaced(ref _checkedPlaceAt, Stopwatch.GetTimestamp());
        }
    }

    private bool TrySpin(long began, TimeSpan timeout, CancellationToken cancellationToken, out byte* payload, out int length)
    {
        payload = null;
        length = 0;
        TimeSpan spin = WakeSignal.Shorter(Store.Settings.SpinDuration, timeout);
        if (spin == TimeSpan.Zero)
            return false;
        // The cast saturates: an end beyond all clocks is none.
        long end = spin == Timeout.InfiniteTimeSpan
            ? long.MaxValue
            : (long)(began + (spin.TotalSeconds * Stopwatch.Frequency));
        long looked = began;
        while (true)
        {
            // A message that arrives has a short way to its reader; what is rare (a hole, damage, the next segment) can wait for
            // some microseconds. Not at damage, where each look would verify the message again, perhaps 256 MiB of it.
            int looks = Reader.DamageAhead is null ? LooksPerTurn : 0;
            for (int i = 0; i < looks; i++)
            {
                if (Reader.TryReadInPlace(out payload, out length))
                    return true;
                SpinPause.Once();
            }

            if (Reader.HasSomething() && TryLook(out payload, out length) == ReadStatus.Message)
                return true;
            long now = Stopwatch.GetTimestamp();
            if (cancellationToken.IsCancellationRequested || now >= end)
                return false;
            // A sleeping wait checks this too, and a spinning wait may never sleep.
            Store.ThrowIfReadingEnded(Reader.IsClosed);
            Store.ThrowIfReplaced(ref looked, now);
        }
    }
}
