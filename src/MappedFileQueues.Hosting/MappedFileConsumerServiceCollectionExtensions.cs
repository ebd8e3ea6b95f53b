using System.Diagnostics.CodeAnalysis;
using MappedFileQueues;
using MappedFileQueues.Hosting;
using MappedFileQueues.Hosting.Consumers;
using MappedFileQueues.Hosting.Queues;
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
        Add<T, THandler>(services, queue, consumer, configure, ConsumerKind.OfStructs<T>(ConsumerKind.Messages<T, THandler>));

    /// <summary>Adds a consumer of a queue of structs, whose handler gets the messages that are there.</summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileBatchConsumer<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where T : unmanaged
        where THandler : class, IMessageBatchHandler<T> =>
        Add<T, THandler>(services, queue, consumer, configure, ConsumerKind.OfStructs<T>(ConsumerKind.Batches<T, THandler>));

    /// <summary>Adds a consumer of a queue of messages of any length, whose handler gets the bytes of one at a time.</summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileConsumer<
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageHandler<ReadOnlyMemory<byte>> =>
        Add<ReadOnlyMemory<byte>, THandler>(
            services, queue, consumer, configure, ConsumerKind.OfBytes(ConsumerKind.Messages<ReadOnlyMemory<byte>, THandler>));

    /// <summary>
    /// Adds a consumer of a queue of messages of any length, whose handler gets the bytes of those that are there. A batch ends
    /// with the message that makes it 1 MiB long.
    /// </summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileBatchConsumer<
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageBatchHandler<ReadOnlyMemory<byte>> =>
        Add<ReadOnlyMemory<byte>, THandler>(
            services, queue, consumer, configure, ConsumerKind.OfBytes(ConsumerKind.Batches<ReadOnlyMemory<byte>, THandler>));

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
        where THandler : class, IMessageHandler<T> => Add<T, THandler>(
            services, queue, consumer, configure,
            ConsumerKind.OfDeserialized(deserializer, ConsumerKind.Messages<T, THandler>));

    /// <summary>The same, with a handler that gets the messages that are there.</summary>
    /// <inheritdoc cref="AddMappedFileConsumer{T, THandler}(IServiceCollection, string, IMessageDeserializer{T},
    /// Action{HostedConsumerOptions}, string)"/>
    public static IServiceCollection AddMappedFileBatchConsumer<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        this IServiceCollection services, string queue, IMessageDeserializer<T> deserializer,
        Action<HostedConsumerOptions>? configure = null, string consumer = "")
        where THandler : class, IMessageBatchHandler<T> => Add<T, THandler>(
            services, queue, consumer, configure,
            ConsumerKind.OfDeserialized(deserializer, ConsumerKind.Batches<T, THandler>));

    private static IServiceCollection Add<
        T, [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>(
        IServiceCollection services,
        string queue,
        string consumer,
        Action<HostedConsumerOptions>? configure,
        ConsumerKind<T> kind)
        where THandler : class
    {
        ArgumentNullException.ThrowIfNull(services);
        QueueNames.ThrowIfInvalid(queue);
        QueueNames.ThrowIfInvalid(consumer, mayBeEmpty: true);
        AddedConsumer added = new(queue, consumer);
        if (services.Any(service => !service.IsKeyedService && service.ImplementationInstance is AddedConsumer other
            && added.IsSame(other)))
        {
            throw new InvalidOperationException(
                $"A consumer of this name was added already: queue=\"{queue}\", consumer=\"{consumer}\".");
        }

        services.AddSingleton(added);
        services.TryAddScoped<THandler>();
        string key = QueueNames.KeyOf(queue, consumer);
        OptionsBuilder<HostedConsumerOptions> builder = services.AddOptions<HostedConsumerOptions>(key)
            .Configure<IServiceProvider>((options, provider) => OptionsSection.ReadConsumer(provider, queue, consumer, options));
        if (configure is not null)
            builder.Configure(configure);
        builder.ValidateOnStart();
        services.AddSingleton<IValidateOptions<HostedConsumerOptions>>(
            provider => new ConsumerOptionsCheck(queue, consumer, provider));
        return services.AddSingleton<IHostedService>(provider =>
        {
            AddedQueue found = provider.GetServices<AddedQueue>().FirstOrDefault(one => one.Name == queue)
                ?? throw new InvalidOperationException(
                    $"A consumer needs its queue: name=\"{queue}\". Add it with AddMappedFileQueue.");
            kind.ThrowIfOther(found.Kind, queue);
            return kind.Make(
                provider,
                provider.GetRequiredKeyedService<NamedQueue>(queue),
                () => provider.GetRequiredKeyedService(kind.Queue, queue),
                consumer,
                provider.GetRequiredService<IOptionsMonitor<HostedConsumerOptions>>().Get(key));
        });
    }
}
