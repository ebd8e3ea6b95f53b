using System.Collections.Concurrent;
using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Opens queues whose names are known at run time only, one for each tenant or device for example. They have what queues have
/// that are added at the start: options from the section `MappedFileQueues:NAME`, consumers, log events and metrics; health by
/// `AddMappedFileQueues`. A singleton that `AddMappedFileQueueFactory` adds. When the application ends, consumers end in order
/// and queues are closed. Any thread.
/// </summary>
public sealed class MappedFileQueueFactory : IAsyncDisposable
{
    private readonly Lock _lock = new();
    private readonly ConcurrentDictionary<string, OpenedQueue> _opened = new(StringComparer.Ordinal);
    private readonly IServiceProvider _services;
    private bool _isDisposed;

    internal MappedFileQueueFactory(IServiceProvider services) => _services = services;

    internal IEnumerable<NamedQueue> Queues =>
        _opened.Values.Where(opened => !opened.IsClosing).Select(opened => opened.Named);

    /// <summary>Opens a queue of structs. While it is open, further calls return the same one.</summary>
    /// <typeparam name="T">The message: a struct without references.</typeparam>
    /// <param name="name">The queue's name in the application: 1 to 100 characters of A-Z a-z 0-9 . _ -.</param>
    /// <param name="configure">Sets options, over those of the configuration; `StorePath` must be its own.</param>
    /// <returns>The queue, which the factory disposes.</returns>
    /// <exception cref="ArgumentException">No queue can have this name.</exception>
    /// <exception cref="OptionsValidationException">An option is wrong; the message names its key.</exception>
    /// <exception cref="InvalidOperationException">The queue was added at the start, is open with other messages, or is being
    /// closed.</exception>
    /// <exception cref="ObjectDisposedException">The application has ended.</exception>
    /// <exception cref="MappedFileQueueException">The store cannot be opened.</exception>
    public MappedFileQueue<T> Open<T>(string name, Action<HostedQueueOptions>? configure = null)
        where T : unmanaged =>
        (MappedFileQueue<T>)Open(name, typeof(MappedFileQueue<T>), configure, static named => named.Open<T>());

    /// <summary>Opens a queue of messages of any length.</summary>
    /// <inheritdoc cref="Open{T}(string, Action{HostedQueueOptions})"/>
    public MappedFileQueue Open(string name, Action<HostedQueueOptions>? configure = null) =>
        (MappedFileQueue)Open(name, typeof(MappedFileQueue), configure, static named => named.Open());

