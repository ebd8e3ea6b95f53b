using System.CommandLine;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>
/// The group `dotnet-io`: which of .NET's ways to open, read, write and copy a file is the fast one here, beside this library's.
/// </summary>
internal static class DotnetIoCommand
{
    private const long LengthDefault = 128L << 20;
    private const long LengthQuick = 16L << 20;

    /// <summary>With less, ext4 leaves its journal out.</summary>
    private const long ImageLengthMin = 128L << 20;

    private const string Legend =
        "Medians; * is the fastest way, or within 5 % of it; raw in the JSON is the fastest of the table. What a disk costs is "
        + "in the tables write_flushed, flush_each and ext4_… alone; in the others the file is in the system's cache.";

    private static readonly BenchOptions s_options = new("table", "A file of 16 MiB instead of 128, and fewer repetitions.");

    private static IEnumerable<string> Names => IoMeasurement.Tables.Select(table => table.Name);

    public static Command Create()
    {
        Command command = new(
            "dotnet-io", "Measures .NET's own ways to open, read, write, flush and copy files: which one to choose.");
        s_options.AddTo(command, _ => Names);
        command.SetAction(Run);
        return command;
    }

    private static int Run(ParseResult parsed)
    {
        bool isQuick = s_options.IsQuick(parsed);
        BenchSettings settings = new(
            isQuick, BenchSettings.MessagesDefaultQuick, s_options.Directory(parsed), isQuick ? LengthQuick : LengthDefault);
        return s_options.Run(parsed, settings, run => Measure(run, s_options.Wanted(parsed, Names)), Legend);
    }

    private static IReadOnlyList<Samples> Measure(BenchRun run, IoTable table)
    {
        if (table.ImageOptions is not { } options)
            return run.Measure(table.Role, processCount: 1);
        long length = ImageLengthMin + (run.Settings.Bytes * 2);
        using LoopImage? image = LoopImage.TryMake(run.Directory, length, options, out string reason);
        return image is null
            ? [IoMeasurement.Note($"The table is left out, no image can be mounted here: {reason}")]
            : run.MeasureIn(image.MountPoint, image.Prefix, table.Role);
    }

    private static List<FigureResult> Measure(BenchRun run, HashSet<string> wanted)
    {
        List<FigureResult> figures = [];
        foreach (IoTable table in IoMeasurement.Tables.Where(table => wanted.Contains(table.Name)))
        {
            BenchOptions.ShowProgress(table.Name);
            IReadOnlyList<Samples> samples = Measure(run, table);
            IoReport.Write(table, samples);
            figures.AddRange(IoReport.FiguresOf(table, samples));
        }

        return figures;
    }
}
