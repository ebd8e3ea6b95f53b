using System.Diagnostics;

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// Waits for a condition, with a deadline that only a failing test reaches. A look may cost more than a pause, and other tests
/// need the processors: the pauses grow with the wait, and lengthen it by a sixteenth at most. Nothing is ever assumed to have
/// happened because time went by.
/// </summary>
internal static class Eventually
{
    /// <summary>Long enough for a loaded machine with one core.</summary>
    public static readonly TimeSpan DefaultDeadline = TimeSpan.FromMinutes(2);

    private static readonly TimeSpan s_pauseMin = TimeSpan.FromMilliseconds(1);
    private static readonly TimeSpan s_pauseMax = TimeSpan.FromMilliseconds(50);

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
            TimeSpan waited = Stopwatch.GetElapsedTime(start);
            bool isLate = waited >= deadline;
            if (condition())
                return true;
            if (isLate)
                return false;
            TimeSpan pause = waited / 16;
            Thread.Sleep(pause < s_pauseMin ? s_pauseMin : pause > s_pauseMax ? s_pauseMax : pause);
        }
    }
}
