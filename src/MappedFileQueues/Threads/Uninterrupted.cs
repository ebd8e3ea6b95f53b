namespace MappedFileQueues.Threads;

/// <summary>
/// For waits that <see cref="Thread.Interrupt"/> must not end, because something would stay half open. The interrupt counts again
/// at the thread's next wait.
/// </summary>
internal static class Uninterrupted
{
    /// <summary>Calls <paramref name="work"/> again each time an interrupt has ended it.</summary>
    public static void Run(Action work)
    {
        bool wasInterrupted = false;
        try
        {
            while (true)
            {
                try
                {
                    work();
                    return;
                }
                catch (ThreadInterruptedException)
                {
                    wasInterrupted = true;
                }
            }
        }
        finally
        {
            if (wasInterrupted)
                Thread.CurrentThread.Interrupt();
        }
    }
}
