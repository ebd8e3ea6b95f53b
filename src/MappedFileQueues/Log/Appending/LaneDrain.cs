using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// Waits until no thread is inside a lane. The threads mark their calls by plain stores (an interlocked pair would cost 4 ns a
/// message), so the disposing side pays for the fence: it takes the bounds away, fences all threads of the process, and then sees
/// every call that could have missed it.
/// </summary>
internal static unsafe class LaneDrain
{
    /// <summary>
    /// Drains the lanes. The calling thread's own open claims are the caller's business before; those of other threads are
    /// waited for as long as <paramref name="claimTimeout"/> says, then handed to <paramref name="fence"/>, which says whether
    /// it took the claim away.
    /// </summary>
    /// <returns>False when a lane had to be given up: its mapping must stay.</returns>
    public static bool Drain(IReadOnlyList<AppendLane> lanes, TimeSpan claimTimeout, Func<AppendLane, bool> fence)
    {
        foreach (AppendLane lane in lanes)
            lane.Bound = null;
        Interlocked.MemoryBarrierProcessWide(); // P7 full: bounds away before the looks; pairs with P7 release in the appenders.
        bool clean = true;
        var deadline = new Deadline(claimTimeout);
        foreach (AppendLane lane in lanes)
        {
            var spinner = new SpinWait();
            while (lane.Calls.IsInCall)
            {
                if (lane.HasOpenClaim && deadline.IsOver)
                {
                    ProtocolSteps.Reach(ProtocolStep.ClaimTimedOut);
                    if (fence(lane))
                    {
                        clean = false;
                        break;
                    }
                }

                spinner.SpinOnce();
            }
        }

        return clean;
    }
}
