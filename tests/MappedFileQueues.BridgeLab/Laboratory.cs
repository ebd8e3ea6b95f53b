using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.RabbitMQ.Diagnostics;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.BridgeLab;

/// <summary>
/// Two forwarders, of which one has the lock, a fetcher, two producers and brokers, all killed and stopped at random, behind
/// a bad network, on disks that are full at times. At the end, the near store, the stream and the far store hold the same
/// messages in the same order.
/// </summary>
internal sealed class Laboratory(string root, LabSettings settings, PlantedFault fault) : IDisposable
{
    public const string Stream = "lab";

    private const int DiskLengthMiB = 8192;

    /// <summary>Long enough for brokers and five more processes that start beside other work.</summary>
    private static readonly TimeSpan s_firstMax = TimeSpan.FromMinutes(3);

    /// <summary>A planted mistake is looked for while the run continues, so that it ends once it is found.</summary>
    private static readonly TimeSpan s_lookInterval = TimeSpan.FromSeconds(8);

    private readonly List<RoughProxy> _proxies = [];
    private readonly List<LabChild> _bridges = [];
    private readonly List<LabChild> _producers = [];
    private readonly Verdict _verdict = new();
    private BrokerCluster? _cluster;
    private LabMount? _disk;
    private Disturbances? _disturbances;
    private StreamFlow? _flow;

    /// <summary>What was done, and how often.</summary>
    public string Summary => $"{_disturbances?.Summary ?? "nothing"}, {_flow?.Repairs ?? 0} x stream repaired";

    private string Near => Path.Combine(_disk?.Path ?? root, "near");

    private string Far => Path.Combine(_disk?.Path ?? root, "far");

    /// <summary>Runs it; returns what it has shown.</summary>
    public async Task<Verdict> RunAsync()
    {
        _disk = LabMount.TryMake("ext4", root, DiskLengthMiB, out string reason);
        if (_disk is null)
            Console.WriteLine($"The local disk is never full here. {reason}");
        _cluster = BrokerCluster.Start(Path.Combine(root, "brokers"), settings.Nodes);
        _proxies.AddRange(_cluster.Nodes.Select(node => new RoughProxy(node.Port)));
        StartChildren();
        await WaitForFirstAsync();
        _flow = new StreamFlow(_cluster.Nodes, Far);
        _disturbances = new Disturbances(
            new Random(settings.Seed), _cluster, _proxies, _bridges, _producers, _disk?.Path,
            // Kills show a planted mistake, and the more of them, the sooner.
            killsWanted: fault == PlantedFault.None ? settings.Each : int.MaxValue);
        try
        {
            if (await IsViolatedAsync(_disturbances, _flow))
                return _verdict;
        }
        finally
        {
            await _disturbances.EndAsync();
        }

        foreach (LabChild child in _producers)
            child.End();
        _cluster.Nodes.Where(node => !node.IsRunning).ToList().ForEach(node => node.Start());
        _cluster.Nodes.ToList().ForEach(node => node.WaitUntilReady());
        await WaitForFarAsync(_flow);
        try
        {
            await CompareAsync(isEnd: true);
        }
        catch (Exception error) when (StreamCheck.IsOfBroker(error))
        {
            _verdict.Troubles.Add($"The stream could not be read: {error.Message}");
        }

        return _verdict;
    }

    /// <summary>
    /// Disturbs until the time is over, a process has ended by itself, nothing flows any more, or a planted mistake has shown.
    /// </summary>
    private async Task<bool> IsViolatedAsync(Disturbances disturbances, StreamFlow flow)
    {
        long start = Stopwatch.GetTimestamp();
        long look = start;
        while (settings.GoesOn(Stopwatch.GetElapsedTime(start), disturbances.RarestKill))
        {
            await disturbances.DoNextAsync();
            if (HasEnded() || !await flow.LookAsync())
                return false;
            if (fault == PlantedFault.None || Stopwatch.GetElapsedTime(look) < s_lookInterval)
                continue;
            try
            {
                await CompareAsync(isEnd: false);
            }
            catch (Exception error) when (StreamCheck.IsOfBroker(error))
            {
                // Its broker is down too long; the end decides.
            }

            if (_verdict.Violations.Count > 0)
                return true;
            look = Stopwatch.GetTimestamp();
        }

        return false;
    }

