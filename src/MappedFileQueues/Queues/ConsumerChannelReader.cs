using System.Diagnostics.CodeAnalysis;
using System.Threading.Channels;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues;

/// <summary>
/// A consumer as the type that pipelines of channels read from. A message counts as done when the next one is asked for. It
/// has no end of its own: it ends with the consumer.
/// </summary>
internal abstract class ConsumerChannelReader<T>(LogConsumer core) : ChannelReader<T>
{
    public override Task Completion => core.Ended;

    /// <inheritdoc/>
    public override bool TryRead([MaybeNullWhen(false)] out T item)
    {
        try
        {
            core.Commit();
            return TryTake(out item);
        }
        catch (ObjectDisposedException)
        {
            item = default;
            return false;
        }
    }

    /// <inheritdoc/>
    public override async ValueTask<bool> WaitToReadAsync(CancellationToken cancellationToken = default)
    {
        try
        {
            core.Commit();
            return await WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (ObjectDisposedException)
        {
            return false;
        }
    }

    /// <summary>Reads the next message without waiting.</summary>
    protected abstract bool TryTake([MaybeNullWhen(false)] out T message);

    /// <summary>Waits until there is one.</summary>
    protected abstract ValueTask<bool> WaitAsync(CancellationToken cancellationToken);
}
