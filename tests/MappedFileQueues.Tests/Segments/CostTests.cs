using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Segments;

/// <summary>What a store costs that carries little, whatever its segments' length.</summary>
public sealed class CostTests(ITestOutputHelper output) : IDisposable
{
    private const long Mebibyte = 1024 * 1024;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(4096)]
    [InlineData(64 * Mebibyte)]
    [InlineData(4096 * Mebibyte)]
    public void Make_EmptyStore_TakesAtMostOneMebibyteOfBlocks(long segmentLength)
    {
        var options = new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = segmentLength };
        using (MappedFileQueue queue = new(options))
        {
            _ = queue.Producer;
            _ = queue.Consumer;
            long told = queue.GetInfo().BytesOnDisk;
            Assert.InRange(told, 1, Mebibyte);
        }

        long blocks = BlocksOf(_temp.StorePath);
        output.WriteLine($"{segmentLength}: {blocks} bytes");
        Assert.InRange(blocks, 1, Mebibyte);
    }

    /// <summary>
    /// In a fresh process, runtime compilation of the library included: under 50 ms by the clock where somebody promises an
    /// idle machine and a Release build (MFQ_STRICT=1). Elsewhere other tests run beside this one: there processor time
    /// counts, and four times as much of it, since nothing of a Debug build is compiled ahead.
    /// </summary>
    [Theory]
    [InlineData(4096)]
    [InlineData(64 * Mebibyte)]
    [InlineData(4096 * Mebibyte)]
    public void OpenAndFirstAppend_FreshProcess_TakesUnder50Milliseconds(long segmentLength)
    {
        bool isStrict = Environment.GetEnvironmentVariable("MFQ_STRICT") == "1";
        double limit = isStrict ? 50 : 200;
        double made = BestBelow(limit, isStrict, segmentLength, isNew: true);
        double opened = BestBelow(limit, isStrict, segmentLength, isNew: false);
        output.WriteLine($"{segmentLength}: made in {made} ms, opened in {opened} ms");
        Assert.InRange(made, 0.001, limit);
        Assert.InRange(opened, 0.001, limit);
    }

    /// <summary>The first attempt that stays below the limit, or the best of all.</summary>
    private double BestBelow(double limit, bool byTheClock, long segmentLength, bool isNew)
    {
        const int attempts = 40;
        double best = double.MaxValue;
        for (int i = 0; i < attempts && best > limit; i++)
        {
            if (isNew && Directory.Exists(_temp.StorePath))
                Directory.Delete(_temp.StorePath, recursive: true);
            using ChildProcess child = ChildProcess.StartPeer(
                "first-append", _temp.StorePath, segmentLength.ToString(CultureInfo.InvariantCulture));
            child.ExpectExit();
            string[] times = Assert.Single(child.Lines).Split(' ');
            best = Math.Min(best, double.Parse(times[byTheClock ? 0 : 1], CultureInfo.InvariantCulture));
        }

        return best;
    }

    /// <summary>Another witness than the library: `du` counts blocks.</summary>
    private static long BlocksOf(string folder)
    {
        using Process du = Process.Start(new ProcessStartInfo("du", ["-s", "-B1", folder]) { RedirectStandardOutput = true })!;
        string text = du.StandardOutput.ReadToEnd();
        du.WaitForExit();
        return long.Parse(text.Split('\t')[0], CultureInfo.InvariantCulture);
    }
}
