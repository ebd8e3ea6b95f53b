using System.CommandLine;
using System.Diagnostics;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>`soak`: a store with retention and several processes, for minutes.</summary>
internal static class SoakCommand
{
    public static Command Create()
    {
        Option<double> minutes = new("--minutes") { Description = "How long.", DefaultValueFactory = _ => 10 };
        Option<string> dir = new("--dir")
        {
            Description = "Where the store is made, in a folder of its own that is removed unless something was found.",
            DefaultValueFactory = _ => Path.GetTempPath(),
        };
        Command command = new("soak", "Two producers and three consumers of different speeds on a store that keeps 64 MiB: what "
            + "each process takes stays bounded, and nothing is lost but what is reported as skipped.")
        {
            minutes, dir,
        };
        command.SetAction(parsed => Run(parsed.GetValue(dir)!, TimeSpan.FromMinutes(parsed.GetValue(minutes))));
        return command;
    }

    private static int Run(string dir, TimeSpan time)
    {
        string folder = Path.Combine(Path.GetFullPath(dir), $"mfq-soak-{Environment.ProcessId}");
        Directory.CreateDirectory(folder);
        long began = Stopwatch.GetTimestamp();
        try
        {
            new SoakRun(folder, time).Run();
        }
        catch (LabViolation violation)
        {
            LabChild.KillAll();
            Console.WriteLine($"VIOLATION soak: {violation.Message}\n    the store is kept in {folder}");
            return 1;
        }

        Directory.Delete(folder, recursive: true);
        Console.WriteLine($"soak: nothing found in {Stopwatch.GetElapsedTime(began).TotalSeconds:F0} s");
        return 0;
    }
}
