using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// Waits until no thread is inside a lane. Threads mark their calls by plain stores (an interlocked pair would cost 4 ns a
/// message), so the disposing side pays for the barrier: it takes the bounds away, sends one to all threads of the process, and
/// then sees every call that could have missed it.
/// </summary>
internal static unsafe class LaneDrain
{
    /// <summary>
    /// Drains the lanes. The caller has ended the calling thread's own open claims before. Claims of other threads get
    /// <paramref name="claimTimeout"/> to end, those of ended threads none; then <paramref name="fence"/> tries to take them away
    /// and returns whether it did.
    /// </summary>
    /// <returns>False when a lane had to be given up: its mapping must stay.</returns>
    public static bool Drain(IReadOnlyList<AppendLane> lanes, TimeSpan claimTimeout, Func<AppendLane, bool> fence)
    {
        foreach (AppendLane lane in lanes)
            lane.Bound = null;
        Interlocked.MemoryBarrierProcessWide(); // P7 full: bounds away before the loads; pairs with P7 release in the appenders.
        var deadline = new Deadline(claimTimeout);
        bool clean = true;
        foreach (AppendLane lane in lanes)
            Uninterrupted.Run(() => clean &= AwaitCall(lane, deadline, fence));
        return clean;
    }

    /// <summary>Waits until no thread is inside <paramref name="lane"/>.</summary>
    /// <returns>False when the lane's claim was taken away instead.</returns>
    /// <exception cref="ThreadInterruptedException">The thread was interrupted. The wait may be repeated.</exception>
    private static bool AwaitCall(AppendLane lane, Deadline deadline, Func<AppendLane, bool> fence)
    {
        var spinner = new SpinWait();
        while (lane.IsInCall)
        {
            if (lane.HasLostClaim || (lane.HasOpenClaim && deadline.IsOver))
            {
                ProtocolSteps.Reach(ProtocolStep.ClaimTimedOut);
                if (fence(lane))
                    return false;
            }

            spinner.SpinOnce();
        }

        return true;
    }
}
