using MappedFileQueues.Hosting.Consumers.Groups;
using MappedFileQueues.Hosting.Queues;
using MappedFileQueues.Hosting.Telemetry;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>What consumers of one kind of queue and one kind of handler have in common.</summary>
/// <typeparam name="T">What the handler gets.</typeparam>
/// <param name="Queue">The class of the queue that it needs.</param>
/// <param name="Open">Opens the consumer of a queue of that class by its name, and waits for the name.</param>
/// <param name="OpenMember">Opens a member of a group of such a queue by the group's name.</param>
/// <param name="Call">Makes what calls the handler.</param>
internal sealed record ConsumerKind<T>(
    Type Queue,
    Func<object, string, ConsumerOptions, CancellationToken, ValueTask<MessageSource<T>>> Open,
    Func<object, string, GroupOptions, GroupSource<T>> OpenMember,
    Func<IServiceScopeFactory, bool, HandlerCall<T>> Call)
{
    /// <summary>Makes a consumer, or the members of a group.</summary>
    /// <param name="services">The application's services.</param>
    /// <param name="named">The queue.</param>
    /// <param name="queue">The queue itself, which this may open.</param>
    /// <param name="consumer">The consumer's name.</param>
    /// <param name="options">Its options.</param>
    public IConsumerService Make(
        IServiceProvider services, NamedQueue named, Func<object> queue, string consumer, HostedConsumerOptions options) =>
        options.Group is null
            ? new ConsumerService<T>(
                named,
                consumer,
                options,
                (opening, cancellationToken) => Open(queue(), consumer, opening, cancellationToken),
                Call(services.GetRequiredService<IServiceScopeFactory>(), options.ScopePerCall),
                services.GetRequiredService<QueueMeter>(),
                services.GetService<IHostApplicationLifetime>())
            : new GroupService(
                [.. Enumerable.Range(1, options.Concurrency).Select(
                    number => MakeMember(services, named, queue, consumer, options, number))]);

    private GroupMemberService<T> MakeMember(
        IServiceProvider services, NamedQueue named, Func<object> queue, string consumer, HostedConsumerOptions options,
        int number)
    {
        string name = QueueNames.NameOfGroup(options.Group!);
        return new GroupMemberService<T>(
            named,
            options.Concurrency == 1 ? name : $"{name}/{number}",
            QueueNames.ConsumerPathOf(named.Name, consumer),
            options,
            opening => OpenMember(queue(), options.Group!, opening),
            Call(services.GetRequiredService<IServiceScopeFactory>(), options.ScopePerCall),
            services.GetRequiredService<QueueMeter>(),
            services.GetService<IHostApplicationLifetime>());
    }

    /// <summary>The queue of a consumer must hold what its handler gets.</summary>
    public void ThrowIfOther(Type queue, string name)
    {
        if (queue != Queue)
            throw new InvalidOperationException(
                $"A consumer takes {Messages(Queue)}, and its queue holds {Messages(queue)}: name=\"{name}\". "
                + "Use the same type.");
    }

    private static string Messages(Type kind) =>
        kind.IsGenericType ? $"structs {kind.GenericTypeArguments[0]}" : "messages of any length";
}

/// <summary>The kinds of consumers.</summary>
internal static class ConsumerKind
{
    public static ConsumerKind<T> OfStructs<T>(Func<IServiceScopeFactory, bool, HandlerCall<T>> call)
        where T : unmanaged => new(
            typeof(MappedFileQueue<T>),
            static async (queue, name, options, cancellationToken) => new StructSource<T>(
                await ((MappedFileQueue<T>)queue).OpenConsumerAsync(name, options, cancellationToken).ConfigureAwait(false)),
            static (queue, group, options) => new StructGroupSource<T>(
                ((MappedFileQueue<T>)queue).OpenGroupMember(group, options)),
            call);

    public static ConsumerKind<ReadOnlyMemory<byte>> OfBytes(
        Func<IServiceScopeFactory, bool, HandlerCall<ReadOnlyMemory<byte>>> call) => new(
            typeof(MappedFileQueue),
            static async (queue, name, options, cancellationToken) => new ByteSource(
                await ((MappedFileQueue)queue).OpenConsumerAsync(name, options, cancellationToken).ConfigureAwait(false)),
            static (queue, group, options) => new ByteGroupSource(((MappedFileQueue)queue).OpenGroupMember(group, options)),
            call);

    public static ConsumerKind<T> OfDeserialized<T>(
        IMessageDeserializer<T> deserializer, Func<IServiceScopeFactory, bool, HandlerCall<T>> call)
    {
        ArgumentNullException.ThrowIfNull(deserializer);
        return new(
            typeof(MappedFileQueue),
            async (queue, name, options, cancellationToken) => new DeserializedSource<T>(
                await ((MappedFileQueue)queue).OpenConsumerAsync(name, options, cancellationToken).ConfigureAwait(false),
                deserializer),
            (queue, group, options) => new DeserializedGroupSource<T>(
                ((MappedFileQueue)queue).OpenGroupMember(group, options), deserializer),
            call);
    }

    public static HandlerCall<T> Messages<T, THandler>(IServiceScopeFactory scopes, bool isPerCall)
        where THandler : class, IMessageHandler<T> => new MessageCall<T, THandler>(scopes, isPerCall);

    public static HandlerCall<T> Batches<T, THandler>(IServiceScopeFactory scopes, bool isPerCall)
        where THandler : class, IMessageBatchHandler<T> => new BatchCall<T, THandler>(scopes, isPerCall);
}
