using System.Diagnostics;

namespace MappedFileQueues.Threads;

/// <summary>The end of a wait, by the monotonic clock. Any thread.</summary>
/// <param name="timeout">How long the wait may take from now on; <see cref="Timeout.InfiniteTimeSpan"/> never ends.</param>
internal readonly struct Deadline(TimeSpan timeout)
{
    private readonly long _began = timeout == Timeout.InfiniteTimeSpan ? 0 : Stopwatch.GetTimestamp();

    /// <summary>True when the time is up.</summary>
    public bool IsOver => timeout != Timeout.InfiniteTimeSpan && Stopwatch.GetElapsedTime(_began) >= timeout;

    /// <summary>What is left, as a time-out: not below 0 unless it is infinite.</summary>
    public TimeSpan AsTimeout()
    {
        if (timeout == Timeout.InfiniteTimeSpan)
            return timeout;
        TimeSpan left = timeout - Stopwatch.GetElapsedTime(_began);
        return left > TimeSpan.Zero ? left : TimeSpan.Zero;
    }
}
