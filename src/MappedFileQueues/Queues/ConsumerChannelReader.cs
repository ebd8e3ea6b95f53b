using System.Diagnostics.CodeAnalysis;
using System.Threading.Channels;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues;

/// <summary>
/// A consumer as the type that pipelines of channels read from. A message counts as done when the next one is asked for. It
/// has no end of its own: it ends with the consumer.
/// </summary>
/// <param name="core">The consumer.</param>
/// <param name="tryTake">Reads the next message without waiting.</param>
internal sealed class ConsumerChannelReader<T>(LogConsumer core, TryTake<T> tryTake) : ChannelReader<T>
{
    public override Task Completion => core.Ended;

    /// <inheritdoc/>
    public override bool TryRead([MaybeNullWhen(false)] out T item)
    {
        try
        {
            core.Commit();
            return tryTake(out item);
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
            return await core.WaitForMessageAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (ObjectDisposedException)
        {
            return false;
        }
    }
}
