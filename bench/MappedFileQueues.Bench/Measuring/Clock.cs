using System.Diagnostics;

namespace MappedFileQueues.Bench.Measuring;

/// <summary>The monotonic clock, whose readings can be compared between the processes of one machine.</summary>
internal static class Clock
{
    public static long Now => Stopwatch.GetTimestamp();

    public static double Nanoseconds(long ticks) => ticks * (1e9 / Stopwatch.Frequency);

    public static double MillisecondsSince(long start) => Nanoseconds(Now - start) / 1e6;

    /// <summary>Nanoseconds for each of <paramref name="count"/> messages since <paramref name="start"/>.</summary>
    public static double NanosecondsEach(long start, long count) => Nanoseconds(Now - start) / count;
}
