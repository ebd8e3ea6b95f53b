using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>
/// Messages a second from a store into a stream, and from the stream into another store, beside a bare client that publishes and
/// reads the same broker messages. The forwarder runs when the first message is appended; for the backlog, all of them are on
/// disk when it begins. The fetcher finds the stream full.
/// </summary>
internal sealed class MoveFigure(
    ChildContext context, int nodeCount, int packLength, string forwardName, string backlogName, string fetchName)
{
    private const int PackedMax = 1_000_000;
    private const int UnpackedMax = 100_000;

    /// <summary>A look at a forwarder costs a third of a millisecond.</summary>
    private static readonly TimeSpan s_forwardLook = TimeSpan.FromMilliseconds(5);

    private static readonly TimeSpan s_fetchLook = TimeSpan.FromMilliseconds(1);

    private readonly List<double> _rawForward = [];
    private readonly List<double> _rawFetch = [];
    private readonly List<double> _forward = [];
    private readonly List<double> _backlog = [];
    private readonly List<double> _fetch = [];
    private int _round;

    private long Messages => Math.Min(
        context.Bytes / Message64.Length,
        (packLength > 0 ? PackedMax : UnpackedMax) / (context.Task.IsQuick ? 2 : 1));

    public IReadOnlyList<Samples> Measure()
    {
        using BrokerCluster cluster = BrokerCluster.Start(context.Path($"brokers-{context.Task.Role}"), nodeCount);
        string address = cluster.Addresses[0];
        List<byte[]> bodies = MeasureOurs(address);
        if (!WarmUp.IsLeftOut)
        {
            MeasureRaw(address, bodies);
            MeasureOurs(address);
        }

        foreach (List<double> values in new[] { _rawForward, _rawFetch, _forward, _backlog, _fetch })
            values.Clear();
        for (int i = 0; i < context.Repetitions; i++)
        {
            MeasureRaw(address, bodies);
            bodies = MeasureOurs(address);
        }

        return
        [
            new Samples(forwardName, "msg/s", [.. _rawForward], [.. _forward]),
            new Samples(backlogName, "msg/s", [.. _rawForward], [.. _backlog]),
            new Samples(fetchName, "msg/s", [.. _rawFetch], [.. _fetch]),
        ];
    }

    private void MeasureRaw(string address, List<byte[]> bodies)
    {
        string stream = $"raw-{_round++}";
        using BareClient client = BareClient.Connect(address);
        client.MakeStream(stream);
        _rawForward.Add(Rate(client.Publish(stream, bodies)));
        (List<byte[]> read, double milliseconds) = client.Read(stream, Messages);
        _rawFetch.Add(Rate(milliseconds));
        BridgeMessages.Check(forwardName, read, Messages);
        client.DeleteStream(stream);
    }

    private List<byte[]> MeasureOurs(string address)
    {
        string stream = $"ours-{_round}";
        string near = context.Path($"near-{context.Task.Role}-{_round}");
        string far = context.Path($"far-{context.Task.Role}-{_round++}");
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = near }))
        using (RunningBridge forwarder = RunningBridge.Forward(near, address, stream, packLength))
        {
            long start = Clock.Now;
            BridgeMessages.Produce(queue, 0, Messages);
            forwarder.WaitForMessages(Messages, s_forwardLook);
            _forward.Add(Rate(Clock.MillisecondsSince(start)));
        }

        MeasureBacklog(address, near);
        using (RunningBridge fetcher = RunningBridge.Fetch(far, address, stream))
        {
            long start = Clock.Now;
            fetcher.WaitForMessages(Messages, s_fetchLook);
            _fetch.Add(Rate(Clock.MillisecondsSince(start)));
        }

        BridgeMessages.Check(fetchName, far, Messages);
        List<byte[]> bodies = Take(address, stream, forwardName);
        Directory.Delete(near, recursive: true);
        Directory.Delete(far, recursive: true);
        return bodies;
    }

    /// <summary>Forwards the same store once more, into another stream.</summary>
    private void MeasureBacklog(string address, string store)
    {
        string stream = $"backlog-{_round}";
        using (RunningBridge forwarder = RunningBridge.Forward(store, address, stream, packLength, "backlog"))
        {
            long start = Clock.Now;
            forwarder.WaitForMessages(Messages, s_forwardLook);
            _backlog.Add(Rate(Clock.MillisecondsSince(start)));
        }

        _ = Take(address, stream, backlogName);
    }

    /// <summary>Reads and checks what a stream holds, and deletes the stream.</summary>
    private List<byte[]> Take(string address, string stream, string figure)
    {
        using BareClient client = BareClient.Connect(address);
        (List<byte[]> bodies, _) = client.Read(stream, Messages);
        BridgeMessages.Check(figure, bodies, Messages);
        client.DeleteStream(stream);
        return bodies;
    }

    private double Rate(double milliseconds) => Messages / milliseconds * 1e3;
}
