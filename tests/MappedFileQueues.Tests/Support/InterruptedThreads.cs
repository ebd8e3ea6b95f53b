using System.Diagnostics;

namespace MappedFileQueues.Tests.Support;

/// <summary>Threads that call, and are interrupted, again and again.</summary>
internal static class InterruptedThreads
{
    private const int ThreadCount = 4;
    private const int InterruptsMin = 200;

    /// <summary>Only a failing test reaches it.</summary>
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(5);

    /// <summary>
    /// Calls with the number of the thread and of the call. Returns once the threads of even numbers were interrupted so often,
    /// and every call has ended, by an interrupt or well.
    /// </summary>
    public static void Run(Action<int, int> call)
    {
        bool hasEnough = false;
        int interrupts = 0;
        Exception? failure = null;
        Thread[] threads = [.. Enumerable.Range(0, ThreadCount).Select(thread => new Thread(() =>
        {
            for (int number = 0; !Volatile.Read(ref hasEnough); number++)
            {
                try
                {
                    call(thread, number);
                }
                catch (ThreadInterruptedException)
                {
                    Interlocked.Increment(ref interrupts);
                }
                catch (Exception error)
                {
                    Volatile.Write(ref failure, error);
                    return;
                }
            }
        }) { IsBackground = true })];
        Array.ForEach(threads, thread => thread.Start());
        long began = Stopwatch.GetTimestamp();
        for (int turn = 0; Volatile.Read(ref interrupts) < InterruptsMin && Volatile.Read(ref failure) is null; turn++)
        {
            Assert.True(Stopwatch.GetElapsedTime(began) < s_deadline, $"The threads wait for ever: interrupts={interrupts}.");
            threads[turn % 2 * 2].Interrupt();
            Thread.Sleep(1);
        }

        Volatile.Write(ref hasEnough, true);
        Assert.Null(failure);
        Assert.All(threads, thread => Assert.True(thread.Join(s_deadline)));
    }
}
