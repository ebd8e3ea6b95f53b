using System.Diagnostics;

namespace MappedFileQueues.Platform.Portable;

/// <summary>
/// Waits for a word to change by polling it. The BCL's shortest sleep is a millisecond, and each sleep costs about 25 us of CPU
/// (measured on a virtual machine). So a thread that has seen no change for long polls less often: below 1 % of a core when idle,
/// and a reaction within 2 ms while there is traffic at least every few seconds. On Windows each sleep ends at a tick of the
/// clock, every 15.6 ms unless the program asked for finer ones (Windows API, Sleep and timeBeginPeriod).
/// </summary>
internal static unsafe class PortableWait
{
    /// <summary>How long a wait only yields, for a change that comes at once.</summary>
    private static readonly TimeSpan s_yielding = TimeSpan.FromMicroseconds(50);

    private static readonly TimeSpan s_busy = TimeSpan.FromMilliseconds(50);
    private static readonly TimeSpan s_quiet = TimeSpan.FromSeconds(2);

    // One wait of a queue is many short ones here: the same word with the same value continues where the last call stopped.
    [ThreadStatic]
    private static nint t_word;

    [ThreadStatic]
    private static uint t_expected;

    [ThreadStatic]
    private static long t_since;

    /// <summary>Returns when the word differs or the time-out has passed; a negative time-out means none.</summary>
    public static void While(uint* word, uint expected, TimeSpan timeout)
    {
        long start = Begin(word, expected);
        while (Volatile.Read(ref *word) == expected)
        {
            TimeSpan passed = Stopwatch.GetElapsedTime(start);
            if (timeout >= TimeSpan.Zero && passed >= timeout)
                return;
            if (passed < s_yielding)
                _ = Thread.Yield();
            else
                Thread.Sleep(StepFor(Stopwatch.GetElapsedTime(t_since), timeout < TimeSpan.Zero ? timeout : timeout - passed));
        }
    }

    /// <summary>
    /// Returns after one pause in which the word may have changed, for a caller that polls more than this word.
    /// </summary>
    public static void Once(uint* word, uint expected, TimeSpan timeout)
    {
        long start = Begin(word, expected);
        TimeSpan unchanged = Stopwatch.GetElapsedTime(t_since, start);
        if (Volatile.Read(ref *word) != expected)
            return;
        if (unchanged < s_yielding)
            _ = Thread.Yield();
        else
            Thread.Sleep(StepFor(unchanged, timeout));
    }

    private static long Begin(uint* word, uint expected)
    {
        long now = Stopwatch.GetTimestamp();
        if (t_word != (nint)word || t_expected != expected)
            (t_word, t_expected, t_since) = ((nint)word, expected, now);
        return now;
    }

    /// <summary>The next sleep in milliseconds, at least 1 and not much more than what is left (negative: no limit).</summary>
    private static int StepFor(TimeSpan unchanged, TimeSpan left)
    {
        int step = unchanged < s_busy ? 1 : unchanged < s_quiet ? 2 : 5;
        return left < TimeSpan.Zero ? step : Math.Clamp((int)left.TotalMilliseconds, 1, step);
    }
}
