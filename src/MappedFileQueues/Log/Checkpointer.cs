using System.Diagnostics;

namespace MappedFileQueues.Log;

/// <summary>
/// Writes a checkpoint behind completed segments, once a second at most, on a thread of its own: what is not flushed yet when
/// every process dies is what the next opener has to walk. It promises nothing to anyone, so its errors are not thrown: a failed
/// flush has poisoned the queue, and every caller hears of that.
/// </summary>
internal sealed class Checkpointer : IDisposable
{
    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(1);

    private readonly LogStore _store;
    private readonly AutoResetEvent _noticed = new(false);
    private readonly ManualResetEventSlim _stop = new(false);
    private readonly Thread _thread;

    public Checkpointer(LogStore store)
    {
        _store = store;
        _thread = new Thread(Run) { IsBackground = true, Name = "MappedFileQueues checkpoints" };
        _thread.Start();
    }

    /// <summary>A segment was completed. Never waits.</summary>
    public void Notice() => _noticed.Set();

    public void Dispose()
    {
        _stop.Set();
        _noticed.Set();
        _thread.Join();
        _noticed.Dispose();
        _stop.Dispose();
    }

    private void Run()
    {
        while (true)
        {
            _noticed.WaitOne();
            if (_stop.IsSet)
                return;
            long began = Stopwatch.GetTimestamp();
            try
            {
                _store.Flusher.FlushCompletedSegments();
            }
            catch (Exception error) when (error is MappedFileQueueException or ObjectDisposedException)
            {
                // Poisoned, deleted, or damaged: whoever appends, reads or flushes meets it. Or the queue is closing.
            }

            TimeSpan rest = Interval - Stopwatch.GetElapsedTime(began);
            if (rest > TimeSpan.Zero && _stop.Wait(rest))
                return;
        }
    }
}
