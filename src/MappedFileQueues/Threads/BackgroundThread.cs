namespace MappedFileQueues.Threads;

/// <summary>
/// The library's own threads. Where the system gives none (ulimit -u, a container's limit of processes) the runtime throws an
/// <see cref="OutOfMemoryException"/>, which few expect and which says nothing of threads; here it is one of ours. Whoever
/// starts one notes it only afterwards, so that the next call tries again.
/// </summary>
internal static class BackgroundThread
{
    /// <summary>Starts a thread that does not keep the process alive.</summary>
    /// <param name="run">What it does.</param>
    /// <param name="name">Its name, for debuggers.</param>
    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public static Thread Start(Action run, string name)
    {
        var thread = new Thread(run.Invoke) { IsBackground = true, Name = $"MappedFileQueues {name}" };
        try
        {
            // Whatever flows with the caller (a request, a transaction) is not this thread's for ever.
            thread.UnsafeStart();
            return thread;
        }
        catch (Exception error) when (error is OutOfMemoryException or ThreadStartException)
        {
            throw new MappedFileQueueException($"Cannot start a thread: name={name}, processId={Environment.ProcessId}. "
                + "Raise the limit of processes and threads (ulimit -u, a container's pids limit), or end some, then try again.",
                error);
        }
    }
}
