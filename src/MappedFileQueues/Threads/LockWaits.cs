using System.Diagnostics;

namespace MappedFileQueues.Threads;

/// <summary>
/// Counts the waits of one queue for kernel locks that took long. The holders keep these locks for a moment only, so a long wait
/// names a process that was stopped, or one that recovers a large store. Any thread.
/// </summary>
internal sealed class LockWaits
{
    /// <summary>A wait counts from this length on.</summary>
    public static readonly TimeSpan Long = TimeSpan.FromSeconds(1);

    private readonly Lock _lock = new();
    private long _count;
    private TimeSpan _longest;
    private string? _last;

    /// <summary>The number of long waits, the longest of them, and the lock of the last one.</summary>
    public (long Count, TimeSpan Longest, string? LastLock) Read()
    {
        lock (_lock)
            return (_count, _longest, _last);
    }

    /// <summary>Notes a wait, whether it got the lock or not.</summary>
    /// <param name="name">The lock.</param>
    /// <param name="began">The timestamp at which it began.</param>
    public void Note(string name, long began)
    {
        TimeSpan waited = Stopwatch.GetElapsedTime(began);
        if (waited < Long)
            return;
        lock (_lock)
        {
            _count++;
            _longest = waited > _longest ? waited : _longest;
            _last = name;
        }
    }
}
