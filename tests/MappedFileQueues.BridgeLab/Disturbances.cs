using System.Globalization;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.BridgeLab;

/// <summary>What is done to processes, brokers, connections and the disk: one thing after the other, at random.</summary>
internal sealed class Disturbances
{
    private const int BlockLength = 4096;

    private readonly Random _random;
    private readonly BrokerCluster _cluster;
    private readonly List<RoughProxy> _proxies;
    private readonly List<LabChild> _bridges;
    private readonly List<LabChild> _producers;
    private readonly string? _disk;
    private readonly int _killsWanted;
    private readonly List<Kind> _kinds = [];
    private Task _starting = Task.CompletedTask;

    /// <param name="random">Decides what happens, and when.</param>
    /// <param name="cluster">The brokers.</param>
    /// <param name="proxies">The network before them.</param>
    /// <param name="bridges">Two forwarders and the fetcher.</param>
    /// <param name="producers">The producers.</param>
    /// <param name="disk">Where the local disk is mounted; null: it is never full.</param>
    /// <param name="killsWanted">So many kills of each kind are wanted; then most disturbances are kills.</param>
    public Disturbances(
        Random random, BrokerCluster cluster, List<RoughProxy> proxies, List<LabChild> bridges, List<LabChild> producers,
        string? disk, int killsWanted)
    {
        (_random, _cluster, _proxies, _bridges, _producers, _disk) = (random, cluster, proxies, bridges, producers, disk);
        _killsWanted = killsWanted;
        Add("forwarder killed", 4, () => KillAsync(_bridges[_random.Next(2)], again: true));
        Add("fetcher killed", 4, () => KillAsync(_bridges[2], again: true));
        Add("producer killed", 2, () => KillAsync(Any(_producers), again: false));
        Add("forwarder stopped", 2, () => Stop(_bridges[_random.Next(2)]));
        Add("fetcher stopped", 1, () => Stop(_bridges[2]));
        Add("producer stopped", 1, () => Stop(Any(_producers)));
        Add("broker killed", 1, () => Task.FromResult(KillNodes(1)));
        Add("broker stopped", 1, () => Task.FromResult(StopNodes(1)));
        if (cluster.Nodes.Count > 1)
        {
            Add("majority of brokers killed", 1, () => Task.FromResult(KillNodes(2)));
            Add("majority of brokers stopped", 1, () => Task.FromResult(StopNodes(2)));
        }

        foreach (RoughProxy.Trouble trouble in Enum.GetValues<RoughProxy.Trouble>())
            Add($"connection {RoughProxy.Words(trouble)}", 2, () => Task.FromResult(Any(_proxies).Disturb(trouble, _random)));
        if (disk is not null)
            Add("disk full", 2, FillDiskAsync);
    }

    /// <summary>How often each kind has happened.</summary>
    public string Summary => string.Join(
        ", ", _kinds.Select(kind => string.Create(CultureInfo.InvariantCulture, $"{kind.Count} x {kind.Name}")));

    /// <summary>How often the kind of kill has happened that has happened least.</summary>
    public int RarestKill => _kinds.Where(kind => kind.IsKill).Min(kind => kind.Count);

    /// <summary>Waits for a moment, and does something.</summary>
    public async Task DoNextAsync()
    {
        await Task.Delay(_random.Next(100, 1200));
        if (_starting.IsCompleted)
            await _starting;
        Kind chosen = Choose();
        if (!await chosen.DoAsync())
            return;
        chosen.Count++;
        Console.WriteLine($"{DateTime.UtcNow:HH:mm:ss.fff} {chosen.Name}");
    }

    /// <summary>Lets everything continue that was stopped, and waits for what was killed.</summary>
    public async Task EndAsync()
    {
        await _starting;
        foreach (LabChild child in _bridges.Concat(_producers))
            child.Continue();
        foreach (BrokerNode node in _cluster.Nodes)
            node.Continue();
    }

    private void Add(string name, int weight, Func<Task<bool>> doAsync) => _kinds.Add(new Kind(name, weight, doAsync));

