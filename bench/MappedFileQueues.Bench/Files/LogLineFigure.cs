using System.Globalization;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Files;
using Microsoft.Extensions.Logging;
using Serilog;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// Nanoseconds for each line of a log with two texts and a number, with the closing: the log provider behind a generated log
/// method, beside Serilog's file sink with `buffered: true`, called by its own interface.
/// </summary>
internal sealed partial class LogLineFigure(ChildContext context)
{
    public const string Name = "log_line";

    /// <summary>Making a line takes longer than writing it: fewer of them fill the time.</summary>
    private const int BytesPerLine = 400;

    private const int WarmUpCount = 300;
    private const string Who = "Alice";
    private const string Place = "the second floor";

    public IReadOnlyList<Samples> Measure()
    {
        WarmUp.UntilCompiled(() =>
        {
            _ = MeasureSerilog(WarmUpCount);
            _ = MeasureOurs(WarmUpCount);
        });
        long count = context.Bytes / BytesPerLine;
        return [Interleaved.Run(Name, "ns", context.Repetitions, () => MeasureSerilog(count), () => MeasureOurs(count))];
    }

    [LoggerMessage(1, LogLevel.Information, "User {Name} came to {Place} with {Count}")]
    private static partial void Came(Microsoft.Extensions.Logging.ILogger logger, string name, string place, long count);

    private double MeasureSerilog(long count)
    {
        string path = context.Path("serilog.log");
        Ballast.Take(count * BytesPerLine);
        Serilog.Core.Logger logger = new LoggerConfiguration()
            .WriteTo.File(path, buffered: true, fileSizeLimitBytes: null, formatProvider: CultureInfo.InvariantCulture)
            .CreateLogger();
        long start = Clock.Now;
        for (long i = 0; i < count; i++)
            logger.Information("User {Name} came to {Place} with {Count}", Who, Place, i);
        logger.Dispose();
        return Checked(path, start, count);
    }

    private double MeasureOurs(long count)
    {
        string path = context.Path("ours.log");
        Ballast.Take(count * BytesPerLine);
        ILoggerFactory factory = LoggerFactory.Create(builder => builder.AddMappedFile(options =>
        {
            options.Path = path;
            options.File = new AppendFileOptions { Durability = AppendDurability.PageCache };
        }));
        Microsoft.Extensions.Logging.ILogger logger = factory.CreateLogger("Bench");
        long start = Clock.Now;
        for (long i = 0; i < count; i++)
            Came(logger, Who, Place, i);
        factory.Dispose();
        return Checked(path, start, count);
    }

    private static double Checked(string path, long start, long count)
    {
        double nanoseconds = Clock.NanosecondsEach(start, count);
        long next = 0;
        foreach (string line in File.ReadLines(path))
        {
            ReadOnlySpan<char> number = line.AsSpan(line.LastIndexOf(' ') + 1);
            if (!line.Contains(Place, StringComparison.Ordinal) || long.Parse(number, CultureInfo.InvariantCulture) != next++)
                throw new ToolException($"A line was not logged as it should be: number={next - 1}, line={line}.");
        }

        if (next != count)
            throw new ToolException($"Lines are missing: logged={count}, found={next}, file={path}.");
        BlockRun.Delete(path);
        return nanoseconds;
    }
}
