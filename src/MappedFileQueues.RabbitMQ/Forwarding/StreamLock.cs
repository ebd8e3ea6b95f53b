using System.Diagnostics;
using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Envelopes;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using RabbitMQ.Client.Exceptions;

namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>
/// The lock of a store's forwarders, held by the channel that publishes: when the broker ends that channel, it ends lock and
/// publishing together, and nothing that the old holder sent can come after what the new one sends. In a cluster whose nodes lose
/// each other and keep their clients, a quorum queue may have a new holder before the old one's channel ends: then what both send
/// is in the stream, and fetchers leave out what they have seen. The old one does not get its token back, and ends by that.
/// </summary>
internal sealed class StreamLock
{
    private const int AccessRefused = 403;

    /// <summary>A waiter that gets nothing for this long makes sure that there is a token to get.</summary>
    private static readonly TimeSpan s_tokenPatience = TimeSpan.FromSeconds(1);

    /// <summary>
    /// The same for one that stands by. A token may be lost later too: by a time to live, a purge, or because a quorum queue of
    /// RabbitMQ 4 drops what was given back twenty times.
    /// </summary>
    private static readonly TimeSpan s_standbyPatience = TimeSpan.FromSeconds(5);

    private readonly ConfirmedChannel _channel;
    private readonly string _name;
    private readonly Holder? _holder;
    private readonly TimeSpan _tokenAgeMax;
    private bool _hasPut;

    private StreamLock(ConfirmedChannel channel, string name, Holder? holder, TimeSpan tokenAgeMax) =>
        (_channel, _name, _holder, _tokenAgeMax) = (channel, name, holder, tokenAgeMax);

