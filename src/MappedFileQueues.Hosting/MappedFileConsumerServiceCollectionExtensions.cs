using System.Diagnostics.CodeAnalysis;
using MappedFileQueues;
using MappedFileQueues.Hosting;
using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>
/// Adds consumers to an application: background services that call a handler. The queue must be added too. The handler is added
/// as a scoped service unless the application has added it itself. Each call has a scope of its own, which is disposed when the
/// handler has returned (<see cref="HostedConsumerOptions.ScopePerCall"/>).
/// </summary>
public static class MappedFileConsumerServiceCollectionExtensions
{
    /// <summary>Adds a consumer of a queue of structs, whose handler gets one message at a time.</summary>
    /// <typeparam name="T">The queue's struct.</typeparam>
    /// <typeparam name="THandler">The handler.</typeparam>
    /// <param name="services">The application's services.</param>
    /// <param name="queue">The queue's name in the application.</param>
    /// <param name="configure">Sets options, over those of the configuration.</param>
    /// <param name="consumer">The consumer's name; "" for the default consumer. While another process consumes under this name,
    /// this one waits.</param>
    /// <returns>The services.</returns>
    /// <exception cref="ArgumentException">No queue or consumer can have this name.</exception>
    /// <exception cref="InvalidOperationException">A consumer of this name was added already.</exception>
    public static IServiceCollection AddMappedFileConsumer<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where T : unmanaged
        where THandler : class, IMessageHandler<T> =>
        Add(services, queue, consumer, configure, Structs<T>(queue, consumer), MessagesTo<T, THandler>());

    /// <summary>Adds a consumer of a queue of structs, whose handler gets the messages that are there.</summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileBatchConsumer<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where T : unmanaged
        where THandler : class, IMessageBatchHandler<T> =>
        Add(services, queue, consumer, configure, Structs<T>(queue, consumer), BatchesTo<T, THandler>());

    /// <summary>Adds a consumer of a queue of messages of any length, whose handler gets the bytes of one at a time.</summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileConsumer<
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageHandler<ReadOnlyMemory<byte>> =>
        Add(services, queue, consumer, configure, Bytes(queue, consumer), MessagesTo<ReadOnlyMemory<byte>, THandler>());

    /// <summary>
    /// Adds a consumer of a queue of messages of any length, whose handler gets the bytes of those that are there. A batch ends
    /// with the message that makes it 1 MiB long.
    /// </summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileBatchConsumer<
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageBatchHandler<ReadOnlyMemory<byte>> =>
        Add(services, queue, consumer, configure, Bytes(queue, consumer), BatchesTo<ReadOnlyMemory<byte>, THandler>());

    /// <summary>
    /// Adds a consumer of a queue of messages of any length, whose handler gets what a deserializer makes of one at a time. A
    /// message that it cannot read counts as refused at every attempt.
    /// </summary>
    /// <typeparam name="T">What the deserializer makes.</typeparam>
    /// <typeparam name="THandler">The handler.</typeparam>
    /// <param name="services">The application's services.</param>
    /// <param name="queue">The queue's name in the application.</param>
    /// <param name="deserializer">Makes the messages.</param>
    /// <param name="configure">Sets options, over those of the configuration.</param>
    /// <param name="consumer">The consumer's name; "" for the default consumer.</param>
    /// <returns>The services.</returns>
    /// <exception cref="ArgumentException">No queue or consumer can have this name.</exception>
    /// <exception cref="InvalidOperationException">A consumer of this name was added already.</exception>
    public static IServiceCollection AddMappedFileConsumer<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, IMessageDeserializer<T> deserializer,
        Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageHandler<T> => Add(
            services, queue, consumer, configure, Deserialized(queue, consumer, deserializer), MessagesTo<T, THandler>());

    /// <summary>The same, with a handler that gets the messages that are there.</summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, IMessageDeserializer{T},
    /// Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileBatchConsumer<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, IMessageDeserializer<T> deserializer,
        Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageBatchHandler<T> => Add(
            services, queue, consumer, configure, Deserialized(queue, consumer, deserializer), BatchesTo<T, THandler>());

    private static HandlerKind<T> MessagesTo<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>()
        where THandler : class, IMessageHandler<T> => new(
            static services => services.TryAddScoped<THandler>(),
            static (scopes, isPerCall) => new MessageCall<T, THandler>(scopes, isPerCall));

    private static HandlerKind<T> BatchesTo<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>()
        where THandler : class, IMessageBatchHandler<T> => new(
            static services => services.TryAddScoped<THandler>(),
            static (scopes, isPerCall) => new BatchCall<T, THandler>(scopes, isPerCall));

    private static QueueSource<T> Structs<T>(string queue, string consumer)
        where T : unmanaged => new(
            typeof(MappedFileQueue<T>),
            async (provider, options, cancellationToken) => new StructSource<T>(
                await provider.GetRequiredKeyedService<MappedFileQueue<T>>(queue)
                    .OpenConsumerAsync(consumer, options, cancellationToken).ConfigureAwait(false)));

