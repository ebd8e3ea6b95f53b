using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using MappedFileQueues.Tool;

namespace MappedFileQueues.Demo.Brokers;

/// <summary>One node of a <see cref="BrokerCluster"/>; it can be killed, stopped in its tracks, and started again.</summary>
internal sealed class BrokerNode(
    string folder,
    string name,
    int port,
    int distributionPort,
    string scriptFolder,
    IReadOnlyDictionary<string, string> mapperEnvironment,
    string configuration)
{
    private static readonly TimeSpan s_startPatience = TimeSpan.FromMinutes(5);

    private BrokerProcess? _process;

    public string Name => name;

    public int Port => port;

    /// <summary>The address that a client takes; the account is the one that a fresh node has for loopback connections.</summary>
    public string Address => string.Create(CultureInfo.InvariantCulture, $"amqp://guest:guest@127.0.0.1:{port}");

    public bool IsRunning => _process?.IsRunning == true;

    /// <summary>The environment of the node, and of a program that asks it.</summary>
    private IReadOnlyDictionary<string, string> Environment => new Dictionary<string, string>(mapperEnvironment)
    {
        ["RABBITMQ_CONF_ENV_FILE"] = "/dev/null",
        ["RABBITMQ_NODENAME"] = name,
        ["RABBITMQ_NODE_IP_ADDRESS"] = "127.0.0.1",
        ["RABBITMQ_NODE_PORT"] = port.ToString(CultureInfo.InvariantCulture),
        ["RABBITMQ_DIST_PORT"] = distributionPort.ToString(CultureInfo.InvariantCulture),
        ["RABBITMQ_MNESIA_BASE"] = Path.Combine(folder, "mnesia"),
        ["RABBITMQ_LOG_BASE"] = Path.Combine(folder, "log"),
        ["RABBITMQ_PID_FILE"] = Path.Combine(folder, "pid"),
        ["RABBITMQ_CONFIG_FILE"] = Path.Combine(folder, "rabbitmq.conf"),
        ["RABBITMQ_ENABLED_PLUGINS_FILE"] = Path.Combine(folder, "enabled_plugins"),
        ["RABBITMQ_ADVANCED_CONFIG_FILE"] = Path.Combine(folder, "advanced.config"),
        ["RABBITMQ_GENERATED_CONFIG_DIR"] = Path.Combine(folder, "generated"),
        ["RABBITMQ_SCHEMA_DIR"] = Path.Combine(folder, "schema"),
        ["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] =
            "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none",
        ["RABBITMQ_CTL_ERL_ARGS"] = "-kernel inet_dist_use_interface {127,0,0,1}",
        // The script then becomes the server, instead of a shell that waits for it and passes signals on.
        ["RABBITMQ_ALLOW_INPUT"] = "1",
        ["RABBITMQ_SERVER_START_ARGS"] = "-noinput",
    };

    private string LogPath => Path.Combine(folder, "console.log");

    /// <summary>Starts the node, which keeps what it stored before; does not wait.</summary>
    public void Start()
    {
        Kill();
        Directory.CreateDirectory(folder);
        File.WriteAllText(Path.Combine(folder, "rabbitmq.conf"), configuration);
        File.WriteAllText(Path.Combine(folder, "enabled_plugins"), "[].\n");
        File.WriteAllText(Path.Combine(folder, "advanced.config"), "[].\n");
        _process = BrokerProcess.Start(LogPath, Environment, Path.Combine(scriptFolder, "rabbitmq-server"));
    }

    /// <summary>Returns once the node accepts connections.</summary>
    public void WaitUntilReady()
    {
        long start = Stopwatch.GetTimestamp();
        while (!Accepts())
        {
            if (!IsRunning || Stopwatch.GetElapsedTime(start) > s_startPatience)
                throw new ToolException($"The broker did not start: node={name}, log={LogPath}. {LastWords()}");
            Thread.Sleep(50);
        }
    }

    /// <summary>Starts a program that has the node evaluate an Erlang expression, and prints what that gives.</summary>
    public Process StartEvaluation(string expression)
    {
        ProcessStartInfo start = new(Path.Combine(scriptFolder, "rabbitmqctl"), ["-n", name, "eval", expression])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        foreach ((string key, string value) in Environment)
            start.Environment[key] = value;
        return Process.Start(start)!;
    }

    public void Stop() => _process?.Stop();

    public void Continue() => _process?.Continue();

    /// <summary>Kills the node as a power loss would, except that the kernel keeps what it has written.</summary>
    public void Kill()
    {
        _process?.Dispose();
        _process = null;
    }

    /// <summary>A node greets nobody by itself; one that answers a wrong greeting with its own has started.</summary>
    private bool Accepts()
    {
        try
        {
            using TcpClient client = new() { ReceiveTimeout = 1000 };
            client.Connect(IPAddress.Loopback, port);
            client.GetStream().Write("AMQP\0\0\0\0"u8);
            return client.GetStream().ReadByte() == 'A';
        }
        catch (IOException)
        {
            return false;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    private string LastWords()
    {
        try
        {
            return string.Join(' ', File.ReadLines(LogPath).TakeLast(3));
        }
        catch (IOException)
        {
            return "";
        }
    }
}
