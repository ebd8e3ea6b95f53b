using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Files;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Peers;

/// <summary>A library that a user would take instead of this one.</summary>
internal enum Peer
{
    FasterLog,
    Sqlite,
    Channel,
    PersistentChannel,
    Serilog,
    ZLogger,
    NLog,
}

/// <summary>
/// Whether a peer starts on this machine: it is opened once and takes a message or a line. A library that is missing, or a native
/// part that does not load, then leaves out its own figures only; an error while it is measured ends the run.
/// </summary>
internal static class PeerObstacles
{
    private static readonly Dictionary<Peer, string?> s_found = [];

    /// <summary>Why a peer cannot be measured; null when it can.</summary>
    public static string? Of(Peer peer, string directory)
    {
        if (s_found.TryGetValue(peer, out string? known))
            return known;
        string path = Path.Combine(directory, $"probe-{peer}");
        try
        {
            Open(peer, path);
            s_found.Add(peer, null);
        }
        catch (Exception exception)
        {
            s_found.Add(peer, $"{exception.GetType().Name}: {exception.Message}");
        }

        PeerSides.Delete(path);
        File.Delete(path);
        return s_found[peer];
    }

    private static void Open(Peer peer, string path)
    {
        switch (peer)
        {
            case Peer.FasterLog:
                FasterLog(path);
                break;
            case Peer.Sqlite:
                Sqlite(path);
                break;
            case Peer.Channel:
                Channel();
                break;
            case Peer.PersistentChannel:
                PersistentChannel(path);
                break;
            case Peer.Serilog:
                Log(LogPeers.Serilog, path);
                break;
            case Peer.ZLogger:
                Log(LogPeers.ZLogger, path);
                break;
            default:
                Log(LogPeers.NLog, path);
                break;
        }
    }

    // A missing assembly shows when a method that names its types is compiled: each is a method of its own.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void FasterLog(string path) => Use(new FasterLogQueue(path, 1));

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Sqlite(string path) => Use(new SqliteQueue(path));

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Channel() => Use(new ChannelQueue());

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void PersistentChannel(string path) => Use(new PersistentChannelQueue(path, 1));

    private static void Use(BenchQueue queue)
    {
        using (queue)
        {
            queue.Append(1);
            queue.SeekToStart();
            _ = queue.Read(1);
        }
    }

    private static void Log(Func<string, (LineLogger Log, IDisposable Logger)> open, string path)
    {
        (LineLogger log, IDisposable logger) = open(path);
        using (logger)
            log("Alice", 1);
    }
}
