using System.Diagnostics;
using System.Globalization;
using System.Text;
using MappedFileQueues.RabbitMQ.Diagnostics;
using MappedFileQueues.Tool.Bridge.Brokers;

namespace MappedFileQueues.BridgeLab;

/// <summary>
/// Two forwarders, of which one has the lock, a fetcher, two producers and brokers, all killed and stopped at random, behind
/// a bad network. At the end, the near store, the stream and the far store hold the same messages in the same order.
/// </summary>
internal sealed class Laboratory(string root, int seed, TimeSpan time, int nodeCount, PlantedFault fault) : IDisposable
{
    public const string Stream = "lab";

    private static readonly TimeSpan s_endTimeMax = TimeSpan.FromSeconds(90);

    private readonly Random _random = new(seed);
    private readonly Dictionary<string, int> _counts = [];
    private readonly List<RoughProxy> _proxies = [];
    private readonly List<LabChild> _bridges = [];
    private readonly List<LabChild> _producers = [];
    private BrokerCluster? _cluster;

    private string Near => Path.Combine(root, "near");

    private string Far => Path.Combine(root, "far");

    /// <summary>Runs it; returns what is wrong.</summary>
    public async Task<IReadOnlyList<string>> RunAsync()
    {
        _cluster = BrokerCluster.Start(Path.Combine(root, "brokers"), nodeCount);
        _proxies.AddRange(_cluster.Nodes.Select(node => new RoughProxy(node.Port)));
        string brokers = string.Join(
            ',',
            _proxies.Select(proxy => string.Create(CultureInfo.InvariantCulture, $"amqp://guest:guest@127.0.0.1:{proxy.Port}")));
        string kind = nodeCount == 1 ? "Classic" : "Quorum";
        using (new MappedFileQueue(new MappedFileQueueOptions { StorePath = Near }))
        {
        }

        _producers.Add(new LabChild("producer 1", "produce", Near, "2000"));
        _producers.Add(new LabChild("producer 2", "produce", Near, "500"));
        _bridges.Add(new LabChild("forwarder 1", "forward", Near, brokers, "bridge", kind, fault.ToString()));
        _bridges.Add(new LabChild("forwarder 2", "forward", Near, brokers, "bridge.2", kind, fault.ToString()));
        _bridges.Add(new LabChild("fetcher", "fetch", Far, brokers, fault.ToString()));
        foreach (LabChild child in _producers.Concat(_bridges))
            child.Start();

        long start = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(start) < time)
        {
            await Task.Delay(_random.Next(100, 1500));
            if (Ended() is { } ended)
                return [ended];
            await DisturbAsync();
        }