    /// <summary>
    /// Starts a consumer of an open queue, as `AddMappedFileConsumer` adds one. The application has added its handler to the
    /// services. A consumer that has stopped at an error may be started again.
    /// </summary>
    /// <typeparam name="T">The queue's struct.</typeparam>
    /// <typeparam name="THandler">The handler.</typeparam>
    /// <param name="queue">The queue's name.</param>
    /// <param name="configure">Sets options, over those of the configuration.</param>
    /// <param name="consumer">The consumer's name; "" for the default consumer.</param>
    /// <returns>A task that completes when the consumer has begun.</returns>
    /// <exception cref="ArgumentException">No consumer can have this name.</exception>
    /// <exception cref="OptionsValidationException">An option is wrong; the message names its key.</exception>
    /// <exception cref="InvalidOperationException">The queue is not open or holds other messages, a consumer of this name runs
    /// already, or the handler cannot be made.</exception>
    public Task StartConsumerAsync<T, THandler>(
        string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where T : unmanaged
        where THandler : class, IMessageHandler<T> =>
        StartAsync(queue, consumer, configure, ConsumerKind.OfStructs<T>(ConsumerKind.Messages<T, THandler>));

    /// <summary>Starts a consumer of structs, whose handler gets the messages that are there.</summary>
    /// <inheritdoc cref="StartConsumerAsync{T, THandler}(string, Action{HostedConsumerOptions}, string)"/>
    public Task StartBatchConsumerAsync<T, THandler>(
        string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where T : unmanaged
        where THandler : class, IMessageBatchHandler<T> =>
        StartAsync(queue, consumer, configure, ConsumerKind.OfStructs<T>(ConsumerKind.Batches<T, THandler>));

    /// <summary>Starts a consumer whose handler gets the bytes of one message at a time.</summary>
    /// <inheritdoc cref="StartConsumerAsync{T, THandler}(string, Action{HostedConsumerOptions}, string)"/>
    public Task StartConsumerAsync<THandler>(
        string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageHandler<ReadOnlyMemory<byte>> => StartAsync(
            queue, consumer, configure, ConsumerKind.OfBytes(ConsumerKind.Messages<ReadOnlyMemory<byte>, THandler>));

    /// <summary>Starts a consumer whose handler gets the bytes of the messages that are there.</summary>
    /// <inheritdoc cref="StartConsumerAsync{T, THandler}(string, Action{HostedConsumerOptions}, string)"/>
    public Task StartBatchConsumerAsync<THandler>(
        string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageBatchHandler<ReadOnlyMemory<byte>> => StartAsync(
            queue, consumer, configure, ConsumerKind.OfBytes(ConsumerKind.Batches<ReadOnlyMemory<byte>, THandler>));

    /// <summary>Starts a consumer whose handler gets what a deserializer makes of one message at a time.</summary>
    /// <typeparam name="T">What the deserializer makes.</typeparam>
    /// <typeparam name="THandler">The handler.</typeparam>
    /// <param name="queue">The queue's name.</param>
    /// <param name="deserializer">Makes the messages.</param>
    /// <param name="configure">Sets options, over those of the configuration.</param>
    /// <param name="consumer">The consumer's name; "" for the default consumer.</param>
    /// <inheritdoc cref="StartConsumerAsync{T, THandler}(string, Action{HostedConsumerOptions}, string)"/>
    public Task StartConsumerAsync<T, THandler>(
        string queue, IMessageDeserializer<T> deserializer, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageHandler<T> => StartAsync(
            queue, consumer, configure, ConsumerKind.OfDeserialized(deserializer, ConsumerKind.Messages<T, THandler>));

    /// <summary>The same, with a handler that gets the messages that are there.</summary>
    /// <inheritdoc cref="StartConsumerAsync{T, THandler}(string, IMessageDeserializer{T}, Action{HostedConsumerOptions},
    /// string)"/>
    public Task StartBatchConsumerAsync<T, THandler>(
        string queue, IMessageDeserializer<T> deserializer, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageBatchHandler<T> => StartAsync(
            queue, consumer, configure, ConsumerKind.OfDeserialized(deserializer, ConsumerKind.Batches<T, THandler>));

    /// <summary>
    /// Ends the consumers of a queue, then closes it. The calls in hand may finish, so none of them may await this. Until then
    /// the queue is the factory's: a second call and the end of the application wait for it too, and
    /// <see cref="Open(string, Action{HostedQueueOptions})"/> refuses its name.
    /// </summary>
    /// <param name="name">The queue's name.</param>
    /// <param name="cancellationToken">Ends the patience: the tokens of the handlers are cancelled.</param>
    /// <returns>A task that completes when the queue is closed; with false when no such queue is open.</returns>
    public async Task<bool> CloseAsync(string name, CancellationToken cancellationToken = default)
    {
        if (!_opened.TryGetValue(name, out OpenedQueue? opened))
            return false;
        // Without an await before it: when this call returns, no consumer begins another message.
        opened.BeginClose();
        await opened.StopConsumersAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            await opened.CloseAsync().ConfigureAwait(false);
        }
        finally
        {
            _opened.TryRemove(KeyValuePair.Create(name, opened));
        }

        return true;
    }

    /// <summary>Closes all queues. The patience of consumers that still run is over.</summary>
    /// <returns>A task that completes when they are closed.</returns>
    public async ValueTask DisposeAsync()
    {
        lock (_lock)
            _isDisposed = true;
        await Task.WhenAll(_opened.Keys.Select(name => CloseAsync(name, new CancellationToken(canceled: true))))
            .ConfigureAwait(false);
    }

    /// <summary>The application ends: the consumers do, as those that were added at the start.</summary>
    internal Task StopConsumersAsync(CancellationToken cancellationToken) =>
        Task.WhenAll(_opened.Values.Select(opened => opened.StopConsumersAsync(cancellationToken)));

    private object Open(
        string name, Type kind, Action<HostedQueueOptions>? configure, Func<NamedQueue, IDisposable> open)
    {
        QueueNames.ThrowIfInvalid(name);
        // One at a time: two of one store would be two queues.
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            if (_opened.TryGetValue(name, out OpenedQueue? opened))
            {
                if (opened.IsClosing)
                    throw new InvalidOperationException(
                        $"The queue is being closed: name=\"{name}\". Await {nameof(CloseAsync)} before.");
                return opened.Queue.GetType() == kind
                    ? opened.Queue
                    : throw new InvalidOperationException($"The queue is open with other messages: name=\"{name}\".");
            }

            if (_services.GetServices<AddedQueue>().Any(added => added.Name == name))
                throw new InvalidOperationException(
                    $"The queue was added at the start: name=\"{name}\". Ask the container for it.");
            HostedQueueOptions options = new();
            OptionsSection.ReadQueue(_services, name, options);
            configure?.Invoke(options);
            ThrowIfFailed(name, new QueueOptionsCheck(name, _services).Validate(name, options), options);
            NamedQueue named = new(
                name, options, _services.GetRequiredService<ILoggerFactory>().CreateLogger(QueueLog.Category));
            _opened[name] = opened = new OpenedQueue(named, open(named));
            return opened.Queue;
        }
    }

    private async Task StartAsync<T>(
        string queue, string consumer, Action<HostedConsumerOptions>? configure, ConsumerKind<T> kind)
    {
        QueueNames.ThrowIfInvalid(consumer, mayBeEmpty: true);
        if (!_opened.TryGetValue(queue, out OpenedQueue? opened))
            throw new InvalidOperationException($"A consumer needs its queue: name=\"{queue}\". Open it before.");
        kind.ThrowIfOther(opened.Queue.GetType(), queue);
        HostedConsumerOptions options = new();
        OptionsSection.ReadConsumer(_services, queue, consumer, options);
        configure?.Invoke(options);
        string key = QueueNames.KeyOf(queue, consumer);
        ThrowIfFailed(key, new ConsumerOptionsCheck(queue, consumer, _services).Validate(key, options), options);
        await opened.StartAsync(
            consumer, () => kind.Make(_services, opened.Named, () => opened.Queue, consumer, options)).ConfigureAwait(false);
    }

    private static void ThrowIfFailed(string name, ValidateOptionsResult result, object options)
    {
        if (result.Failed)
            throw new OptionsValidationException(name, options.GetType(), result.Failures);
    }
}
