using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Envelopes;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>
/// Looks at the last messages of a stream that brings nothing: whether it holds what is awaited, or is another one than before. A
/// replica that has just started is behind for a while, and then brings nothing either; but what it holds was fetched. So only an
/// envelope before the awaited place which was not fetched is a proof.
/// </summary>
internal sealed class StreamEnd : AsyncDefaultBasicConsumer
{
    private const ushort Prefetch = 200;

    private readonly long _awaited;
    private readonly Func<StreamEnvelope, bool> _isNew;
    private readonly TaskCompletionSource<Finding> _answer = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _count;

    private StreamEnd(IChannel channel, long awaited, Func<StreamEnvelope, bool> isNew)
        : base(channel) => (_awaited, _isNew) = (awaited, isNew);

    /// <summary>What the end of the stream says.</summary>
    public enum Finding
    {
        /// <summary>Nothing within the patience.</summary>
        Nothing,

        /// <summary>The awaited place is there.</summary>
        HoldsAwaited,

        /// <summary>Before the awaited place, there is an envelope that was never fetched.</summary>
        HoldsOthers,
    }

    /// <summary>Reads from the last chunk on.</summary>
    public static async Task<Finding> LookAsync(
        BrokerConnection connection, string stream, long awaited, Func<StreamEnvelope, bool> isNew, TimeSpan patience,
        CancellationToken cancellationToken)
    {
        IChannel channel = await connection.OpenChannelAsync(confirms: false, matters: false, cancellationToken)
            .ConfigureAwait(false);
        StreamEnd end = new(channel, awaited, isNew);
        await StreamQueue.ReadAsync(connection, end, stream, Prefetch, "last", cancellationToken).ConfigureAwait(false);
        using CancellationTokenSource either =
            CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, connection.Lost);
        Finding found = Finding.Nothing;
        try
        {
            found = await end._answer.Task.WaitAsync(patience, either.Token).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            // It is as if nothing were there.
        }
        catch (OperationCanceledException) when (!cancellationToken.IsCancellationRequested)
        {
            connection.ThrowIfLost();
        }

        await connection.Ask(channel.CloseAsync(cancellationToken), "close a channel", stream, cancellationToken)
            .ConfigureAwait(false);
        return found;
    }

    public override async Task HandleBasicDeliverAsync(
        string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
        IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
    {
        if (_answer.Task.IsCompleted)
            return;
        if (StreamQueue.OffsetOf(properties) >= _awaited)
            _answer.TrySetResult(Finding.HoldsAwaited);
        else if (IsNew(body))
            _answer.TrySetResult(Finding.HoldsOthers);
        else if (++_count % (Prefetch / 2) == 0)
            await Channel.BasicAckAsync(deliveryTag, multiple: true, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>What is no envelope says nothing.</summary>
    private bool IsNew(ReadOnlyMemory<byte> body)
    {
        try
        {
            return _isNew(StreamEnvelope.Parse(body));
        }
        catch (EnvelopeFormatException)
        {
            return false;
        }
    }
}
