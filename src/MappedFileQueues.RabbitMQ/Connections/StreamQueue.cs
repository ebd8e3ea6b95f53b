using System.Globalization;
using MappedFileQueues.RabbitMQ.Envelopes;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>The stream as a queue of the broker: looked for, and made.</summary>
internal static class StreamQueue
{
    /// <summary>The header in which the broker tells a message's place in the stream.</summary>
    public const string OffsetName = "x-stream-offset";

    private const string TypeName = "x-queue-type";
    private const int AccessRefused = 403;
    private const int NotFound = 404;
    private const int ResourceLocked = 405;
    private const int PreconditionFailed = 406;

    /// <summary>What the broker names first that differs; a stream is always durable, for all connections, and stays.</summary>
    private static readonly string[] s_differences = [$"'{TypeName}'", "'durable'", "'exclusive'", "'auto_delete'"];

    /// <summary>Whether the stream is there.</summary>
    /// <exception cref="BridgeException">A queue of another kind is.</exception>
    public static async Task<bool> ExistsAsync(
        BrokerConnection connection, string stream, CancellationToken cancellationToken)
    {
        IChannel channel = await connection.OpenChannelAsync(confirms: false, matters: false, cancellationToken)
            .ConfigureAwait(false);
        bool isThere = false;
        try
        {
            await connection.Ask(
                channel.QueueDeclarePassiveAsync(stream, cancellationToken), "look for the stream", stream, cancellationToken)
                .ConfigureAwait(false);
            isThere = true;
            // Says what differs, if anything does: the kind, or the retention, which may be as it likes.
            await connection.Ask(
                channel.QueueDeclareAsync(
                    stream, durable: true, exclusive: false, autoDelete: false,
                    new Dictionary<string, object?> { [TypeName] = "stream" }, cancellationToken: cancellationToken),
                "look at the stream's settings", stream, cancellationToken).ConfigureAwait(false);
            await connection.Ask(channel.CloseAsync(cancellationToken), "close a channel", stream, cancellationToken)
                .ConfigureAwait(false);
            return true;
        }
        catch (OperationInterruptedException error) when (error.ShutdownReason?.ReplyCode == NotFound)
        {
            return false;
        }
        catch (OperationInterruptedException error) when (isThere && error.ShutdownReason?.ReplyCode == AccessRefused)
        {
            // The account may not make queues, and need not. Whoever reads sees by the messages whether it is a stream.
            return true;
        }
        catch (OperationInterruptedException error) when (error.ShutdownReason?.ReplyCode == PreconditionFailed)
        {
            if (s_differences.Any(name => error.ShutdownReason.ReplyText.Contains($"arg {name}", StringComparison.Ordinal)))
                throw NoStream(stream);
            return true;
        }
        catch (OperationInterruptedException error) when (error.ShutdownReason?.ReplyCode == ResourceLocked)
        {
            // Another connection has it for itself alone, which no stream can be.
            throw NoStream(stream);
        }
    }

    /// <summary>The error that a queue is of another kind.</summary>
    public static BridgeException NoStream(string queue) => new(
        BridgeFault.NoStream,
        $"The queue is no stream: queue={queue}. Name another one, or delete it and let the forwarder make the stream.");

    /// <summary>Makes the stream, unless it is there; its settings are then left as they are.</summary>
    public static async Task EnsureAsync(
        BrokerConnection connection, StreamForwarderOptions options, CancellationToken cancellationToken)
    {
        if (await ExistsAsync(connection, options.Stream, cancellationToken).ConfigureAwait(false))
            return;
        Dictionary<string, object?> arguments = new() { [TypeName] = "stream" };
        if (options.StreamMaxLength is { } length)
            arguments["x-max-length-bytes"] = length;
        if (options.StreamMaxAge is { } age)
            arguments["x-max-age"] = string.Create(CultureInfo.InvariantCulture, $"{(long)Math.Ceiling(age.TotalSeconds)}s");
        if (options.StreamSegmentLength is { } segment)
            arguments["x-stream-max-segment-size-bytes"] = segment;
        IChannel channel = await connection.OpenChannelAsync(confirms: false, matters: false, cancellationToken)
            .ConfigureAwait(false);
        await connection.Ask(
            channel.QueueDeclareAsync(
                options.Stream, durable: true, exclusive: false, autoDelete: false, arguments,
                cancellationToken: cancellationToken),
            "make the stream", options.Stream, cancellationToken).ConfigureAwait(false);
        await connection.Ask(channel.CloseAsync(cancellationToken), "close a channel", options.Stream, cancellationToken)
            .ConfigureAwait(false);
    }

    /// <summary>Begins to read a stream; returns the consumer's tag.</summary>
    /// <param name="connection">The connection.</param>
    /// <param name="consumer">What takes the messages, on its channel.</param>
    /// <param name="stream">The stream.</param>
    /// <param name="prefetch">How many messages may be on the way.</param>
    /// <param name="place">Where the reading begins: an offset, "first" or "last".</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public static async Task<string> ReadAsync(
        BrokerConnection connection, AsyncDefaultBasicConsumer consumer, string stream, ushort prefetch, object place,
        CancellationToken cancellationToken)
    {
        IChannel channel = consumer.Channel;
        await connection.Ask(
            channel.BasicQosAsync(0, prefetch, global: false, cancellationToken), "set the prefetch of a reader", stream,
            cancellationToken).ConfigureAwait(false);
        return await connection.Ask(
            channel.BasicConsumeAsync(
                stream, autoAck: false, "", noLocal: false, exclusive: false,
                new Dictionary<string, object?> { [OffsetName] = place }, consumer, cancellationToken),
            "begin to read", stream, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>
    /// Complains about an envelope of another version, whose messages nobody here knows; but anybody can publish what begins like
    /// one, so a policy may leave it out.
    /// </summary>
    public static void ThrowIfOfAnotherVersion(
        BridgeOptions options, ReadOnlyMemory<byte> body, long streamOffset, EnvelopeFormatException error)
    {
        if (options.OnSourceChange == SourceChangePolicy.Stop && EnvelopeLayout.IsOfAnotherVersion(body.Span))
        {
            throw new EnvelopeFormatException(
                $"{error.Message} stream={options.Stream}, place={streamOffset}. If a later version of the bridge wrote it, use "
                + "that one; else continue without it (OnSourceChange).");
        }
    }

    /// <summary>The place in the stream of a message that was delivered from it; -1 if the broker tells none.</summary>
    public static long OffsetOf(IReadOnlyBasicProperties properties) =>
        properties.Headers?.TryGetValue(OffsetName, out object? value) == true && value is long offset ? offset : -1;
}
