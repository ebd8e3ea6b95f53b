using System.Diagnostics;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Platform;

/// <summary>
/// Waits for a kernel lock that its holders keep only for a moment. A stopped holder (SIGSTOP, a debugger, a frozen container)
/// keeps it for any length of time. So every such wait ends by itself, sleeps meanwhile, and can be cut short.
/// </summary>
internal static class LockWait
{
    /// <summary>How long to wait where no option of the user says more.</summary>
    public static readonly TimeSpan Timeout = TimeSpan.FromSeconds(30);

    /// <summary>
    /// How long a lock may be held by a program that only reads or copies the file: .NET takes a shared lock for every file that
    /// it opens (dotnet/runtime issue 34126). Whoever is refused has waited for this at least.
    /// </summary>
    public static readonly TimeSpan Passing = TimeSpan.FromMilliseconds(50);

    private const int PauseMsMax = 10;

    /// <summary>Takes the lock; null when the time is up.</summary>
    /// <param name="directory">The directory of the lock's file.</param>
    /// <param name="name">The lock's file.</param>
    /// <param name="kind">Shared or exclusive.</param>
    /// <param name="timeout">How long to wait.</param>
    /// <param name="look">Called before each pause; an exception from it ends the wait.</param>
    /// <param name="waits">Notes a long wait; null for none.</param>
    public static PlatformLock? TryTake(
        HeldDirectory directory, string name, LockKind kind, TimeSpan timeout, Action? look = null, LockWaits? waits = null)
    {
        if (directory.TryLock(name, kind) is { } free)
            return free;
        long began = Stopwatch.GetTimestamp();
        var pause = new Pause(timeout);
        try
        {
            while (!pause.IsOver)
            {
                look?.Invoke();
                pause.Sleep();
                if (directory.TryLock(name, kind) is { } taken)
                    return taken;
            }

            return null;
        }
        finally
        {
            waits?.Note(name, began);
        }
    }

    /// <summary>The pauses of one wait: first some that only yield, then longer and longer sleeps.</summary>
    internal struct Pause(TimeSpan timeout)
    {
        private readonly Deadline _deadline = new(timeout);
        private SpinWait _spinner = new();
        private int _pauseMs = 1;

        /// <summary>True when the time is up.</summary>
        public readonly bool IsOver => _deadline.IsOver;

        /// <summary>One pause.</summary>
        public void Sleep()
        {
            if (!_spinner.NextSpinWillYield)
            {
                _spinner.SpinOnce();
                return;
            }

            Thread.Sleep(_pauseMs);
            _pauseMs = Math.Min(_pauseMs * 2, PauseMsMax);
        }
    }
}
