using System.Diagnostics;
using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Diagnostics;
using MappedFileQueues.RabbitMQ.Envelopes;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>What the stream says about a store.</summary>
/// <param name="To">Up to where the stream holds the store; -1 if it holds nothing of it.</param>
/// <param name="Epoch">The store's epoch then.</param>
/// <param name="IsDurable">Whether that was on the store's disk before it left.</param>
/// <param name="Other">Another store of which the stream holds something; null if none was seen.</param>
internal readonly record struct StreamTail(long To, long Epoch, bool IsDurable, Guid? Other)
{
    private const ushort Prefetch = 200;
    private const long FirstStep = 64;
    private const long StepFactor = 8;
    private const long StepMax = long.MaxValue / StepFactor;

    /// <summary>
    /// Fences whoever had the lock before, and finds out up to where the stream holds the store. The marker comes after
    /// everything that an earlier holder has sent: its channel, and with it all that was on the way, ended before the lock was
    /// free. Reading goes from the last chunk until the marker is seen, because a replica may be behind; only then does the last
    /// envelope count. If the marker is alone in the last chunk, the reading begins again further and further back.
    /// A channel of its own reads: on the other one, acknowledging what was read would acknowledge the lock's token too, and what
    /// comes after the marker would stay without an acknowledgement until the broker ends the channel because of it.
    /// </summary>
    public static async Task<StreamTail> FindAsync(
        ConfirmedChannel channel, StreamLock heldLock, StreamForwarderOptions options, Guid storeId, Guid session,
        Action<long, string> onForeign, CancellationToken cancellationToken)
    {
        string stream = options.Stream;
        EnvelopeWriter writer = new(storeId, session, 0, isDurable: false);
        writer.Begin(0);
        if (PlantedFaults.Has(PlantedFault.NoBarrier))
        {
            Scan hasty = new(channel, heldLock, channel.Channel, options, storeId, session, onForeign);
            await hasty.ReadHastilyAsync(stream, cancellationToken).ConfigureAwait(false);
            if (hasty.Found.To >= 0)
                return hasty.Found;
        }
        await channel.PublishConfirmedAsync(stream, writer.End(EnvelopeKind.Marker, 0, 0), cancellationToken)
            .ConfigureAwait(false);

        IChannel reader = await channel.Connection.OpenChannelAsync(confirms: false, matters: false, cancellationToken)
            .ConfigureAwait(false);
        Scan scan = new(channel, heldLock, reader, options, storeId, session, onForeign);
        await scan.ReadAsync(stream, "last", cancellationToken).ConfigureAwait(false);
        for (long step = FirstStep; scan.Found.To < 0 && scan.From > 0; step = Math.Min(step, StepMax) * StepFactor)
        {
            long from = Math.Max(0, scan.MarkerOffset - step);
            Scan further = new(channel, heldLock, reader, options, storeId, session, onForeign);
            await further.ReadAsync(stream, from, cancellationToken).ConfigureAwait(false);
            scan = further;
        }

        await channel.Connection.Ask(reader.CloseAsync(cancellationToken), "close a channel", stream, cancellationToken)
            .ConfigureAwait(false);
        return scan.Found;
    }

    /// <summary>Reads from a place up to the marker of a session.</summary>
    private sealed class Scan(
        ConfirmedChannel channel, StreamLock heldLock, IChannel reader, StreamForwarderOptions options, Guid storeId,
        Guid session, Action<long, string> onForeign) : AsyncDefaultBasicConsumer(reader)
    {
        private const int AckInterval = Prefetch / 2;

        private readonly TaskCompletionSource _done = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private long _lastTime = Stopwatch.GetTimestamp();
        private int _count;

        public StreamTail Found { get; private set; } = new(-1, 0, false, null);

        public long MarkerOffset { get; private set; }

        /// <summary>The place where the reading was asked to begin.</summary>
        public long From { get; private set; }

        public async Task ReadAsync(string stream, object place, CancellationToken cancellationToken)
        {
            From = place is long number ? number : long.MaxValue;
            string tag = await StreamQueue
                .ReadAsync(channel.Connection, this, stream, Prefetch, place, cancellationToken).ConfigureAwait(false);
            while (!_done.Task.IsCompleted)
            {
                channel.ThrowIfLate();
                // A long stream may take longer to read than the broker leaves the token out.
                await heldLock.RenewAsync(cancellationToken).ConfigureAwait(false);
                if (Channel.CloseReason is { } end)
                    throw new BrokerException($"The channel ended: code={end.ReplyCode}, {end.ReplyText}");
                if (channel.Connection.IsLate(Volatile.Read(ref _lastTime)))
                    throw new BrokerException(
                        $"The end of the stream did not come within {options.RequestTimeout.TotalSeconds} s: stream={stream}.");
                try
                {
                    await _done.Task.WaitAsync(TimeSpan.FromMilliseconds(100), cancellationToken).ConfigureAwait(false);
                }
                catch (TimeoutException)
                {
                    // Another look at the connection.
                }
            }

            await _done.Task.ConfigureAwait(false);
            await channel.Connection
                .Ask(Channel.BasicCancelAsync(tag, false, cancellationToken), "end the reading", stream, cancellationToken)
                .ConfigureAwait(false);
        }

        public async Task ReadHastilyAsync(string stream, CancellationToken cancellationToken)
        {
            await channel.Channel.BasicQosAsync(0, Prefetch, global: false, cancellationToken).ConfigureAwait(false);
            string tag = await channel.Channel.BasicConsumeAsync(
                stream, autoAck: false, "", noLocal: false, exclusive: false,
                new Dictionary<string, object?> { [StreamQueue.OffsetName] = "last" }, this, cancellationToken)
                .ConfigureAwait(false);
            for (int look = 0; look < 100 && Found.To < 0; look++)
                await Task.Delay(10, cancellationToken).ConfigureAwait(false);
            _done.TrySetResult();
            await channel.Channel.BasicCancelAsync(tag, false, cancellationToken).ConfigureAwait(false);
        }

        public override async Task HandleBasicDeliverAsync(
            string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
            IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
        {
            if (_done.Task.IsCompleted)
                return;
            long offset = StreamQueue.OffsetOf(properties);
            if (offset < 0)
            {
                // Nothing is acknowledged: a queue of another kind would lose it.
                _done.TrySetException(StreamQueue.NoStream(routingKey));
                return;
            }

            Volatile.Write(ref _lastTime, Stopwatch.GetTimestamp());
            if (++_count % AckInterval == 0)
                await Channel.BasicAckAsync(deliveryTag, multiple: true, cancellationToken).ConfigureAwait(false);
            StreamEnvelope envelope;
            try
            {
                envelope = StreamEnvelope.Parse(body);
            }
            catch (EnvelopeFormatException error)
            {
                try
                {
                    // What one of a later version says about the store, nobody knows here. Others say nothing about it.
                    StreamQueue.ThrowIfOfAnotherVersion(options, body, offset, error);
                    if (EnvelopeLayout.IsOfAnotherVersion(body.Span))
                        onForeign(offset, error.Message);
                }
                catch (EnvelopeFormatException refused)
                {
                    _done.TrySetException(refused);
                }

                return;
            }

            if (envelope.Kind == EnvelopeKind.Marker && envelope.Session == session)
            {
                MarkerOffset = offset;
                _done.TrySetResult();
            }
            else if (envelope.Kind == EnvelopeKind.Records)
            {
                Found = envelope.StoreId == storeId
                    ? Found with { To = envelope.To, Epoch = envelope.Epoch, IsDurable = envelope.IsDurable }
                    : Found with { Other = envelope.StoreId };
            }
        }

        public override Task HandleBasicCancelAsync(string consumerTag, CancellationToken cancellationToken = default)
        {
            channel.Connection.Fail(new BrokerException("The broker ended the reading of the stream."));
            return Task.CompletedTask;
        }
    }
}
