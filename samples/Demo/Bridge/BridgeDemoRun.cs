using System.Diagnostics;
using MappedFileQueues.Files;
using MappedFileQueues.Demo.Brokers;

namespace MappedFileQueues.Demo.Bridge;

/// <summary>
/// Lines of files through store, stream and store. For each part of them somebody is killed while it is under way: the forwarder,
/// the fetcher, both, and each of the brokers, one at a time.
/// </summary>
internal sealed class BridgeDemoRun : IDisposable
{
    private const string Stream = "demo";

    private static readonly TimeSpan s_arrivalTimeMax = TimeSpan.FromSeconds(60);

    private readonly string _near;
    private readonly string _far;
    private readonly BrokerCluster _cluster;
    private readonly IReadOnlyList<InputFile> _files;
    private readonly CancellationToken _interrupted;
    private readonly List<BridgeDeath> _deaths = [];
    private readonly MappedFileQueue _queue;
    private readonly LineDigest _digest = new();
    private BridgeChild _forwarder;
    private BridgeChild _fetcher;
    private long _messages;
    private long _bytes;
    private long _start;

    public BridgeDemoRun(string root, BrokerCluster cluster, IReadOnlyList<InputFile> files, CancellationToken interrupted)
    {
        (_near, _far) = (Path.Combine(root, "near"), Path.Combine(root, "far"));
        (_cluster, _files, _interrupted) = (cluster, files, interrupted);
        _queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _near });
        _forwarder = StartForwarder();
        _fetcher = StartFetcher();
    }

    private TimeSpan Elapsed => Stopwatch.GetElapsedTime(_start);

    private string Addresses => string.Join(',', _cluster.Addresses);

    /// <summary>Runs all parts.</summary>
    /// <param name="lengthMin">The files are sent again and again up to this many bytes.</param>
    public BridgeDemoResult Execute(long lengthMin)
    {
        (string What, Action Kill)[] parts =
        [
            ("forwarder", KillForwarder),
            ("broker n1", () => KillNode(_cluster.Nodes[0])),
            ("fetcher", KillFetcher),
            ("broker n2", () => KillNode(_cluster.Nodes[1])),
            ("forwarder and fetcher", () =>
            {
                KillForwarder();
                KillFetcher();
            }),
            ("broker n3", () => KillNode(_cluster.Nodes[2])),
        ];
        _start = Stopwatch.GetTimestamp();
        foreach ((string what, Action kill) in parts)
        {
            long before = Arrived();
            Send(_bytes + (lengthMin / parts.Length));
            WaitUntil(() => Arrived() > before);
            _deaths.Add(new BridgeDeath(Math.Round(Elapsed.TotalSeconds, 1), what, Arrived()));
            kill();
        }

        (long count, string received) = (0, "");
        long seen = -1;
        WaitUntil(() =>
        {
            // Only what is new is worth a reading.
            if (Arrived() == seen)
                return false;
            seen = Arrived();
            return (count = Count()) >= _messages;
        });
        double seconds = Math.Round(Elapsed.TotalSeconds, 1);
        // What comes now would be too much.
        (count, received) = Read();
        return new BridgeDemoResult(_messages, _bytes, count, _digest.Finish(), received, _deaths, seconds);
    }

    public void Dispose()
    {
        _forwarder.Dispose();
        _fetcher.Dispose();
        _queue.Dispose();
        _digest.Dispose();
    }

    private BridgeChild StartForwarder() => BridgeChild.Start("forward", _near, Addresses, "--stream", Stream);

    private BridgeChild StartFetcher() => BridgeChild.Start("fetch", Addresses, "--stream", Stream, _far);

    private void KillForwarder()
    {
        _forwarder.Dispose();
        _forwarder = StartForwarder();
    }

    private void KillFetcher()
    {
        _fetcher.Dispose();
        _fetcher = StartFetcher();
    }

    /// <summary>The next kill waits for the node: two that are away would be no majority.</summary>
    private static void KillNode(BrokerNode node)
    {
        node.Kill();
        node.Start();
        node.WaitUntilReady();
    }

    private void Send(long until)
    {
        while (_bytes < until)
        {
            foreach (InputFile file in _files)
            {
                using MappedFileLines lines = MappedFileLines.Open(file.Path);
                foreach (ReadOnlySpan<byte> line in lines)
                {
                    _queue.Producer.Produce(line);
                    _digest.Add(line);
                    _messages++;
                    _bytes += line.Length + 1;
                    if (_bytes >= until)
                        return;
                }
            }
        }
    }

    private void WaitUntil(Func<bool> condition)
    {
        long start = Stopwatch.GetTimestamp();
        while (!condition())
        {
            _interrupted.ThrowIfCancellationRequested();
            _forwarder.ThrowIfEnded();
            _fetcher.ThrowIfEnded();
            if (Stopwatch.GetElapsedTime(start) > s_arrivalTimeMax)
                throw new ToolException($"Nothing more arrives: sent={_messages}, arrived={Arrived()} bytes.");
            _interrupted.WaitHandle.WaitOne(20);
        }
    }

    private long Arrived()
    {
        if (!File.Exists(Path.Combine(_far, "queue.meta")))
            return 0;
        using MappedFileReader reader = MappedFileReader.Open(_far);
        return reader.GetInfo().PublishedOffset;
    }

    private long Count()
    {
        long count = 0;
        using MappedFileReader reader = MappedFileReader.Open(_far);
        while (reader.TryRead(out _))
            count++;
        return count;
    }

    private (long Count, string Digest) Read()
    {
        long count = 0;
        using LineDigest digest = new();
        using MappedFileReader reader = MappedFileReader.Open(_far);
        while (reader.TryRead(out ReadOnlySpan<byte> line))
        {
            digest.Add(line);
            count++;
        }

        return (count, digest.Finish());
    }
}
