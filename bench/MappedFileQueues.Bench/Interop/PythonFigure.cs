using System.Text.Json;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Interop;

/// <summary>Millions of messages a second that bench/interop.py reads; the C library verifies them.</summary>
internal static class PythonFigure
{
    /// <summary>It reads one message in so many of those of the others: it takes a hundred times longer.</summary>
    private const int Share = 10;

    /// <summary>The system's own one may have numpy.</summary>
    private static readonly string s_python = File.Exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";

    public static IReadOnlyList<Samples> Measure(BenchRun run, string name, string what)
    {
        CLibrary.Compile(run);
        long count = run.Settings.Messages / Share;
        string path = Path.Combine(run.Directory, "store");
        double[] ours;
        using (StructQueue queue = new(BenchStore.InOneSegment(path, count, ProducerMode.Exclusive)))
        {
            queue.Append(count);
            ours = Read(run, what, path, count);
        }

        BenchStore.Delete(path);
        return [new Samples(name, "M/s", [], [.. ours.Select(each => 1e3 / each)])];
    }

    private static double[] Read(BenchRun run, string what, string path, long count)
    {
        string[] arguments =
        [
            OtherProgram.FindSource("bench/interop.py"), what, path,
            FormattableString.Invariant($"{count}"), FormattableString.Invariant($"{run.Settings.Repetitions}"),
            FormattableString.Invariant($"{count * (count - 1) / 2}"),
        ];
        return JsonSerializer.Deserialize<double[]>(OtherProgram.Run(s_python, arguments, new Dictionary<string, string>
        {
            ["PYTHONPATH"] = OtherProgram.FindSource("interop/python"),
            ["LD_LIBRARY_PATH"] = run.Directory,
        }))!;
    }
}
