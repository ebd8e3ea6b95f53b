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
        bool clean = true;
        var deadline = new Deadline(claimTimeout);
        foreach (AppendLane lane in lanes)
        {
            var spinner = new SpinWait();
            while (lane.IsInCall)
            {
                if (lane.HasLostClaim || (lane.HasOpenClaim && deadline.IsOver))
                {
                    ProtocolSteps.Reach(ProtocolStep.ClaimTimedOut);
                    if (fence(lane))
                    {
                        clean = false;
                        break;
                    }
                }

                try
                {
                    spinner.SpinOnce();
                }
                catch (ThreadInterruptedException)
                {
                    // Half closed, the producer would hold its locks for the life of the process.
                }
            }
        }

        return clean;
    }
}
