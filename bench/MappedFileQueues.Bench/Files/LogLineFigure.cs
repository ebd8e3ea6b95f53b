using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Files;

/// <summary>Logs so many lines with this name, numbered from 0.</summary>
internal delegate void LineLogger(string name, long count);

/// <summary>
/// Nanoseconds for each line of a log with two texts and a number, with the closing: the log provider after a generated log
/// method, beside another logger. The lines come from one thread or several, and each is looked at afterwards.
/// </summary>
/// <param name="context">The process.</param>
/// <param name="openPeer">The other logger.</param>
/// <param name="count">The lines of a repetition.</param>
/// <param name="threadCount">How many threads log them.</param>
internal sealed class LogLineFigure(
    ChildContext context, Func<string, (LineLogger Log, IDisposable Logger)> openPeer, long count, int threadCount = 1)
{
    public const string Name = "log_line";

    /// <summary>Making a line takes longer than writing it: fewer of them fill the time.</summary>
    private const int BytesPerLine = 400;

    private const int WarmUpCount = 300;

    /// <summary>A name for each thread.</summary>
    private static readonly string[] s_names = ["Alice", "Bob", "Carol", "Dave"];

    /// <summary>The figure of the group `files`.</summary>
    public static IReadOnlyList<Samples> BesideSerilog(ChildContext context) =>
        new LogLineFigure(context, LogPeers.Serilog, context.Bytes / BytesPerLine).Measure();

    public IReadOnlyList<Samples> Measure()
    {
        WarmUp.UntilCompiled(() =>
        {
            _ = Measure("peer.log", openPeer, WarmUpCount);
            _ = Measure("ours.log", LogPeers.Ours, WarmUpCount);
        });
        return
        [
            Interleaved.Run(
                context.Task.Role,
                "ns",
                context.Repetitions,
                () => Measure("peer.log", openPeer, count),
                () => Measure("ours.log", LogPeers.Ours, count)),
        ];
    }

    private double Measure(string file, Func<string, (LineLogger Log, IDisposable Logger)> open, long lines)
    {
        string path = context.Path(file);
        Ballast.Take(lines * BytesPerLine);
        long each = lines / threadCount;
        (LineLogger log, IDisposable logger) = open(path);
        double nanoseconds;
        if (threadCount == 1)
        {
            long start = Clock.Now;
            log(s_names[0], each);
            logger.Dispose();
            nanoseconds = Clock.NanosecondsEach(start, each);
        }
        else
        {
            nanoseconds = LogInThreads(log, logger, each);
        }

        Check(path, each);
        BlockRun.Delete(path);
        return nanoseconds;
    }

    private double LogInThreads(LineLogger log, IDisposable logger, long each)
    {
        using Barrier begin = new(threadCount + 1);
        Thread[] threads = [.. s_names.Take(threadCount).Select(name => new Thread(() =>
        {
            begin.SignalAndWait();
            log(name, each);
        }))];
        foreach (Thread thread in threads)
            thread.Start();
        begin.SignalAndWait();
        long start = Clock.Now;
        foreach (Thread thread in threads)
            thread.Join();
        logger.Dispose();
        return Clock.NanosecondsEach(start, each * threadCount);
    }

    /// <summary>Each thread's lines are there, whole and in order.</summary>
    private void Check(string path, long each)
    {
        long[] next = new long[threadCount];
        foreach (string line in File.ReadLines(path))
        {
            int thread = Array.FindIndex(s_names, name => line.Contains(name, StringComparison.Ordinal));
            ReadOnlySpan<char> number = line.AsSpan(line.LastIndexOf(' ') + 1);
            if (thread < 0 || thread >= threadCount || !line.Contains(LogPeers.Place, StringComparison.Ordinal)
                || long.Parse(number, CultureInfo.InvariantCulture) != next[thread]++)
                throw new ToolException($"A line was not logged as it should be: file={path}, line={line}.");
        }

        if (next.Any(count => count != each))
        {
            throw new ToolException(
                $"Lines are missing: logged by each thread={each}, found={string.Join(", ", next)}, file={path}.");
        }
    }
}
