using System.Runtime.CompilerServices;

namespace MappedFileQueues.Inspection;

/// <summary>The asynchronous wait of a reader: sleeps where it may write the waiters' flag, and polls where it may not.</summary>
internal static class ReaderLoop
{
    public const int PauseMinMs = 1;
    public const int PauseMaxMs = 10;

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public static async ValueTask<bool> WaitToReadAsync(StoreReader reader, CancellationToken cancellationToken)
    {
        int pauseMs = PauseMinMs;
        while (true)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (reader.HasNext())
                return true;
            if (reader.FindWait() is { } wait)
            {
                TimeSpan atMost = wait.Prepare(out ulong sequence);
                if (reader.HasNext())
                    return true;
                await wait.WaitAsync(sequence, atMost, cancellationToken).ConfigureAwait(false);
            }
            else
            {
                await Task.Delay(pauseMs, cancellationToken).ConfigureAwait(false);
                pauseMs = Math.Min(pauseMs * 2, PauseMaxMs);
            }
        }
    }
}
