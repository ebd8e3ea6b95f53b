using System.Diagnostics;
using MappedFileQueues.Memory;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>Asynchronous waits that begin while the queue is disposed.</summary>
internal static class AsyncWaitRaces
{
    /// <summary>Far longer than a Dispose that waits for nobody takes; a passing case waits that long once.</summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromMilliseconds(500);

    private static readonly TimeSpan s_length = TimeSpan.FromSeconds(2);

    /// <summary>The queue is disposed between the adding of a wait and the waking of the thread that waits.</summary>
    public static void WaitAddedBeforeUnmap(string path)
    {
        MappedFileQueue queue = RaceVerb.Open(path);
        MappedFileConsumer consumer = queue.OpenConsumer("waits");
        Thread disposing = new(queue.Dispose);
        StepTrap.Arm(ProtocolStep.AsyncWaitAdded, 1, () =>
        {
            disposing.Start();
            disposing.Join(s_patience);
        });
        RaceVerb.ExpectDisposed(() => consumer.ConsumeAsync().AsTask().Wait());
        disposing.Join();
    }

    /// <summary>Six consumers wait and cancel without pause while their queue is disposed; every wait has to end.</summary>
    public static void WaitsAndCancels(string path)
    {
        for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began) < s_length;)
        {
            MappedFileQueue queue = RaceVerb.Open(path);
            using var waited = new CountdownEvent(6);
            Thread[] threads = [.. Enumerable.Range(0, waited.InitialCount).Select(i => StartWaiting(queue, i, waited))];
            waited.Wait();
            queue.Dispose();
            foreach (Thread thread in threads)
                RaceVerb.Expect(thread.Join(TimeSpan.FromMinutes(2)), "the last wait ends");
        }
    }

    private static Thread StartWaiting(MappedFileQueue queue, int number, CountdownEvent waited)
    {
        MappedFileConsumer consumer = queue.OpenConsumer($"waits-{number}");
        Thread thread = new(() =>
        {
            WaitAndCancel(consumer);
            waited.Signal();
            RaceVerb.ExpectDisposed(() =>
            {
                while (true)
                    WaitAndCancel(consumer);
            });
        });
        thread.Start();
        return thread;
    }

    private static void WaitAndCancel(MappedFileConsumer consumer)
    {
        using var cancellation = new CancellationTokenSource();
        Task waiting = consumer.ConsumeAsync(cancellation.Token).AsTask();
        cancellation.Cancel();
        try
        {
            waiting.Wait();
        }
        catch (AggregateException error) when (error.InnerException is OperationCanceledException)
        {
            // Cancelled before the queue was disposed.
        }
    }
}
