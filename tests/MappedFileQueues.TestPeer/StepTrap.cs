using MappedFileQueues.Memory;

namespace MappedFileQueues.TestPeer;

/// <summary>Kills or stops the process when a thread of it comes to a step of the protocol for the N-th time.</summary>
internal static class StepTrap
{
    private static int s_left;

    public static void Arm(ProtocolStep step, int hit, Action action)
    {
        s_left = hit;
        ProtocolSteps.Handler = reached =>
        {
            if (reached == step && Interlocked.Decrement(ref s_left) == 0)
                action();
        };
    }
}
