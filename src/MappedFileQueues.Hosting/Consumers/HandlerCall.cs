namespace MappedFileQueues.Hosting.Consumers;

/// <summary>Calls a handler, of either kind.</summary>
/// <typeparam name="T">What it gets.</typeparam>
internal abstract class HandlerCall<T>
{
    public abstract string HandlerName { get; }

    /// <summary>Whether it takes batches.</summary>
    public abstract bool TakesBatches { get; }

    public abstract ValueTask HandleAsync(T message, ConsumeContext context, CancellationToken cancellationToken);

    public abstract ValueTask HandleAsync(
        ReadOnlyMemory<T> messages, ConsumeContext context, CancellationToken cancellationToken);
}

/// <summary>A handler of messages.</summary>
internal sealed class MessageCall<T>(IMessageHandler<T> handler) : HandlerCall<T>
{
    public override string HandlerName => handler.GetType().Name;

    public override bool TakesBatches => false;

    public override ValueTask HandleAsync(T message, ConsumeContext context, CancellationToken cancellationToken) =>
        handler.HandleAsync(message, context, cancellationToken);

    public override ValueTask HandleAsync(
        ReadOnlyMemory<T> messages, ConsumeContext context, CancellationToken cancellationToken) =>
        throw new NotSupportedException();
}

/// <summary>A handler of batches.</summary>
internal sealed class BatchCall<T>(IMessageBatchHandler<T> handler) : HandlerCall<T>
{
    private readonly T[] _single = new T[1];

    public override string HandlerName => handler.GetType().Name;

    public override bool TakesBatches => true;

    public override ValueTask HandleAsync(T message, ConsumeContext context, CancellationToken cancellationToken)
    {
        _single[0] = message;
        return handler.HandleAsync(_single, context, cancellationToken);
    }

    public override ValueTask HandleAsync(
        ReadOnlyMemory<T> messages, ConsumeContext context, CancellationToken cancellationToken) =>
        handler.HandleAsync(messages, context, cancellationToken);
}
