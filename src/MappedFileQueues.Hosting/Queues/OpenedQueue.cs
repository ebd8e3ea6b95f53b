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
        _watch = WithoutContext(() => QueueWatchService.WatchAsync(named, _closing.Token));
    }

    public NamedQueue Named { get; }

    public IDisposable Queue { get; }

    public bool IsClosing => _closing.IsCancellationRequested;

    private IConsumerService[] Consumers
    {
        get
        {
            lock (_consumers)
                return [.. _consumers.Values];
        }
    }

    public async Task StartAsync(string name, Func<IConsumerService> make)
    {
        await _turn.WaitAsync().ConfigureAwait(false);
        try
        {
            ThrowIfClosing();
            // A second one would wait for the name for ever.
            if (_consumers.TryGetValue(name, out IConsumerService? former) && !former.HasEnded)
                throw new InvalidOperationException(
                    $"A consumer of this name runs already: queue=\"{Named.Name}\", consumer=\"{name}\".");
            IConsumerService consumer = make();
            if (former is not null)
                await former.StopAsync(_closing.Token).ConfigureAwait(false);
            try
            {
                await WithoutContext(() => consumer.StartAsync(_closing.Token)).ConfigureAwait(false);
                lock (_consumers)
                {
                    // Who closes the queue may not have waited for this.
                    ThrowIfClosing();
                    _consumers[name] = consumer;
                }
            }
            catch
            {
                // Of a group, some members may run.
                await consumer.StopAsync(new CancellationToken(canceled: true)).ConfigureAwait(false);
                consumer.Dispose();
                ThrowIfClosing();
                throw;
            }

            former?.Dispose();
        }
        finally
        {
            _turn.Release();
        }
    }

    public async Task StopConsumersAsync(CancellationToken cancellationToken)
    {
        try
        {
            // Not for longer: a second call may have less patience than this one.
            await _turn.WaitAsync(cancellationToken).ConfigureAwait(false);
            _turn.Release();
        }
        catch (OperationCanceledException)
        {
            // A start that does not come to its end ends with the queue, or with the application.
        }

        await Task.WhenAll(Consumers.Select(consumer => consumer.StopAsync(cancellationToken))).ConfigureAwait(false);
    }

    /// <summary>From now on no consumer is started, and those that run end; the next step is to wait for them.</summary>
    public void BeginClose() => _closing.Cancel();

    /// <summary>The consumers have stopped: closes the queue. Each call waits for the one that does it.</summary>
    public Task CloseAsync() => _closed.Value;

    /// <summary>What is begun in a request must not keep the request's context: its trace, its user, its objects.</summary>
    private static Task WithoutContext(Func<Task> begin)
    {
        if (ExecutionContext.IsFlowSuppressed())
            return begin();
        using (ExecutionContext.SuppressFlow())
            return begin();
    }

    private void ThrowIfClosing()
    {
        if (IsClosing)
            throw new InvalidOperationException($"The queue is closed: name=\"{Named.Name}\".");
    }

    private async Task CloseOnceAsync()
    {
        foreach (IConsumerService consumer in Consumers)
            consumer.Dispose();
        await _watch.ConfigureAwait(false);
        Queue.Dispose();
    }
}