    /// <summary>Of the kills that are wanted, the rarest: a broker takes seconds to start, and others die meanwhile.</summary>
    private Kind Choose()
    {
        List<Kind> kills =
        [
            .. _kinds.Where(kind => kind.IsKill && kind.Count < _killsWanted && (!kind.IsOfBroker || _starting.IsCompleted)),
        ];
        if (kills.Count > 0 && _random.Next(3) > 0)
            return Any(kills.FindAll(kind => kind.Count == kills.Min(each => each.Count)));
        int place = _random.Next(_kinds.Sum(kind => kind.Weight));
        return _kinds.First(kind => (place -= kind.Weight) < 0);
    }

    private T Any<T>(List<T> things) => things[_random.Next(things.Count)];

    /// <summary>A process that has just begun does what only a beginning does; so it is killed again at times.</summary>
    private async Task<bool> KillAsync(LabChild child, bool again)
    {
        child.Restart();
        if (!again || _random.Next(2) == 0)
            return true;
        await Task.Delay(_random.Next(200, 1000));
        child.Restart();
        return true;
    }

    /// <summary>Mostly short, up to 20 s: longer than the heartbeat allows. Other things continue meanwhile.</summary>
    private int Pause() => _random.Next(4) == 0 ? _random.Next(5000, 20_000) : _random.Next(100, 3000);

    private Task<bool> Stop(LabChild child)
    {
        child.Stop();
        _ = Task.Delay(Pause()).ContinueWith(_ => child.Continue(), TaskScheduler.Default);
        return Task.FromResult(true);
    }

    private BrokerNode[] AnyNodes(int count) => [.. _cluster.Nodes.OrderBy(_ => _random.Next()).Take(count)];

    private bool StopNodes(int count)
    {
        // A node that starts waits for the others.
        if (!_starting.IsCompleted)
            return false;
        BrokerNode[] nodes = AnyNodes(count);
        foreach (BrokerNode node in nodes)
            node.Stop();
        _ = Task.Delay(Pause()).ContinueWith(
            _ => Array.ForEach(nodes, node => node.Continue()), TaskScheduler.Default);
        return true;
    }

    /// <summary>The nodes start again while other things happen.</summary>
    private bool KillNodes(int count)
    {
        if (!_starting.IsCompleted)
            return false;
        foreach (BrokerNode node in _cluster.Nodes)
            node.Continue();
        BrokerNode[] nodes = AnyNodes(count);
        Array.ForEach(nodes, node => node.Kill());
        int pause = _random.Next(0, 1000);
        _starting = Task.Run(async () =>
        {
            await Task.Delay(pause);
            Array.ForEach(nodes, node => node.Start());
            Array.ForEach(nodes, node => node.WaitUntilReady());
        });
        return true;
    }

    /// <summary>Takes all room that is left, for a while.</summary>
    private async Task<bool> FillDiskAsync()
    {
        List<string> ballast = [];
        for (long length = new DriveInfo(_disk!).TotalFreeSpace; length >= BlockLength;)
        {
            string path = Path.Combine(_disk!, string.Create(CultureInfo.InvariantCulture, $"ballast{ballast.Count}"));
            ballast.Add(path);
            try
            {
                new FileStream(
                    path,
                    new FileStreamOptions
                    {
                        Mode = FileMode.CreateNew,
                        Access = FileAccess.Write,
                        PreallocationSize = length,
                    }).Dispose();
            }
            catch (IOException)
            {
                // So much is not there.
                length /= 2;
            }
        }

        await Task.Delay(_random.Next(1000, 6000));
        ballast.ForEach(File.Delete);
        return true;
    }

    private sealed class Kind(string name, int weight, Func<Task<bool>> doAsync)
    {
        public string Name => name;

        public int Weight => weight;

        public bool IsKill { get; } = name.EndsWith("killed", StringComparison.Ordinal);

        public bool IsOfBroker { get; } = name.Contains("broker", StringComparison.Ordinal);

        public int Count { get; set; }

        public Task<bool> DoAsync() => doAsync();
    }
}
