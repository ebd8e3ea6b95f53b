using System.Globalization;
using System.Net;
using System.Net.Sockets;
using MappedFileQueues.Tool;

namespace MappedFileQueues.Demo.Brokers;

/// <summary>
/// RabbitMQ nodes of its own on loopback ports: own port mapper, own cookie, own directories. No service of the system is
/// touched. The scripts of the package are called directly, because those on the path change to a user of their own.
/// </summary>
internal sealed class BrokerCluster : IDisposable
{
    private const string ScriptFolder = "/usr/lib/rabbitmq/bin";

    private const string CookieName = ".erlang.cookie";

    /// <summary>Where Linux begins with the ports of outgoing connections, unless it was told otherwise.</summary>
    private const int EphemeralPortsBegin = 32_768;

    private readonly string _root;
    private readonly int _mapperPort;
    private readonly BrokerProcess _mapper;

    private BrokerCluster(string root, int nodeCount, string extraConfiguration)
    {
        _root = root;
        Directory.CreateDirectory(root);
        string cookie = Path.Combine(root, CookieName);
        File.WriteAllText(cookie, Guid.NewGuid().ToString("N"));
        if (!OperatingSystem.IsWindows())
            File.SetUnixFileMode(cookie, UnixFileMode.UserRead);
        int[] ports = FreePorts((2 * nodeCount) + 1);
        _mapperPort = ports[^1];
        _mapper = BrokerProcess.Start(
            Path.Combine(root, "epmd.log"), MapperEnvironment, "epmd", "-address", "127.0.0.1", "-port", Text(_mapperPort));
        string configuration = Configuration(nodeCount) + extraConfiguration;
        Nodes = [.. Enumerable.Range(0, nodeCount).Select(index => new BrokerNode(
            Path.Combine(root, $"n{index + 1}"), $"n{index + 1}@localhost", ports[2 * index], ports[(2 * index) + 1],
            ScriptFolder, MapperEnvironment, configuration))];
    }

    /// <summary>Why no broker can be started here; null if one can.</summary>
    public static string? Obstacle =>
        !OperatingSystem.IsLinux() ? "The demo's own brokers need Linux; name a running broker's address instead."
        : !File.Exists(Path.Combine(ScriptFolder, "rabbitmq-server")) || !File.Exists("/usr/bin/epmd")
            ? "RabbitMQ is not installed: `apt-get install rabbitmq-server` brings it."
        : null;

    public IReadOnlyList<BrokerNode> Nodes { get; }

    /// <summary>The address of each node.</summary>
    public IReadOnlyList<string> Addresses => [.. Nodes.Select(node => node.Address)];

    private Dictionary<string, string> MapperEnvironment => new()
    {
        ["HOME"] = _root,
        ["ERL_EPMD_ADDRESS"] = "127.0.0.1",
        ["ERL_EPMD_PORT"] = Text(_mapperPort),
    };

    /// <summary>Starts nodes in a folder, and returns when all of them accept connections.</summary>
    /// <param name="root">The folder for everything that the nodes write.</param>
    /// <param name="nodeCount">How many nodes; several form a cluster.</param>
    /// <param name="extraConfiguration">More lines of rabbitmq.conf.</param>
    public static BrokerCluster Start(string root, int nodeCount, string extraConfiguration = "")
    {
        if (Obstacle is { } obstacle)
            throw new ToolException(obstacle);
        BrokerCluster cluster = new(root, nodeCount, extraConfiguration);
        try
        {
            foreach (BrokerNode node in cluster.Nodes)
                node.Start();
            foreach (BrokerNode node in cluster.Nodes)
                node.WaitUntilReady();
            return cluster;
        }
        catch
        {
            cluster.Dispose();
            throw;
        }
    }

    /// <summary>
    /// Ports that nobody uses now. They are held together, so that they differ. They are none that the system gives to outgoing
    /// connections: one of these may have a node's port before the node has it, or while it is down.
    /// </summary>
    public static int[] FreePorts(int count)
    {
        List<TcpListener> listeners = [];
        while (listeners.Count < count)
        {
            TcpListener listener = new(IPAddress.Loopback, Random.Shared.Next(10_000, EphemeralPortsBegin));
            try
            {
                listener.Start();
                listeners.Add(listener);
            }
            catch (SocketException)
            {
                // Somebody uses it.
            }
        }

        int[] ports = [.. listeners.Select(listener => ((IPEndPoint)listener.LocalEndpoint).Port)];
        foreach (TcpListener listener in listeners)
            listener.Stop();
        return ports;
    }

    /// <summary>Kills all nodes.</summary>
    public void Dispose()
    {
        foreach (BrokerNode node in Nodes)
            node.Kill();
        _mapper.Dispose();
    }

    private static string Configuration(int nodeCount)
    {
        string configuration = "disk_free_limit.absolute = 50MB\nloopback_users.guest = true\n";
        if (nodeCount == 1)
            return configuration;
        configuration += "cluster_formation.peer_discovery_backend = classic_config\n";
        for (int node = 1; node <= nodeCount; node++)
            configuration += $"cluster_formation.classic_config.nodes.{Text(node)} = n{Text(node)}@localhost\n";
        return configuration;
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