    /// <summary>Waits for the lock.</summary>
    public static async Task<StreamLock> TakeAsync(
        ConfirmedChannel channel, StreamForwarderOptions options, Guid storeId, Action<string> onStandby,
        CancellationToken cancellationToken)
    {
        string name = NameOf(options, storeId);
        return options.Lock == StreamLockKind.Classic
            ? await TakeClassicAsync(channel, $"{name}.classic", cancellationToken).ConfigureAwait(false)
            : await TakeQuorumAsync(channel, name, options.TokenAgeMax, onStandby, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>
    /// Removes the queue of a lock that does not answer, so that the next attempt makes it anew. A broker that died within a
    /// second of making a quorum queue keeps its name, calls it running, and never answers whoever wants to consume from it
    /// (3.10.8). It says of such a queue that it is empty and that nobody uses it. It also says so of a queue whose other nodes
    /// are away, which it would remove by force: so the stream has to confirm a message first, which takes the majority of them.
    /// </summary>
    /// <returns>The queue's name.</returns>
    /// <exception cref="BrokerException">Somebody uses the queue.</exception>
    public static async Task<string> RemoveSilentAsync(
        BrokerConnection connection, StreamForwarderOptions options, Guid storeId, CancellationToken cancellationToken)
    {
        string name = NameOf(options, storeId);
        ConfirmedChannel probe = await ConfirmedChannel
            .OpenAsync(connection, 1, options.RequestTimeout, cancellationToken).ConfigureAwait(false);
        EnvelopeWriter writer = new(storeId, Guid.NewGuid(), 0, isDurable: false);
        writer.Begin(0);
        await probe.PublishConfirmedAsync(options.Stream, writer.End(EnvelopeKind.Marker, 0, 0), cancellationToken)
            .ConfigureAwait(false);
        IChannel own = await connection.OpenChannelAsync(confirms: false, matters: false, cancellationToken)
            .ConfigureAwait(false);
        QueueDeclareOk found = await connection.Ask(
            own.QueueDeclarePassiveAsync(name, cancellationToken), "look at the lock's queue", name, cancellationToken)
            .ConfigureAwait(false);
        if (found.MessageCount > 0 || found.ConsumerCount > 0)
        {
            throw new BrokerException(
                $"The lock's queue does not answer, and is in use: queue={name}, messages={found.MessageCount}, "
                + $"consumers={found.ConsumerCount}. If no forwarder of the store runs, delete the queue; it is made anew.");
        }

        await connection.Ask(
            own.QueueDeleteAsync(name, ifUnused: false, ifEmpty: false, cancellationToken: cancellationToken),
            "delete the lock's queue", name, cancellationToken).ConfigureAwait(false);
        return name;
    }

    /// <summary>
    /// Gives the token back and gets it again, when it has been out for long. Also a holder that always has something to do calls
    /// it, and one that still reads back. The lock is kept meanwhile: not the token makes the holder, but that it is the queue's
    /// active consumer, and it stays that until its channel ends. So the fence holds, before the marker and after it. Nothing is
    /// published for it, so the broker's numbering of what the channel publishes is not touched. A token that does not come back
    /// may be lost; if another one does not come either, somebody else is the active consumer.
    /// </summary>
    /// <exception cref="BrokerException">The lock is lost.</exception>
    public async Task RenewAsync(CancellationToken cancellationToken)
    {
        if (_holder is null)
            return;
        if (_holder.TakeOld(_tokenAgeMax) is { } tag)
        {
            _hasPut = false;
            await _channel.Connection.Ask(
                _channel.Channel.BasicNackAsync(tag, multiple: false, requeue: true, cancellationToken).AsTask(),
                "give the lock's token back", _name, cancellationToken).ConfigureAwait(false);
        }
        else if (_holder.WaitTime is { } since && _channel.Connection.IsLate(since))
        {
            if (_hasPut)
                throw new BrokerException("The broker has given the lock to another forwarder.");
            await PutTokenAsync(_channel.Connection, _name, cancellationToken).ConfigureAwait(false);
            _hasPut = true;
            _holder.WaitAgain();
        }
    }

    private static string NameOf(StreamForwarderOptions options, Guid storeId) => $"mfq.lock.{options.Stream}.{storeId:N}";

    private static async Task<StreamLock> TakeClassicAsync(
        ConfirmedChannel channel, string name, CancellationToken cancellationToken)
    {
        await DeclareAsync(channel, name, [], cancellationToken).ConfigureAwait(false);
        try
        {
            await channel.Connection.Ask(
                channel.Channel.BasicConsumeAsync(
                    name, autoAck: true, "", noLocal: false, exclusive: true, arguments: null,
                    new Holder(channel.Channel, channel.Connection), cancellationToken),
                "consume from the lock's queue", name, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception error) when (IsRefused(error))
        {
            throw new LockHeldException(name);
        }

        return new StreamLock(channel, name, null, Timeout.InfiniteTimeSpan);
    }

    private static async Task<StreamLock> TakeQuorumAsync(
        ConfirmedChannel channel, string name, TimeSpan tokenAgeMax, Action<string> onStandby,
        CancellationToken cancellationToken)
    {
        Dictionary<string, object?> arguments = new()
        {
            ["x-queue-type"] = "quorum",
            ["x-single-active-consumer"] = true,
            // Waiters that doubt add tokens; only one stays.
            ["x-max-length"] = 1,
        };
        await DeclareAsync(channel, name, arguments, cancellationToken).ConfigureAwait(false);
        BrokerConnection connection = channel.Connection;
        await connection.Ask(
            channel.Channel.BasicQosAsync(0, 1, global: false, cancellationToken), "set the prefetch of the lock's channel", name,
            cancellationToken).ConfigureAwait(false);
        Holder holder = new(channel.Channel, connection);
        await connection.Ask(
            channel.Channel.BasicConsumeAsync(
                name, autoAck: false, "", noLocal: false, exclusive: false, arguments: null, holder, cancellationToken),
            "consume from the lock's queue", name, cancellationToken).ConfigureAwait(false);
        TimeSpan patience = s_tokenPatience;
        for (int waits = 1; !await holder.WaitAsync(patience, cancellationToken).ConfigureAwait(false); waits++)
        {
            if (waits == 2)
            {
                onStandby(new LockHeldException(name).Message);
                patience = s_standbyPatience;
                continue;
            }

            await PutTokenAsync(connection, name, cancellationToken).ConfigureAwait(false);
        }

        return new StreamLock(channel, name, holder, tokenAgeMax);
    }

    /// <summary>
    /// On a channel of its own, which <see cref="ConfirmedChannel"/> explains. Once the channel is closed, the broker has it.
    /// </summary>
    private static async Task PutTokenAsync(BrokerConnection connection, string name, CancellationToken cancellationToken)
    {
        IChannel own = await connection.OpenChannelAsync(confirms: false, matters: false, cancellationToken)
            .ConfigureAwait(false);
        BasicProperties properties = new() { Persistent = true };
        await connection.Ask(
            own.BasicPublishAsync("", name, mandatory: false, properties, ReadOnlyMemory<byte>.Empty, cancellationToken).AsTask(),
            "publish the lock's token", name, cancellationToken).ConfigureAwait(false);
        await connection.Ask(own.CloseAsync(cancellationToken), "publish the lock's token", name, cancellationToken)
            .ConfigureAwait(false);
        if (own.CloseReason is { ReplyCode: not Constants.ReplySuccess } end)
            throw new BrokerException($"The channel ended: code={end.ReplyCode}, {end.ReplyText}");
    }

    private static Task DeclareAsync(
        ConfirmedChannel channel, string name, Dictionary<string, object?> arguments, CancellationToken cancellationToken) =>
        channel.Connection.Ask(
            channel.Channel.QueueDeclareAsync(
                name, durable: true, exclusive: false, autoDelete: false, arguments, cancellationToken: cancellationToken),
            "make the lock's queue", name, cancellationToken);

    /// <summary>Whether somebody else has the queue; the same code also tells an account that it may not read it.</summary>
    private static bool IsRefused(Exception? error) => error is not null
        && ((error is OperationInterruptedException { ShutdownReason.ReplyCode: AccessRefused }
                || error.Data["code"] is AccessRefused)
            && error.Message.Contains("exclusive use", StringComparison.Ordinal)
            || IsRefused(error.InnerException));

    /// <summary>The consumer of the lock's queue.</summary>
    private sealed class Holder(IChannel channel, BrokerConnection connection) : AsyncDefaultBasicConsumer(channel)
    {
        private readonly TaskCompletionSource _got = new(TaskCreationOptions.RunContinuationsAsynchronously);
        private readonly Lock _lock = new();
        private ulong _tag;
        private long _time;

        public override Task HandleBasicDeliverAsync(
            string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
            IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
        {
            lock (_lock)
                (_tag, _time) = (deliveryTag, Stopwatch.GetTimestamp());
            _got.TrySetResult();
            return Task.CompletedTask;
        }

        /// <summary>The broker takes the lock away: its queue was deleted, or lost its majority.</summary>
        public override Task HandleBasicCancelAsync(string consumerTag, CancellationToken cancellationToken = default)
        {
            connection.Fail(new BrokerException("The broker took the lock away."));
            return Task.CompletedTask;
        }

        /// <summary>Since when the token is awaited back, as a timestamp; null while it is here.</summary>
        public long? WaitTime
        {
            get
            {
                lock (_lock)
                    return _tag == 0 ? _time : null;
            }
        }

        public void WaitAgain()
        {
            lock (_lock)
                _time = Stopwatch.GetTimestamp();
        }

        public ulong? TakeOld(TimeSpan age)
        {
            lock (_lock)
            {
                if (_tag == 0 || Stopwatch.GetElapsedTime(_time) < age)
                    return null;
                ulong tag = _tag;
                (_tag, _time) = (0, Stopwatch.GetTimestamp());
                return tag;
            }
        }

        public async Task<bool> WaitAsync(TimeSpan limit, CancellationToken cancellationToken)
        {
            using CancellationTokenSource either =
                CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, connection.Lost);
            try
            {
                await _got.Task.WaitAsync(limit, either.Token).ConfigureAwait(false);
                return true;
            }
            catch (TimeoutException)
            {
                return false;
            }
            catch (OperationCanceledException) when (!cancellationToken.IsCancellationRequested)
            {
                connection.ThrowIfLost();
                throw;
            }
        }
    }
}
