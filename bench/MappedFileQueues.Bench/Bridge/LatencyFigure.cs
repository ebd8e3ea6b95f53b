using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Demo.Brokers;
using RabbitMQ.Client;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>
/// Milliseconds from `Produce` into one store until a consumer of the other store has the message, at 1,000 messages a second,
/// beside a bare client from publishing to delivery.
/// </summary>
internal sealed class LatencyFigure(ChildContext context)
{
    public const string Name = "bridge_latency_p50";

    private static readonly TimeSpan s_interval = TimeSpan.FromMilliseconds(1);

    private int _round;

    private int Count => (int)Math.Min(context.Bytes / Message64.Length, context.Task.IsQuick ? 1000 : 2000);

    public IReadOnlyList<Samples> Measure()
    {
        using BrokerCluster cluster = BrokerCluster.Start(context.Path($"brokers-{context.Task.Role}"), nodeCount: 1);
        string address = cluster.Addresses[0];
        MeasureOurs(address);
        if (!WarmUp.IsLeftOut)
        {
            MeasureRaw(address);
            MeasureOurs(address);
        }

        return [Interleaved.Run(Name, "ms", context.Repetitions, () => MeasureRaw(address), () => MeasureOurs(address))];
    }

    private double MeasureRaw(string address)
    {
        string stream = $"raw-{_round++}";
        using PacedArrivals arrivals = new(Name, Count);
        using BareClient client = BareClient.Connect(address);
        client.MakeStream(stream);
        Action<ReadOnlyMemory<byte>> publish = client.OpenPublisher(stream);
        using BareClient reader = BareClient.Connect(address);
        using IChannel reading = reader.Consume(stream, "first", body => BareMessage.Take(body, arrivals));
        BareMessage message = new();
        arrivals.SendEach(s_interval, number => publish(message.Make(number)));
        return arrivals.Milliseconds(0.5);
    }

    private double MeasureOurs(string address)
    {
        string stream = $"ours-{_round}";
        string near = context.Path($"near-{context.Task.Role}-{_round}");
        string far = context.Path($"far-{context.Task.Role}-{_round++}");
        using PacedArrivals arrivals = new(Name, Count);
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = near });
        using RunningBridge forwarder = RunningBridge.Forward(near, address, stream, BridgeFigures.PackLength);
        using RunningBridge fetcher = RunningBridge.Fetch(far, address, stream);
        using CancellationTokenSource stop = new();
        using MappedFileQueue target = new(new MappedFileQueueOptions { StorePath = far });
        Thread reading = new(() => Consume(target, arrivals, stop.Token));
        reading.Start();
        try
        {
            arrivals.SendEach(s_interval, number => BridgeMessages.Produce(queue, number, 1));
            return arrivals.Milliseconds(0.5);
        }
        finally
        {
            stop.Cancel();
            reading.Join();
        }
    }

    private static void Consume(MappedFileQueue target, PacedArrivals arrivals, CancellationToken stop)
    {
        MappedFileConsumer consumer = target.OpenConsumer("bench");
        try
        {
            while (true)
            {
                arrivals.Take(BridgeMessages.Read(consumer.Consume(stop)));
                consumer.Commit();
            }
        }
        catch (OperationCanceledException)
        {
            // All have arrived, or the figure has failed.
        }
    }
}
