using MappedFileQueues.Files;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `full-pool FILE`: all threads that the pool may have wait for ever; then a line is appended. It waits to be killed.
/// </summary>
internal static class FullPoolVerb
{
    public static int Run(string[] arguments)
    {
        int count = Environment.ProcessorCount;
        ThreadPool.SetMinThreads(count, count);
        ThreadPool.SetMaxThreads(count, count);
        using CountdownEvent busy = new(count);
        for (int i = 0; i < count; i++)
        {
            ThreadPool.QueueUserWorkItem(_ =>
            {
                busy.Signal();
                Thread.Sleep(Timeout.Infinite);
            });
        }

        busy.Wait();
        using AppendFileStream stream = new(
            arguments[0], new AppendFileOptions { FlushInterval = TimeSpan.FromMilliseconds(50) });
        stream.Write("one\n"u8);
        Thread.Sleep(Timeout.Infinite);
        return 0;
    }
}