        foreach (LabChild child in _producers)
            child.End();
        _cluster.Nodes.Where(node => !node.IsRunning).ToList().ForEach(node => node.Start());
        _cluster.Nodes.ToList().ForEach(node => node.WaitUntilReady());
        return await CompareAsync();
    }

    /// <summary>What was done, and how often.</summary>
    public string Summary => string.Join(", ", _counts.OrderBy(each => each.Key).Select(each => $"{each.Value} x {each.Key}"));

    public void Dispose()
    {
        foreach (LabChild child in _producers.Concat(_bridges))
            child.Dispose();
        _proxies.ForEach(proxy => proxy.Dispose());
        _cluster?.Dispose();
    }

    private async Task DisturbAsync()
    {
        LabChild bridge = _bridges[_random.Next(_bridges.Count)];
        switch (_random.Next(10))
        {
            case 0 or 1 or 2:
                bridge.Restart();
                Note($"{bridge.Name} killed");
                break;
            case 3:
                LabChild producer = _producers[_random.Next(_producers.Count)];
                producer.Restart();
                Note($"{producer.Name} killed");
                break;
            case 4:
                // Mostly short, up to 20 s: longer than the heartbeat allows. Other things go on meanwhile.
                int pause = _random.Next(4) == 0 ? _random.Next(5000, 20_000) : _random.Next(100, 3000);
                bridge.Stop();
                _ = Task.Delay(pause).ContinueWith(_ => bridge.Continue(), TaskScheduler.Default);
                Note($"{bridge.Name} stopped");
                break;
            case 5:
                await DisturbNodesAsync();
                break;
            default:
                if (_proxies[_random.Next(_proxies.Count)].Disturb(_random) is { } what)
                    Note(what.Contains("late", StringComparison.Ordinal) ? "a connection is late" : what);
                break;
        }
    }

    private async Task DisturbNodesAsync()
    {
        bool isMajority = nodeCount > 1 && _random.Next(3) == 0;
        BrokerNode[] nodes = [.. _cluster!.Nodes.OrderBy(_ => _random.Next()).Take(isMajority ? 2 : 1)];
        string which = isMajority ? "majority" : "node";
        if (_random.Next(2) == 0)
        {
            foreach (BrokerNode node in nodes)
                node.Stop();
            await Task.Delay(_random.Next(500, 4000));
            foreach (BrokerNode node in nodes)
                node.Continue();
            Note($"{which} stopped");
            return;
        }

        foreach (BrokerNode node in nodes)
            node.Kill();
        await Task.Delay(_random.Next(0, 1000));
        foreach (BrokerNode node in nodes)
            node.Start();
        foreach (BrokerNode node in nodes)
            node.WaitUntilReady();
        Note($"{which} killed");
    }

    private void Note(string what)
    {
        _counts[what] = _counts.GetValueOrDefault(what) + 1;
        Console.WriteLine($"{DateTime.UtcNow:HH:mm:ss.fff} {what}");
    }

    private string? Ended() => _bridges.FirstOrDefault(child => child.ExitCode is not null) is { } ended
        ? $"{ended.Name} ended by itself: exit code={ended.ExitCode}\n{string.Join('\n', ended.LastWords)}"
        : null;

    private async Task<IReadOnlyList<string>> CompareAsync()
    {
        List<(long Offset, byte[] Payload)> near = Read(Near);
        long start = Stopwatch.GetTimestamp();
        List<(long Offset, byte[] Payload)> far = [];
        while (far.Count < near.Count && Stopwatch.GetElapsedTime(start) < s_endTimeMax)
        {
            await Task.Delay(500);
            if (Ended() is { } ended)
                return [ended];
            far = Read(Far);
        }

        // What comes now would be too much.
        await Task.Delay(500);
        far = Read(Far);
        List<(long Offset, byte[] Payload)> stream = await StreamCheck.ReadAsync(_cluster!.Nodes[0].Address, near.Count);
        Console.WriteLine($"{near.Count} messages produced, {stream.Count} in the stream, {far.Count} in the far store.");
        List<string> faults = [];
        Compare("far store", near, far, faults);
        Compare("stream", near, stream, faults);
        if (faults.Count > 0)
            faults.AddRange(_bridges.SelectMany(child => child.LastWords));
        return faults;
    }

    private static void Compare(
        string name, List<(long Offset, byte[] Payload)> near, List<(long Offset, byte[] Payload)> other, List<string> faults)
    {
        for (int index = 0; index < Math.Max(near.Count, other.Count); index++)
        {
            string expected = index < near.Count ? Encoding.UTF8.GetString(near[index].Payload) : "nothing";
            string actual = index < other.Count ? Encoding.UTF8.GetString(other[index].Payload) : "nothing";
            if (expected == actual)
                continue;
            int place = index < other.Count
                ? near.FindIndex(each => each.Payload.AsSpan().SequenceEqual(other[index].Payload)) : -1;
            faults.Add($"{name}: message {index} is {actual} (number {place} of the near store) instead of {expected}");
            return;
        }
    }

    private static List<(long Offset, byte[] Payload)> Read(string path)
    {
        List<(long, byte[])> messages = [];
        if (!File.Exists(Path.Combine(path, "queue.meta")))
            return messages;
        using MappedFileReader reader = MappedFileReader.Open(path);
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add((reader.MessageOffset, message.ToArray()));
        return messages;
    }
}
