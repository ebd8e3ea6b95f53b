using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Envelopes;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>
/// Looks whether a stream that does not bring what was fetched last is another one. A replica that has just started is behind
/// for a while, and then brings nothing either; but what it holds was fetched. So only an envelope before that place which was
/// not fetched is a proof.
/// </summary>
internal sealed class StreamEnd : AsyncDefaultBasicConsumer
{
    private const ushort Prefetch = 200;

    private readonly long _last;
    private readonly Func<StreamEnvelope, bool> _isNew;
    private readonly TaskCompletionSource<bool> _answer = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _count;

    private StreamEnd(IChannel channel, long last, Func<StreamEnvelope, bool> isNew)
        : base(channel) => (_last, _isNew) = (last, isNew);

    /// <summary>
    /// Reads from the last chunk on: whether there is an envelope before <paramref name="last"/> that was never fetched. False if
    /// none comes within the patience.
    /// </summary>
    public static async Task<bool> HoldsNewAsync(
        BrokerConnection connection, string stream, long last, Func<StreamEnvelope, bool> isNew, TimeSpan patience,
        CancellationToken cancellationToken)
    {
        IChannel channel = await connection.OpenChannelAsync(confirms: false, matters: false, cancellationToken)
            .ConfigureAwait(false);
        StreamEnd end = new(channel, last, isNew);
        await StreamQueue.ReadAsync(connection, end, stream, Prefetch, "last", cancellationToken).ConfigureAwait(false);
        try
        {
            return await end._answer.Task.WaitAsync(patience, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException)
        {
            return false;
        }
        finally
        {
            await connection.Ask(channel.CloseAsync(cancellationToken), cancellationToken).ConfigureAwait(false);
        }
    }

    public override async Task HandleBasicDeliverAsync(
        string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
        IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
    {
        if (_answer.Task.IsCompleted)
            return;
        if (StreamQueue.OffsetOf(properties) >= _last)
            _answer.TrySetResult(false);
        else if (IsNew(body))
            _answer.TrySetResult(true);
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
