namespace MappedFileQueues.Threads;

/// <summary>
/// Starts the library's own threads. Where the system gives none (ulimit -u, a container's pids limit), the runtime throws an
/// <see cref="OutOfMemoryException"/> that does not mention threads; this type throws one of ours instead. A caller records its
/// thread only after the start, so that the next call tries again.
/// </summary>
internal static class BackgroundThread
{
    /// <summary>Starts a thread that does not keep the process alive.</summary>
    /// <param name="run">The thread's work.</param>
    /// <param name="name">Its name, for debuggers.</param>
    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public static Thread Start(Action run, string name)
    {
        var thread = new Thread(run.Invoke) { IsBackground = true, Name = $"MappedFileQueues {name}" };
        try
        {
            // The caller's execution context (a request, a transaction) must not flow into this thread for good.
            thread.UnsafeStart();
            return thread;
        }
        catch (Exception error) when (error is OutOfMemoryException or ThreadStartException)
        {
            throw new MappedFileQueueException($"Cannot start a thread: name={name}, processId={Environment.ProcessId}. "
                + "Raise the limit of processes and threads (ulimit -u, a container's pids limit) or of open files (ulimit -n), "
                + "or end some, then try again.",
                error);
        }
    }
}
