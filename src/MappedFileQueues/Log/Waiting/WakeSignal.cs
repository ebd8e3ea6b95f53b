using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Waiting;

/// <summary>
/// Sleeping and waking across processes. No wake-up is lost, and no flag stays stuck, wherever a waiter or a waker dies
/// (models/wait.pml; any other order of these steps loses a wake-up). Both words are 64 bits in the control page.
/// <code>
/// waiter                                                waker
/// 1 s = sequence (acquire)                              1 publish
/// 2 raise the flag to s + 1, never lower it             2 flag = read the flag; 0: done
/// 3 a barrier for producers that publish without one    3 sequence + 1
/// 4 look again; found: done                             4 wake all that sleep on the sequence
/// 5 sleep while sequence = s                            5 clear the flag, if it still holds what was read
/// </code>
/// A waker that dies after step 2 leaves the flag up, so the next publisher wakes; one that dies after step 3 has made every
/// sleeper's `s` stale. A waiter that dies leaves a flag that costs the next publisher one needless wake. Where no other
/// publisher comes, a sleeper finds a dead waker's change by itself, at most <see cref="SleepMax"/> later. The top bit of the
/// flag means poison and is never cleared.
/// </summary>
internal sealed unsafe class WakeSignal
{
    /// <summary>
    /// The longest single sleep of a waiter, whatever the options say. Only tests change it, in processes of their own: with a
    /// long sleep, a lost wake-up is a hang and not a delay.
    /// </summary>
    public static TimeSpan SleepMax { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>The longest sleep of a waiter that a living process may leave asleep.</summary>
    public static readonly TimeSpan UnwokenSleepMax = TimeSpan.FromMilliseconds(100);

    /// <summary>The longest sleep when a producer that publishes without a barrier cannot be sent one from here.</summary>
    public static readonly TimeSpan UnorderedSleepMax = TimeSpan.FromMilliseconds(1);

    private readonly OperatingSystemServices _os;
    private readonly ulong* _sequence;
    private readonly ulong* _flag;
    private readonly ulong* _hasPollers;
    private readonly ulong* _barrierNeeded;
    private bool _isPoisonedHere;

    /// <summary>The signal of publishers.</summary>
    public WakeSignal(OperatingSystemServices os, ControlPage control)
        : this(os, control, control.WakeSequence, control.WaiterFlag) => _barrierNeeded = control.BarrierNeeded;

    /// <summary>A signal whose wakers all pass a barrier after their changes.</summary>
    public WakeSignal(OperatingSystemServices os, ControlPage control, ulong* sequence, ulong* flag)
    {
        _os = os;
        _sequence = sequence;
        _flag = flag;
        _hasPollers = control.HasPollers;
    }

    /// <summary>The word that sleepers sleep on.</summary>
    public ulong* SequenceWord => _sequence;

    /// <summary>The word that publishers read after each publish.</summary>
    public ulong* Flag => _flag;

    /// <summary>True once a flush of any process has failed.</summary>
    // P11 acquire: the poison bit never goes away again; pairs with P11 full in Poison.
    public bool IsPoisoned => (SharedWord.ReadAcquire(_flag) & ControlLayout.PoisonBit) != 0
        || (PlantedFaults.Has(PlantedFault.PoisonNotShared) && _isPoisonedHere);

    /// <summary>Waiter's steps 1 to 3. The caller looks again, then calls <see cref="Sleep"/> with the result.</summary>
    /// <param name="sequence">The sequence, for <see cref="Sleep"/>.</param>
    /// <returns>The longest time that one sleep may last.</returns>
    public TimeSpan Prepare(out ulong sequence) =>
        // Also when the flag was high enough: the waiter that raised it may not have reached its own barrier yet.
        SleepLimit(isOrdered: !Raise(out sequence) || _os.BarrierOtherProcesses());

    /// <summary>The longest time that one sleep may last after step 3.</summary>
    /// <param name="isOrdered">False where no barrier reached the producers.</param>
    public TimeSpan SleepLimit(bool isOrdered) => !isOrdered ? UnorderedSleepMax
        // P35 acquire: a hint, late by one sleep at most; pairs with P35 release in StoreOpening.
        : SharedWord.ReadAcquire(_hasPollers) != 0 ? UnwokenSleepMax
        : SleepMax;

    /// <summary>Waiter's steps 1 and 2; true if step 3 is needed, which one barrier makes for any number of signals.</summary>
    /// <param name="sequence">The sequence, for <see cref="Sleep"/>.</param>
    public bool Raise(out ulong sequence)
    {
        // P10 acquire: read before the flag is raised; pairs with P10 full in Wake.
        sequence = SharedWord.ReadAcquire(_sequence);
        while (true)
        {
            // P9 acquire: a flag that is high enough needs no store; pairs with P9 full below and in Wake.
            ulong flag = SharedWord.ReadAcquire(_flag);
            if ((flag & ~ControlLayout.PoisonBit) >= sequence + 1)
                break;
            // P9 full: the flag is up before this waiter looks again; pairs with P9 acquire in LogAppender.
            if (SharedWord.CompareExchange(_flag, flag, (flag & ControlLayout.PoisonBit) | (sequence + 1)))
                break;
        }

        ProtocolSteps.Reach(ProtocolStep.WaiterFlagRaised);
        // P8 acquire: an Exclusive producer may publish without a barrier; pairs with P8 full in ProducerAdmission.
        return _barrierNeeded != null && SharedWord.ReadAcquire(_barrierNeeded) != 0;
    }

    /// <summary>Waiter's step 5; may return early.</summary>
    public void Sleep(ulong sequence, TimeSpan atMost)
    {
        if (atMost > TimeSpan.Zero)
            _os.WaitOnWord((uint*)_sequence, (uint)sequence, atMost);
    }

    /// <summary>Like <see cref="Sleep"/>, in a wait that may have a time-out.</summary>
    /// <param name="sequence">What Prepare gave.</param>
    /// <param name="sleep">The longest sleep.</param>
    /// <param name="timeout">How long the whole wait may last; infinite when it has no end.</param>
    /// <param name="began">When the wait began.</param>
    /// <param name="timedOut">The time is up and nobody has woken it: the caller looks once more.</param>
    /// <returns>Whether it was woken.</returns>
    public bool SleepWithin(ulong sequence, TimeSpan sleep, TimeSpan timeout, long began, out bool timedOut)
    {
        timedOut = false;
        if (timeout != Timeout.InfiniteTimeSpan)
        {
            TimeSpan left = timeout - Stopwatch.GetElapsedTime(began);
            timedOut = left <= sleep;
            // No time left means one more look without a sleep; a negative time would mean forever.
            sleep = left > TimeSpan.Zero ? Shorter(sleep, left) : TimeSpan.Zero;
        }

        long slept = Stopwatch.GetTimestamp();
        Sleep(sequence, sleep);
        bool wasWoken = Stopwatch.GetElapsedTime(slept) < sleep;
        timedOut &= !wasWoken;
        return wasWoken;
    }

    /// <summary>The shorter of two times, of which a negative one has no end.</summary>
    public static TimeSpan Shorter(TimeSpan a, TimeSpan b) => a < TimeSpan.Zero ? b : b < TimeSpan.Zero || a < b ? a : b;

    /// <summary>
    /// Waker's steps 2 to 5, after the publish is visible. The caller has read a flag that is not 0; a publisher's own read of
    /// it is step 2.
    /// </summary>
    public void Wake(ulong flag)
    {
        // P10 full: the publish is visible before the sequence moves; pairs with P10 acquire in Raise.
        SharedWord.Add(_sequence, 1);
        ProtocolSteps.Reach(ProtocolStep.SequenceRaised);
        _os.WakeWord((uint*)_sequence);
        ProtocolSteps.Reach(ProtocolStep.SleepersWoken);
        // P9 full: clears only the value that was read, so a waiter that has raised it since keeps its flag;
        // pairs with P9 acquire in Raise.
        ulong poison = flag & ControlLayout.PoisonBit;
        SharedWord.CompareExchange(_flag, flag, poison);
    }

    /// <summary>The check after a change that may free a waiter. The change ended with a full barrier of its own.</summary>
    public void WakeIfAwaited()
    {
        // P9 acquire: after the barrier of the change; pairs with P9 full in Raise.
        ulong flag = SharedWord.ReadAcquire(_flag);
        if ((flag & ~ControlLayout.PoisonBit) != 0)
            Wake(flag);
    }

    /// <summary>Makes every sleeper look again: cancellation, Dispose, poison.</summary>
    public void Interrupt()
    {
        // P10 full: what the sleepers must see was stored before; pairs with P10 acquire in Raise.
        SharedWord.Add(_sequence, 1);
        _os.WakeWord((uint*)_sequence);
    }

    /// <summary>Tells every process that a flush has failed.</summary>
    public void Poison()
    {
        if (PlantedFaults.Has(PlantedFault.PoisonNotShared))
        {
            _isPoisonedHere = true;
            return;
        }

        // P11 full: sticky; pairs with P11 acquire in IsPoisoned.
        SharedWord.SetBits(_flag, ControlLayout.PoisonBit);
        Interrupt();
    }
}
