using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>A queue that was opened at run time, with its consumers, and what looks at it.</summary>
internal sealed class OpenedQueue
{
    private readonly CancellationTokenSource _closing = new();
    private readonly SemaphoreSlim _turn = new(1);
    private readonly Dictionary<string, IHostedService> _consumers = new(StringComparer.OrdinalIgnoreCase);
    private readonly Task _watch;

    public OpenedQueue(NamedQueue named, IDisposable queue)
    {
        (Named, Queue) = (named, queue);
        _watch = QueueWatchService.WatchAsync(named, _closing.Token);
    }

    public NamedQueue Named { get; }

    public IDisposable Queue { get; }

    public async Task StartAsync(string name, Func<IHostedService> make)
    {
        await _turn.WaitAsync().ConfigureAwait(false);
        try
        {
            if (_closing.IsCancellationRequested)
                throw new InvalidOperationException($"The queue is closed: name=\"{Named.Name}\".");
            // A second one would wait for the name for ever.
            if (_consumers.ContainsKey(name))
                throw new InvalidOperationException(
                    $"A consumer of this name runs already: queue=\"{Named.Name}\", consumer=\"{name}\".");
            IHostedService consumer = make();
            await consumer.StartAsync(CancellationToken.None).ConfigureAwait(false);
            _consumers.Add(name, consumer);
        }
        finally
        {
            _turn.Release();
        }
    }

    public async Task StopConsumersAsync(CancellationToken cancellationToken)
    {
        await _turn.WaitAsync(CancellationToken.None).ConfigureAwait(false);
        try
        {
            await Task.WhenAll(_consumers.Values.Select(consumer => consumer.StopAsync(cancellationToken))).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    public async Task CloseAsync(CancellationToken cancellationToken)
    {
        // Not by CancelAsync: when this call returns, no consumer begins another message.
        _closing.Cancel();
        await StopConsumersAsync(cancellationToken).ConfigureAwait(false);
        foreach (IHostedService consumer in _consumers.Values)
            ((IDisposable)consumer).Dispose();
        await _watch.ConfigureAwait(false);
        Queue.Dispose();
    }
}
