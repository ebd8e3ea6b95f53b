using System.Diagnostics;
using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Diagnostics;
using RabbitMQ.Client;

namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>
/// The channel of a forwarder that publishes, counts confirms, and holds the lock. It publishes into the stream and nowhere else:
/// when the stream's leader changes, RabbitMQ 3 sends again with the channel's numbers what it has numbered by the stream, takes
/// as many messages after that for doubles as the two differ, and confirms them (its pull request 12236).
/// </summary>
internal sealed class ConfirmedChannel
{
    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(100);

    private readonly BasicProperties _envelope = new() { ContentType = "application/x-mfq-envelope", Persistent = true };
    private readonly TimeSpan _patience;

    private ConfirmedChannel(BrokerConnection connection, IChannel channel, int window, TimeSpan patience)
    {
        (Connection, Channel, _patience) = (connection, channel, patience);
        Window = new PublishWindow(window);
        channel.BasicAcksAsync += (_, ack) =>
        {
            // What comes after a return or a refusal may confirm what was returned.
            if (!connection.Lost.IsCancellationRequested)
                Window.Confirm(ack.DeliveryTag, ack.Multiple);
            return Task.CompletedTask;
        };
        channel.BasicNacksAsync += (_, _) =>
        {
            connection.Fail(new RefusedException("The broker refused a message."));
            return Task.CompletedTask;
        };
        // The broker returns what no queue takes, and confirms it all the same.
        channel.BasicReturnAsync += (_, returned) =>
        {
            connection.Fail(new BrokerException($"The stream is gone: {returned.ReplyText}"));
            return Task.CompletedTask;
        };
    }

    public BrokerConnection Connection { get; }

    public IChannel Channel { get; }

    public PublishWindow Window { get; }

    public static async Task<ConfirmedChannel> OpenAsync(
        BrokerConnection connection, int window, TimeSpan patience, CancellationToken cancellationToken)
    {
        IChannel channel = await connection.OpenChannelAsync(confirms: true, matters: true, cancellationToken)
            .ConfigureAwait(false);
        return new ConfirmedChannel(connection, channel, window, patience);
    }

    /// <summary>Publishes an envelope; the memory may change once the call has completed.</summary>
    public async ValueTask PublishAsync(
        string queue, ReadOnlyMemory<byte> body, long to, int messages, long bytes, CancellationToken cancellationToken)
    {
        Window.Add(to, messages, bytes, Stopwatch.GetTimestamp());
        // As programs do that leave the connection to the client: wait until it is there again, and continue.
        while (PlantedFaults.Has(PlantedFault.AutomaticRecovery) && !Channel.IsOpen)
            await Task.Delay(20, cancellationToken).ConfigureAwait(false);
        ValueTask publishing = Channel.BasicPublishAsync("", queue, mandatory: true, _envelope, body, cancellationToken);
        if (publishing.IsCompletedSuccessfully)
            await publishing.ConfigureAwait(false);
        else
            await Connection.Ask(publishing.AsTask(), "publish", queue, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Publishes something small, and waits for the confirm of everything.</summary>
    public async Task PublishConfirmedAsync(string queue, ReadOnlyMemory<byte> body, CancellationToken cancellationToken)
    {
        Window.Add(-1, 0, 0, Stopwatch.GetTimestamp());
        await Connection.Ask(
            Channel.BasicPublishAsync("", queue, mandatory: true, _envelope, body, cancellationToken).AsTask(),
            "publish", queue, cancellationToken).ConfigureAwait(false);
        while (!Window.IsEmpty)
        {
            ThrowIfLate();
            await Window.WaitAsync(s_look, cancellationToken).ConfigureAwait(false);
        }

        Connection.ThrowIfLost();
    }

    /// <summary>Throws if the connection is lost, or the broker has not confirmed the oldest message for too long.</summary>
    public void ThrowIfLate()
    {
        Connection.ThrowIfLost();
        if (Window.WaitingSince is { } time && Connection.IsLate(time))
        {
            Connection.Fail(new BrokerException(
                $"The broker confirmed nothing for {_patience.TotalSeconds} s. A broker does so while too few of its nodes are "
                + "up, or when it has lost the stream's leader (docs/BRIDGE.md)."));
        }

        Connection.ThrowIfLost();
    }
}