    /// <summary>
    /// A broker that is killed while it makes the stream may keep its name alone, and answers 404 or 541 from then on, also after
    /// further starts (RabbitMQ 3.10.8, one node and three). No client can do anything about that but delete the stream, so the
    /// disturbances begin when it is there.
    /// </summary>
    private async Task WaitForFirstAsync()
    {
        long start = Stopwatch.GetTimestamp();
        while (Count(Far) == 0 && Stopwatch.GetElapsedTime(start) < s_firstMax && !HasEnded())
            await Task.Delay(100);
    }

    public void Dispose()
    {
        foreach (LabChild child in _producers.Concat(_bridges))
            child.Dispose();
        _proxies.ForEach(proxy => proxy.Dispose());
        _cluster?.Dispose();
        _disk?.Dispose();
    }

    private void StartChildren()
    {
        string brokers = string.Join(
            ',',
            _proxies.Select(proxy => string.Create(CultureInfo.InvariantCulture, $"amqp://guest:guest@127.0.0.1:{proxy.Port}")));
        string kind = settings.Nodes == 1 ? "Classic" : "Quorum";
        // Small segments: they need room again and again, and find the disk full.
        using (new MappedFileQueue(new MappedFileQueueOptions { StorePath = Near, SegmentSize = LabVerbs.SegmentSize }))
        {
        }

        _producers.Add(new LabChild("producer 1", "produce", Near, "2000"));
        _producers.Add(new LabChild("producer 2", "produce", Near, "500"));
        _bridges.Add(new LabChild("forwarder 1", "forward", Near, brokers, "bridge", kind, fault.ToString()));
        _bridges.Add(new LabChild("forwarder 2", "forward", Near, brokers, "bridge.2", kind, fault.ToString()));
        _bridges.Add(new LabChild("fetcher", "fetch", Far, brokers, fault.ToString()));
        foreach (LabChild child in _producers.Concat(_bridges))
            child.Start();
    }

    private bool HasEnded()
    {
        LabChild[] ended = [.. _bridges.Concat(_producers).Where(child => child.ExitCode is > 0)];
        foreach (LabChild child in ended)
        {
            string words = $"{child.Name} ended by itself: exit code={child.ExitCode}\n{string.Join('\n', child.LastWords)}";
            if (!_verdict.Alarms.Contains(words))
                _verdict.Alarms.Add(words);
        }

        return ended.Length > 0;
    }

    /// <summary>Waits until all has come, or nothing comes any more.</summary>
    private async Task WaitForFarAsync(StreamFlow flow)
    {
        int goal = Count(Near);
        while (Count(Far) < goal && await flow.LookAsync() && !HasEnded())
            await Task.Delay(500);
        // What comes now would be too much.
        await Task.Delay(500);
    }

    private async Task CompareAsync(bool isEnd)
    {
        // What went in is read last, so that nothing can have come that is not in it.
        int goal = Read(Near).Count;
        List<byte[]> far = Read(Far);
        TimeSpan patience = TimeSpan.FromSeconds(isEnd && _verdict.Alarms.Count == 0 ? 20 : 2);
        List<byte[]> stream = await StreamCheck.ReadAsync(_cluster!.Nodes, goal, patience, isEnd);
        List<byte[]> near = Read(Near);
        if (isEnd)
            Console.WriteLine($"{near.Count} messages produced, {stream.Count} in the stream, {far.Count} in the far store.");
        _verdict.Compare("far store", near, far, isEnd);
        _verdict.Compare("stream", near, stream, isEnd);
        if (isEnd && !_verdict.IsClean)
            _verdict.Troubles.AddRange(_bridges.SelectMany(child => child.LastWords));
    }

    private static List<byte[]> Read(string path)
    {
        List<byte[]> messages = [];
        Count(path, messages.Add);
        return messages;
    }

    private static int Count(string path, Action<byte[]>? take = null)
    {
        int count = 0;
        if (!File.Exists(Path.Combine(path, "queue.meta")))
            return count;
        using MappedFileReader reader = MappedFileReader.Open(path);
        for (; reader.TryRead(out ReadOnlySpan<byte> message); count++)
            take?.Invoke(message.ToArray());
        return count;
    }
}
