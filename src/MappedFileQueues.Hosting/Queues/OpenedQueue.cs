using MappedFileQueues.Hosting.Consumers;

namespace MappedFileQueues.Hosting.Queues;

/// <summary>A queue that was opened at run time, with its consumers, and what looks at it.</summary>
internal sealed class OpenedQueue
{
    private readonly CancellationTokenSource _closing = new();
    private readonly SemaphoreSlim _turn = new(1);
    private readonly Dictionary<string, IConsumerService> _consumers = new(StringComparer.OrdinalIgnoreCase);
    private readonly Task _watch;
    private readonly Lazy<Task> _closed;

    public OpenedQueue(NamedQueue named, IDisposable queue)
    {
        (Named, Queue) = (named, queue);
        _closed = new Lazy<Task>(CloseOnceAsync);
        _watch = QueueWatchService.WatchAsync(named, _closing.Token);
    }

    public NamedQueue Named { get; }

    public IDisposable Queue { get; }

    public bool IsClosing => _closing.IsCancellationRequested;

    public async Task StartAsync(string name, Func<IConsumerService> make)
    {
        await _turn.WaitAsync().ConfigureAwait(false);
        try
        {
            if (IsClosing)
                throw new InvalidOperationException($"The queue is closed: name=\"{Named.Name}\".");
            // A second one would wait for the name for ever.
            if (_consumers.TryGetValue(name, out IConsumerService? former) && !former.HasEnded)
                throw new InvalidOperationException(
                    $"A consumer of this name runs already: queue=\"{Named.Name}\", consumer=\"{name}\".");
            IConsumerService consumer = make();
            if (former is not null)
                await former.StopAsync(CancellationToken.None).ConfigureAwait(false);
            try
            {
                await consumer.StartAsync(CancellationToken.None).ConfigureAwait(false);
            }
            catch
            {
                // Of a group, some members may run.
                await consumer.StopAsync(new CancellationToken(canceled: true)).ConfigureAwait(false);
                consumer.Dispose();
                throw;
            }

            former?.Dispose();
            _consumers[name] = consumer;
        }
        finally
        {
            _turn.Release();
        }
    }

    public async Task StopConsumersAsync(CancellationToken cancellationToken)
    {
        await _turn.WaitAsync(CancellationToken.None).ConfigureAwait(false);
        IConsumerService[] consumers = [.. _consumers.Values];
        // A second call may have less patience than this one.
        _turn.Release();
        await Task.WhenAll(consumers.Select(consumer => consumer.StopAsync(cancellationToken))).ConfigureAwait(false);
    }

    /// <summary>From now on no consumer is started; the next step is to stop those that run.</summary>
    public void BeginClose() => _closing.Cancel();

    /// <summary>The consumers have stopped: closes the queue. Each call waits for the one that does it.</summary>
    public Task CloseAsync() => _closed.Value;

    private async Task CloseOnceAsync()
    {
        foreach (IConsumerService consumer in _consumers.Values)
            consumer.Dispose();
        await _watch.ConfigureAwait(false);
        Queue.Dispose();
    }
}
