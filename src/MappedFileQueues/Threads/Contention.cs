namespace MappedFileQueues.Threads;

/// <summary>What two threads do that want the same word at each message.</summary>
internal static class Contention
{
    /// <summary>
    /// Waits for some 4 us: in that time the other thread appends some hundred messages alone, where both together would append
    /// a few, each at the price of a cache line's way from one processor to the other. A third of it gave less, three times as
    /// much no more (measured; docs/BENCHMARKS.md).
    /// </summary>
    public static void GiveWay() => Thread.SpinWait(100);
}
