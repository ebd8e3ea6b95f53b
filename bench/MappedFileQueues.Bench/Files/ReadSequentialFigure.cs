using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Files;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// MB/s of reading a file from front to back and summing it, four times the bytes of the other figures (as many with `--quick`):
/// by blocks that lie in a mapping, beside the fastest of what a program would do itself. Warm: the file is in the system's
/// cache. Cold: it is not, as far as this machine's own cache goes. Beside it: blocks that are read, reads into a buffer of
/// 1 MiB, and what the peers that are not the fastest reach.
/// </summary>
internal sealed class ReadSequentialFigure(ChildContext context)
{
    public const string WarmName = "read_seq_warm";
    public const string ColdName = "read_seq_cold";

    private const int LengthFactor = 4;
    private const int WarmUpLength = 1024 * 1024;

    private const long FileLength = 512 * 1024 * 1024;

    private static readonly string[] s_sides =
        ["", "_blocks", "_copied", .. ReadPeers.All.Select(peer => peer.Suffix)];

    private readonly byte[] _buffer = new byte[ReadPeers.BufferLength];

    public static string[] Names { get; } =
        [.. s_sides.Select(side => WarmName + side), .. s_sides.Select(side => ColdName + side)];

    public IReadOnlyList<Samples> Measure()
    {
        string small = context.Path("small");
        Make(small, WarmUpLength);
        WarmUp.UntilCompiled(() => _ = MeasureAll([small], isCold: false, run: 0));
        File.Delete(small);

        long length = context.Bytes * (context.Task.IsQuick ? 1 : LengthFactor);
        int count = (int)((length + FileLength - 1) / FileLength);
        string[] paths = [.. Enumerable.Range(0, count).Select(i => context.Path($"read-{i}"))];
        foreach (string path in paths)
            Make(path, length / paths.Length);
        List<Samples> samples = [.. Measure(paths, WarmName, isCold: false)];
        if (ReadPeers.TryDropCache(paths[0]))
            samples.AddRange(Measure(paths, ColdName, isCold: true));
        foreach (string path in paths)
            File.Delete(path);
        return samples;
    }

    private IEnumerable<Samples> Measure(string[] paths, string name, bool isCold)
    {
        if (!isCold)
            _ = MeasureAll(paths, isCold, run: 0);
        double[][] all = [.. Enumerable.Range(0, context.Repetitions).Select(run => MeasureAll(paths, isCold, run))];
        double[][] sides = [.. s_sides.Select((_, side) => all.Select(run => run[side]).ToArray())];
        double[] best = sides[^ReadPeers.All.Count..].MaxBy(FigureResult.Median)!;
        return s_sides.Select((side, index) => new Samples(name + side, "MB/s", best, sides[index]));
    }

    /// <summary>
    /// All files by every way, and each file by all ways in turn, in another order each time: a virtual disk's rate changes
    /// within seconds, and what a way leaves behind (memory, above all) is for the next.
    /// </summary>
    private double[] MeasureAll(string[] paths, bool isCold, int run)
    {
        Func<string, ulong>[] sides = [ReadMapped, ReadBlocks, ReadCopies, .. ReadPeers.All.Select(peer => peer.Read)];
        double[] times = new double[sides.Length];
        int[] order = [.. Enumerable.Range(0, sides.Length)];
        Random random = new(run);
        long length = new FileInfo(paths[0]).Length;
        foreach (string path in paths)
        {
            ulong? expected = null;
            random.Shuffle(order);
            foreach (int side in order)
            {
                if (isCold)
                {
                    // In this order: the file's own pages, dropped long before, would be memory that the host has taken back.
                    Ballast.Take(length);
                    ReadPeers.TryDropCache(path);
                }

                long start = Clock.Now;
                ulong sum = sides[side](path);
                times[side] += Clock.MillisecondsSince(start);
                Sums.Check(WarmName, sum, expected ??= sum);
            }
        }

        return [.. times.Select(time => length * paths.Length / time / 1e3)];
    }

    private static ulong ReadMapped(string path) => ReadBlocks(path, new ReadAheadOptions { MapBlocks = true });

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
