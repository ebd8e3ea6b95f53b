namespace MappedFileQueues.Threads;

/// <summary>What a thread does when it contends with another one for the same word at each message.</summary>
internal static class Contention
{
    /// <summary>
    /// Waits for about 4 us. In that time the other thread appends some hundred messages alone. Together the two would append a
    /// few, each at the cost of moving a cache line from one processor to the other. A third of this wait gained less, and three
    /// times as much gained no more (measured).
    /// </summary>
    public static void GiveWay() => Thread.SpinWait(100);
}
