using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Demo.Brokers;
using RabbitMQ.Client;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>
/// Milliseconds from `Produce` of a message, when none is under way, until the broker has delivered it to a bare client that
/// reads the stream: more than the message takes to leave. Beside it a bare client publishes, and the same one reads.
/// </summary>
internal sealed class LoneFigure(ChildContext context)
{
    public const string Name = "bridge_lone_p50";
    public const string LateName = "bridge_lone_p99";

    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(10);

    private readonly List<double> _rawLate = [];
    private readonly List<double> _late = [];
    private int _round;

    private int Count => (int)Math.Min(context.Bytes / Message64.Length, 200);

    public IReadOnlyList<Samples> Measure()
    {
        using BrokerCluster cluster = BrokerCluster.Start(context.Path($"brokers-{context.Task.Role}"), nodeCount: 1);
        string address = cluster.Addresses[0];
        MeasureOurs(address);
        MeasureRaw(address);
        _late.Clear();
        _rawLate.Clear();
        Samples usual = Interleaved.Run(
            Name, "ms", context.Repetitions, () => MeasureRaw(address), () => MeasureOurs(address));
        return [usual, new Samples(LateName, "ms", [.. _rawLate], [.. _late])];
    }

    private double MeasureRaw(string address)
    {
        using BareClient client = BareClient.Connect(address);
        string stream = $"raw-{_round++}";
        client.MakeStream(stream);
        Action<ReadOnlyMemory<byte>> publish = client.OpenPublisher(stream);
        BareMessage message = new();
        return Measure(address, stream, number => publish(message.Make(number)), _rawLate);
    }

    private double MeasureOurs(string address)
    {
        string near = context.Path($"near-{context.Task.Role}-{_round}");
        string stream = $"ours-{_round++}";
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = near });
        using RunningBridge forwarder = RunningBridge.Forward(near, address, stream, BridgeFigures.PackLength);
        return Measure(address, stream, number => BridgeMessages.Produce(queue, number, 1), _late);
    }

    private double Measure(string address, string stream, Action<int> send, List<double> late)
    {
        using PacedArrivals arrivals = new(Name, Count);
        using BareClient reader = BareClient.Connect(address);
        using IChannel reading = reader.Consume(stream, "first", body => BareMessage.Take(body, arrivals));
        arrivals.SendOneByOne(s_pause, send);
        late.Add(arrivals.Milliseconds(0.99));
        return arrivals.Milliseconds(0.5);
    }
}
