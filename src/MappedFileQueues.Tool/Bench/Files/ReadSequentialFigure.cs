using MappedFileQueues.Files;
using MappedFileQueues.Tool.Bench.Measuring;
using MappedFileQueues.Tool.Bench.Processes;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tool.Bench.Files;

/// <summary>
/// MB/s of reading a file from front to back and summing it, four times the bytes of the other figures (as many with `--quick`):
/// by blocks that lie in a mapping, beside the fastest of what a program would do itself. Warm: the file is in the system's
/// cache. Cold: it is not, as far as this machine's own cache goes. Beside it: blocks that are read, reads into a buffer of 1
/// MiB, and what the peers that are not the fastest reach.
/// </summary>
internal sealed class ReadSequentialFigure(ChildContext context)
{
    public const string WarmName = "read_seq_warm";
    public const string ColdName = "read_seq_cold";

    private const int LengthFactor = 4;
    private const int WarmUpLength = 1024 * 1024;

    private static readonly string[] s_sides = ["", "_blocks", "_copied", .. ReadPeers.All.Select(peer => peer.Suffix)];

    private readonly byte[] _buffer = new byte[ReadPeers.BufferLength];

    public static string[] Names { get; } =
        [.. s_sides.Select(side => WarmName + side), .. s_sides.Select(side => ColdName + side)];

    public IReadOnlyList<Samples> Measure()
    {
        string small = context.Path("small");
        Make(small, WarmUpLength);
        WarmUp.UntilCompiled(() => _ = MeasureAll(small, isCold: false, run: 0));
        File.Delete(small);

        string path = context.Path("read");
        Make(path, context.Bytes * (context.Task.IsQuick ? 1 : LengthFactor));
        List<Samples> samples = [.. Measure(path, WarmName, isCold: false)];
        if (ReadPeers.TryDropCache(path))
            samples.AddRange(Measure(path, ColdName, isCold: true));
        File.Delete(path);
        return samples;
    }

    private IEnumerable<Samples> Measure(string path, string name, bool isCold)
    {
        if (!isCold)
            _ = MeasureAll(path, isCold, run: 0);
        double[][] all = [.. Enumerable.Range(0, context.Repetitions).Select(run => MeasureAll(path, isCold, run))];
        double[][] sides = [.. s_sides.Select((_, side) => all.Select(run => run[side]).ToArray())];
        double[] best = sides[^ReadPeers.All.Count..].MaxBy(Statistics.Median)!;
        return s_sides.Select((side, index) => new Samples(name + side, "MB/s", best, sides[index]));
    }

    /// <summary>
    /// Every side once: ours in three ways, and the peers, each repetition in another order: what a side leaves behind (memory,
    /// above all) is for the next.
    /// </summary>
    private double[] MeasureAll(string path, bool isCold, int run)
    {
        Func<string, ulong>[] sides = [ReadMapped, ReadBlocks, ReadCopies, .. ReadPeers.All.Select(peer => peer.Read)];
        long length = new FileInfo(path).Length;
        double[] rates = new double[sides.Length];
        ulong? expected = null;
        int[] order = [.. Enumerable.Range(0, sides.Length)];
        new Random(run).Shuffle(order);
        foreach (int side in order)
        {
            if (isCold)
            {
                // In this order: the file's own pages, dropped long before, would be memory that the host has taken back.
                Ballast.Take(context.Path("ballast"), length);
                ReadPeers.TryDropCache(path);
            }

            long start = Clock.Now;
            ulong sum = sides[side](path);
            rates[side] = length / Clock.MillisecondsSince(start) / 1e3;
            Sums.Check(WarmName, sum, expected ??= sum);
        }

        return rates;
    }

    private static ulong ReadMapped(string path) => ReadBlocks(path, new ReadAheadOptions { MapsBlocks = true });

    private static ulong ReadBlocks(string path) => ReadBlocks(path, new ReadAheadOptions());

    private ulong ReadCopies(string path)
    {
        using ReadAheadStream stream = new(path);
        ulong sum = 0;
        for (int count; (count = stream.Read(_buffer)) > 0;)
            sum += ReadPeers.Sum(_buffer.AsSpan(0, count));
        return sum;
    }

    private static ulong ReadBlocks(string path, ReadAheadOptions options)
    {
        using ReadAheadStream stream = new(path, options);
        ulong sum = 0;
        while (stream.TryReadBlock(out ReadOnlySpan<byte> block))
            sum += ReadPeers.Sum(block);
        return sum;
    }

    /// <summary>Bytes that neither the disk nor the host can press together.</summary>
    private void Make(string path, long length)
    {
        using SafeFileHandle file = File.OpenHandle(path, FileMode.Create, FileAccess.Write, preallocationSize: length);
        new Random(1).NextBytes(_buffer);
        for (long position = 0; position < length; position += _buffer.Length)
        {
            _buffer[position / _buffer.Length % _buffer.Length]++;
            RandomAccess.Write(file, _buffer.AsSpan(0, (int)Math.Min(_buffer.Length, length - position)), position);
        }
    }
}
