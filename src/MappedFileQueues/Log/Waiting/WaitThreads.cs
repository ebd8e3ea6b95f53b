using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Waiting;

/// <summary>
/// The threads of this process that wait for asynchronous calls: one, however many queues wait, as long as the system lets a
/// thread sleep on all their words (127 on Linux since 5.16; before that, one thread for each).
/// </summary>
internal static class WaitThreads
{
    private static readonly Lock s_lock = new();
    private static readonly List<WaitThread> s_threads = [];

    /// <summary>How many there are for a platform, for tests.</summary>
    public static int CountOf(OperatingSystemServices os)
    {
        lock (s_lock)
            return s_threads.Count(thread => thread.Os == os);
    }

    /// <summary>Gives the waits to a thread that has room, or to a new one.</summary>
    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public static WaitThread Add(SignalWaits waits)
    {
        lock (s_lock)
        {
            foreach (WaitThread thread in s_threads)
            {
                if (thread.TryAdd(waits))
                    return thread;
            }

            var started = new WaitThread(waits.Os);
            started.Start(waits);
            s_threads.Add(started);
            return started;
        }
    }

    /// <summary>A thread that has had nothing to do for a while ends; false when it has something to do again.</summary>
    public static bool TryEnd(WaitThread thread)
    {
        lock (s_lock)
            return thread.IsEmpty && s_threads.Remove(thread);
    }
}
