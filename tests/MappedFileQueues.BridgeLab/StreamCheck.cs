using System.Collections.Concurrent;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Demo.Brokers;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace MappedFileQueues.BridgeLab;

/// <summary>Reads the whole stream with the bare client, as somebody else's consumer would.</summary>
internal static class StreamCheck
{
    private const int AttemptsMax = 20;

    /// <summary>Every record in the order of the stream, up to a number of them, and at the end what is too much.</summary>
    public static async Task<List<byte[]>> ReadAsync(IReadOnlyList<BrokerNode> nodes, long count, TimeSpan patience, bool isEnd)
    {
        for (int attempt = 1; ; attempt++)
        {
            try
            {
                return await TryReadAsync(nodes[attempt % nodes.Count].Address, count, patience, isEnd);
            }
            catch (Exception error) when (attempt < AttemptsMax && IsOfBroker(error))
            {
                // A node that has just started does not know its streams yet.
                await Task.Delay(1000);
            }
        }
    }

    /// <summary>Whether the broker, or the way to it, is the cause.</summary>
    public static bool IsOfBroker(Exception error) =>
        error is RabbitMQClientException or IOException or TimeoutException or OperationCanceledException;

    private static async Task<List<byte[]>> TryReadAsync(string address, long count, TimeSpan patience, bool isEnd)
    {
        ConnectionFactory factory = new()
        {
            Uri = new Uri(address),
            AutomaticRecoveryEnabled = false,
            ContinuationTimeout = TimeSpan.FromSeconds(5),
        };
        await using IConnection connection = await factory.CreateConnectionAsync();
        IChannel channel = await connection.CreateChannelAsync();
        await channel.BasicQosAsync(0, 500, global: false);
        Reader reader = new(channel);
        await channel.BasicConsumeAsync(
            Laboratory.Stream, autoAck: false, "", noLocal: false, exclusive: false,
            new Dictionary<string, object?> { ["x-stream-offset"] = "first" }, reader);
        List<byte[]> records = [];
        // One more than there should be would come soon after the last.
        while ((isEnd || records.Count < count)
            && reader.Records.TryTake(out byte[]? record, records.Count < count ? (int)patience.TotalMilliseconds : 500))
            records.Add(record);
        return records;
    }

    private sealed class Reader(IChannel channel) : AsyncDefaultBasicConsumer(channel)
    {
        public BlockingCollection<byte[]> Records { get; } = [];

        public override async Task HandleBasicDeliverAsync(
            string consumerTag, ulong deliveryTag, bool redelivered, string exchange, string routingKey,
            IReadOnlyBasicProperties properties, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
        {
            StreamEnvelope envelope = StreamEnvelope.Parse(body);
            foreach (EnvelopeRecord record in envelope)
                Records.Add(record.Payload.ToArray(), cancellationToken);
            await Channel.BasicAckAsync(deliveryTag, multiple: true, cancellationToken);
        }
    }
}
