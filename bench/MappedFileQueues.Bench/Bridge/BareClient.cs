using System.Buffers.Binary;
using MappedFileQueues.RabbitMQ.Envelopes;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>
/// The raw loop: the client with the bridge's settings (no tracking, no limiter, no recovery), and nothing around it. It
/// publishes with confirms and a window, or reads with a prefetch and an acknowledgement for every hundred messages.
/// </summary>
internal sealed class BareClient : IDisposable
{
    private const int Window = 256;
    private const int Prefetch = 1000;
    private const int AckInterval = 100;

    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

    private readonly IConnection _connection;

    private BareClient(IConnection connection) => _connection = connection;

    public static BareClient Connect(string address) => new(
        new ConnectionFactory { Uri = new Uri(address), AutomaticRecoveryEnabled = false }
            .CreateConnectionAsync().GetAwaiter().GetResult());

    public void MakeStream(string name)
    {
        using IChannel channel = OpenChannel(confirms: false);
        channel.QueueDeclareAsync(
            name, durable: true, exclusive: false, autoDelete: false,
            new Dictionary<string, object?> { ["x-queue-type"] = "stream" }).GetAwaiter().GetResult();
    }

    public void DeleteStream(string name)
    {
        using IChannel channel = OpenChannel(confirms: false);
        channel.QueueDeleteAsync(name).GetAwaiter().GetResult();
    }

    /// <summary>Publishes the bodies; the milliseconds until the last of them is confirmed.</summary>
    public double Publish(string stream, IReadOnlyList<byte[]> bodies)
    {
        using IChannel channel = OpenChannel(confirms: true);
        using SemaphoreSlim room = new(Window);
        CountConfirms(channel, bodies.Count, count => room.Release(count));
        long start = Clock.Now;
        PublishAsync(channel, stream, bodies, room).WaitAsync(s_patience).GetAwaiter().GetResult();
        return Clock.MillisecondsSince(start);
    }

    /// <summary>Makes a publisher for one body after the other, whose confirms nobody waits for.</summary>
    public Action<ReadOnlyMemory<byte>> OpenPublisher(string stream)
    {
        IChannel channel = OpenChannel(confirms: true);
        BasicProperties properties = Properties();
        return body => channel.BasicPublishAsync("", stream, mandatory: true, properties, body).AsTask().GetAwaiter().GetResult();
    }

    /// <summary>
    /// Reads a stream from its start until so many records were delivered; copies the bodies, and the milliseconds it took.
    /// </summary>
    public (List<byte[]> Bodies, double Milliseconds) Read(string stream, long records)
    {
        List<byte[]> bodies = [];
        using ManualResetEventSlim done = new();
        long left = records;
        long start = Clock.Now;
        using IChannel channel = Consume(stream, "first", body =>
        {
            bodies.Add(body.ToArray());
            left -= BinaryPrimitives.ReadInt32LittleEndian(body.Span[EnvelopeLayout.Count..]);
            if (left <= 0)
                done.Set();
        });
        if (!done.Wait(s_patience))
            throw new ToolException($"The bare client did not get everything: stream={stream}, missing={left}.");
        return (bodies, Clock.MillisecondsSince(start));
    }

    /// <summary>Calls back for each body that the stream delivers, until the channel is disposed.</summary>
    /// <param name="stream">The stream.</param>
    /// <param name="place">"first" or "next".</param>
    /// <param name="take">Called in order on the client's thread; the memory is valid until it returns.</param>
    public IChannel Consume(string stream, string place, Action<ReadOnlyMemory<byte>> take)
    {
        IChannel channel = OpenChannel(confirms: false);
        AsyncEventingBasicConsumer consumer = new(channel);
        int unacknowledged = 0;
        consumer.ReceivedAsync += async (_, delivery) =>
        {
            take(delivery.Body);
            if (++unacknowledged < AckInterval)
                return;
            unacknowledged = 0;
            await channel.BasicAckAsync(delivery.DeliveryTag, multiple: true).ConfigureAwait(false);
        };
        channel.BasicQosAsync(0, Prefetch, global: false).GetAwaiter().GetResult();
        channel.BasicConsumeAsync(
            stream, autoAck: false, "", noLocal: false, exclusive: false,
            new Dictionary<string, object?> { ["x-stream-offset"] = place }, consumer).GetAwaiter().GetResult();
        return channel;
    }

    public void Dispose() => _connection.Dispose();

    private static BasicProperties Properties() => new() { ContentType = "application/x-mfq-envelope", Persistent = true };

    private static async Task PublishAsync(
        IChannel channel, string stream, IReadOnlyList<byte[]> bodies, SemaphoreSlim room)
    {
        BasicProperties properties = Properties();
        foreach (byte[] body in bodies)
        {
            await room.WaitAsync().ConfigureAwait(false);
            await channel.BasicPublishAsync("", stream, mandatory: true, properties, body).ConfigureAwait(false);
        }

        for (int i = 0; i < Window; i++)
            await room.WaitAsync().ConfigureAwait(false);
    }

    /// <summary>Confirms come one by one or in groups; a broker may confirm a later message first.</summary>
    private static void CountConfirms(IChannel channel, int count, Action<int> onConfirmed)
    {
        bool[] isConfirmed = new bool[count + 1];
        ulong first = 1;
        channel.BasicAcksAsync += (_, ack) =>
        {
            int confirmed = 0;
            for (ulong number = ack.Multiple ? first : ack.DeliveryTag; number <= ack.DeliveryTag; number++)
            {
                confirmed += isConfirmed[number] ? 0 : 1;
                isConfirmed[number] = true;
            }

            while (first <= (ulong)count && isConfirmed[first])
                first++;
            if (confirmed > 0)
                onConfirmed(confirmed);
            return Task.CompletedTask;
        };
    }

    private IChannel OpenChannel(bool confirms) => _connection.CreateChannelAsync(
        new CreateChannelOptions(
            confirms, publisherConfirmationTrackingEnabled: false, outstandingPublisherConfirmationsRateLimiter: null))
        .GetAwaiter().GetResult();
}