    private static QueueSource<ReadOnlyMemory<byte>> Bytes(string queue, string consumer) => new(
        typeof(MappedFileQueue),
        async (provider, options, cancellationToken) => new ByteSource(
            await provider.GetRequiredKeyedService<MappedFileQueue>(queue)
                .OpenConsumerAsync(consumer, options, cancellationToken).ConfigureAwait(false)));

    private static QueueSource<T> Deserialized<T>(string queue, string consumer, IMessageDeserializer<T> deserializer)
    {
        ArgumentNullException.ThrowIfNull(deserializer);
        return new QueueSource<T>(
            typeof(MappedFileQueue),
            async (provider, options, cancellationToken) => new DeserializedSource<T>(
                await provider.GetRequiredKeyedService<MappedFileQueue>(queue)
                    .OpenConsumerAsync(consumer, options, cancellationToken).ConfigureAwait(false),
                deserializer));
    }

    private static IServiceCollection Add<T>(
        IServiceCollection services,
        string queue,
        string consumer,
        Action<HostedConsumerOptions>? configure,
        QueueSource<T> source,
        HandlerKind<T> handler)
    {
        ArgumentNullException.ThrowIfNull(services);
        QueueNames.ThrowIfInvalid(queue);
        QueueNames.ThrowIfInvalid(consumer, mayBeEmpty: true);
        // A store does not tell the case of a consumer's name.
        AddedConsumer added = new(queue, consumer.ToUpperInvariant());
        if (services.Any(service => !service.IsKeyedService && added.Equals(service.ImplementationInstance)))
        {
            throw new InvalidOperationException(
                $"A consumer of this name was added already: queue=\"{queue}\", consumer=\"{consumer}\".");
        }

        services.AddSingleton(added);
        handler.Add(services);
        string key = QueueNames.KeyOf(queue, consumer);
        OptionsBuilder<HostedConsumerOptions> builder = services.AddOptions<HostedConsumerOptions>(key)
            .Configure<IServiceProvider>((options, provider) =>
            {
                if (OptionsSection.Find(provider, QueueNames.ConsumerPathOf(queue, consumer)) is { } section)
                    section.Bind(options);
            });
        if (configure is not null)
            builder.Configure(configure);
        builder.ValidateOnStart();
        services.AddSingleton<IValidateOptions<HostedConsumerOptions>>(
            provider => new ConsumerOptionsCheck(queue, consumer, provider));
        return services.AddSingleton<IHostedService>(provider =>
        {
            NamedQueue named = FindQueue(provider, queue, source.Kind);
            HostedConsumerOptions options = provider.GetRequiredService<IOptionsMonitor<HostedConsumerOptions>>().Get(key);
            return new ConsumerService<T>(
                named,
                consumer,
                options,
                (opening, cancellationToken) => source.Open(provider, opening, cancellationToken),
                handler.Make(provider.GetRequiredService<IServiceScopeFactory>(), options.ScopePerCall),
                provider.GetRequiredService<QueueMeter>(),
                provider.GetService<IHostApplicationLifetime>());
        });
    }

    private static NamedQueue FindQueue(IServiceProvider provider, string queue, Type kind)
    {
        AddedQueue added = provider.GetServices<AddedQueue>().FirstOrDefault(one => one.Name == queue)
            ?? throw new InvalidOperationException(
                $"A consumer needs its queue: name=\"{queue}\". Add it with AddMappedFileQueue.");
        return added.Kind == kind
            ? provider.GetRequiredKeyedService<NamedQueue>(queue)
            : throw new InvalidOperationException($"A consumer takes {Messages(kind)}, and its queue holds "
                + $"{Messages(added.Kind)}: name=\"{queue}\". Add both with the same type.");
    }

    private static string Messages(Type kind) =>
        kind.IsGenericType ? $"structs {kind.GenericTypeArguments[0]}" : "messages of any length";

    /// <summary>Opens a consumer, and waits for its name.</summary>
    private delegate ValueTask<MessageSource<T>> SourceOpener<T>(
        IServiceProvider provider, ConsumerOptions options, CancellationToken cancellationToken);

    /// <summary>Where a consumer's messages come from.</summary>
    /// <param name="Kind">The class of the queue that it needs.</param>
    /// <param name="Open">Opens the consumer.</param>
    private sealed record QueueSource<T>(Type Kind, SourceOpener<T> Open);

    /// <summary>What calls a handler of one of the two kinds.</summary>
    /// <param name="Add">Adds the handler to the services, unless the application has added it itself.</param>
    /// <param name="Make">Makes the call.</param>
    private sealed record HandlerKind<T>(Action<IServiceCollection> Add, Func<IServiceScopeFactory, bool, HandlerCall<T>> Make);

    /// <summary>A consumer that was added to the application; a second one of its name would wait for ever.</summary>
    private sealed record AddedConsumer(string Queue, string Consumer);
}
