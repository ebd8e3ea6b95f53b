using Microsoft.Extensions.DependencyInjection;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>Calls a handler, of either kind.</summary>
/// <typeparam name="T">What it gets.</typeparam>
internal abstract class HandlerCall<T> : IAsyncDisposable
{
    public abstract string HandlerName { get; }

    /// <summary>Whether it takes batches.</summary>
    public abstract bool TakesBatches { get; }

    /// <summary>Whether the application's services are gone, so that no call can succeed.</summary>
    public abstract bool IsContainerDisposed { get; }

    /// <summary>Makes the first handler, so that a missing service ends the application's start.</summary>
    public abstract ValueTask PrepareAsync();

    public abstract ValueTask HandleAsync(T message, ConsumeContext context, CancellationToken cancellationToken);

    public abstract ValueTask HandleAsync(
        ReadOnlyMemory<T> messages, ConsumeContext context, CancellationToken cancellationToken);

    public abstract ValueTask DisposeAsync();
}

/// <summary>A handler whose instances live in scopes: one for each call, or one that is kept.</summary>
/// <typeparam name="T">What it gets.</typeparam>
/// <typeparam name="THandler">The handler.</typeparam>
internal abstract class ScopedCall<T, THandler>(IServiceScopeFactory scopes, bool isPerCall) : HandlerCall<T>
    where THandler : class
{
    private AsyncServiceScope _scope;
    private THandler? _kept;

    public override string HandlerName => typeof(THandler).Name;

    public override bool IsContainerDisposed
    {
        get
        {
            try
            {
                scopes.CreateScope().Dispose();
                return false;
            }
            catch (ObjectDisposedException)
            {
                return true;
            }
        }
    }

    public override async ValueTask PrepareAsync()
    {
        _scope = scopes.CreateAsyncScope();
        try
        {
            _kept = _scope.ServiceProvider.GetRequiredService<THandler>();
        }
        finally
        {
            // Also when it cannot be made: what was made for it is disposed.
            if (isPerCall || _kept is null)
            {
                _kept = null;
                await _scope.DisposeAsync().ConfigureAwait(false);
            }
        }
    }

    public override ValueTask DisposeAsync()
    {
        ValueTask disposal = _kept is null ? default : _scope.DisposeAsync();
        _kept = null;
        return disposal;
    }

    protected ValueTask CallAsync<TMessage>(
        Func<THandler, TMessage, ConsumeContext, CancellationToken, ValueTask> call,
        TMessage message,
        ConsumeContext context,
        CancellationToken cancellationToken) =>
        _kept is { } kept
            ? call(kept, message, context, cancellationToken)
            : CallInScopeAsync(call, message, context, cancellationToken);

    private async ValueTask CallInScopeAsync<TMessage>(
        Func<THandler, TMessage, ConsumeContext, CancellationToken, ValueTask> call,
        TMessage message,
        ConsumeContext context,
        CancellationToken cancellationToken)
    {
        AsyncServiceScope scope = scopes.CreateAsyncScope();
        await using (scope.ConfigureAwait(false))
        {
            THandler handler = scope.ServiceProvider.GetRequiredService<THandler>();
            await call(handler, message, context, cancellationToken).ConfigureAwait(false);
        }
    }
}

/// <summary>A handler of messages.</summary>
internal sealed class MessageCall<T, THandler>(IServiceScopeFactory scopes, bool isPerCall)
    : ScopedCall<T, THandler>(scopes, isPerCall)
    where THandler : class, IMessageHandler<T>
{
    public override bool TakesBatches => false;

    public override ValueTask HandleAsync(T message, ConsumeContext context, CancellationToken cancellationToken) =>
        CallAsync(static (handler, one, at, token) => handler.HandleAsync(one, at, token), message, context, cancellationToken);

    public override ValueTask HandleAsync(
        ReadOnlyMemory<T> messages, ConsumeContext context, CancellationToken cancellationToken) =>
        throw new NotSupportedException();
}

/// <summary>A handler of batches.</summary>
internal sealed class BatchCall<T, THandler>(IServiceScopeFactory scopes, bool isPerCall)
    : ScopedCall<T, THandler>(scopes, isPerCall)
    where THandler : class, IMessageBatchHandler<T>
{
    private readonly T[] _single = new T[1];

    public override bool TakesBatches => true;

    public override ValueTask HandleAsync(T message, ConsumeContext context, CancellationToken cancellationToken)
    {
        _single[0] = message;
        return HandleAsync(_single.AsMemory(), context, cancellationToken);
    }

    public override ValueTask HandleAsync(
        ReadOnlyMemory<T> messages, ConsumeContext context, CancellationToken cancellationToken) =>
        CallAsync(static (handler, all, at, token) => handler.HandleAsync(all, at, token), messages, context, cancellationToken);
}
