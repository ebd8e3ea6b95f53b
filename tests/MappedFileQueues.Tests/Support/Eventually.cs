using System.Diagnostics;

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// Waits for a condition, with a deadline that only a failing test reaches. The pause between two looks costs a passing test
/// its length at most; nothing is ever assumed to have happened because time went by.
/// </summary>
internal static class Eventually
{
    /// <summary>Long enough for a loaded machine with one core.</summary>
    public static readonly TimeSpan DefaultDeadline = TimeSpan.FromMinutes(2);

    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(1);

    /// <summary>Returns once the condition holds; fails with the description when the deadline passes first.</summary>
    public static void True(Func<bool> condition, string description, TimeSpan? deadline = null)
    {
        if (!Wait(condition, deadline ?? DefaultDeadline))
            Assert.Fail($"Waited {deadline ?? DefaultDeadline} in vain: {description}");
    }

    /// <summary>
    /// Returns the value once it equals what is expected; fails and shows the last value when the deadline passes first.
    /// </summary>
    public static void Equal<T>(T expected, Func<T> read, TimeSpan? deadline = null)
    {
        T last = read();
        bool reached = Wait(
            () =>
            {
                last = read();
                return EqualityComparer<T>.Default.Equals(expected, last);
            },
            deadline ?? DefaultDeadline);
        if (!reached)
            Assert.Equal(expected, last);
    }

    /// <summary>
    /// True once the condition holds, false when the deadline passes first. The condition is looked at least once.
    /// </summary>
    public static bool Wait(Func<bool> condition, TimeSpan deadline)
    {
        long start = Stopwatch.GetTimestamp();
        while (true)
        {
            bool isLate = Stopwatch.GetElapsedTime(start) >= deadline;
            if (condition())
                return true;
            if (isLate)
                return false;
            Thread.Sleep(s_pause);
        }
    }
}
