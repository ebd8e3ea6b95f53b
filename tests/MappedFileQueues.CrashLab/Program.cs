using System.CommandLine;
using System.Diagnostics;
using MappedFileQueues.CrashLab.Again;
using MappedFileQueues.CrashLab.Groups;
using MappedFileQueues.CrashLab.Parts;
using MappedFileQueues.Memory;

namespace MappedFileQueues.CrashLab;

/// <summary>
/// The crash laboratory: kills, cuts, fails and damages stores, and holds what is left against what was promised.
/// </summary>
internal static class Program
{
    private static readonly LabPart[] s_parts =
    [
        new RealCutPart(), new CutPart(retains: false), new CutPart(retains: true), new GroupPart(), new RepeatPart(),
        new KillPart(), new FaultPart(), new HostilePart(), new AppendPart(), new PackPart(),
    ];

    private static int Main(string[] arguments)
    {
        if (arguments is [Processes.Victim.Verb, ..])
            return Processes.Victim.Run(arguments[1..]);
        if (arguments is [HostilePart.Verb, ..])
            return HostilePart.Child(arguments[1..]);
        if (arguments is [Processes.CutWorker.Verb, ..])
            return Processes.CutWorker.Run(arguments[1..]);
        if (arguments is [Processes.FaultChild.Verb, ..])
            return Processes.FaultChild.Run(arguments[1..]);
        if (arguments is [Soak.SoakPlan.ProducerVerb, ..])
            return Soak.SoakProducer.Run(arguments[1..]);
        if (arguments is [Soak.SoakPlan.ConsumerVerb, ..])
            return Soak.SoakConsumer.Run(arguments[1..]);
        RootCommand root = CreateRoot();
        return root.Parse(arguments).Invoke(new InvocationConfiguration { EnableDefaultExceptionHandler = false });
    }

    private static RootCommand CreateRoot()
    {
        Option<int?> seed = new("--seed")
        {
            Description = "The first run's seed; run i has this seed plus i. Default: by the clock.",
        };
        Option<int?> runs = new("--runs") { Description = "Runs of each part, one seed each." };
        Option<double?> minutes = new("--minutes") { Description = "How long each part goes on." };
        Option<string[]> only = new("--only")
        {
            Description = $"Only these parts: {string.Join(", ", s_parts.Select(part => $"{part.Name} ({part.Help})"))}.",
            AllowMultipleArgumentsPerToken = true,
        };
        Option<int> images = new("--images") { Description = "Images of the cut part.", DefaultValueFactory = _ => 20_000 };
        Option<int> kills = new("--kills") { Description = "Kills of the kill part.", DefaultValueFactory = _ => 200 };
        Option<int> jobs = new("--jobs")
        {
            Description = "Runs that go on at the same time.",
            DefaultValueFactory = _ => Environment.ProcessorCount,
        };
        Option<string> keep = new("--keep")
        {
            Description = "Where failing images are kept.",
            DefaultValueFactory = _ => Path.Combine(Path.GetTempPath(), "mfq-crashlab"),
        };
        Option<PlantedFault> planted = new("--planted") { Description = "Switches one planted mistake on." };
        Option<bool> first = new("--stop-at-first") { Description = "The first violation ends the run." };
        Option<bool> goOn = new("--go-on") { Description = "Goes on with the other parts when one has found something." };
        RootCommand root = new("Kills, cuts, fails and damages stores, and holds what is left against what was promised. "
            + "Exit codes: 0 nothing found, 1 a violation.")
        {
            seed, runs, minutes, only, images, kills, jobs, keep, planted, first, goOn,
        };
        root.SetAction(parsed => Run(parsed.GetValue(only) ?? [], new LabOptions
        {
            Seed = parsed.GetValue(seed) ?? Environment.TickCount & int.MaxValue,
            Runs = parsed.GetValue(runs),
            Time = parsed.GetValue(minutes) is { } value ? TimeSpan.FromMinutes(value) : null,
            KeepFolder = parsed.GetValue(keep)!,
            Jobs = Math.Max(1, parsed.GetValue(jobs)),
            Images = parsed.GetValue(images),
            Kills = parsed.GetValue(kills),
            Planted = parsed.GetValue(planted) is var fault && fault != PlantedFault.None ? fault.ToString() : "",
            StopsAtFirst = parsed.GetValue(first),
            GoesOn = parsed.GetValue(goOn),
        }));
        root.Add(CreatePlanted());
        root.Add(Soak.SoakCommand.Create());
        return root;
    }

    private static Command CreatePlanted()
    {
        Option<PlantedFault[]> only = new("--only")
        {
            Description = "Only these mistakes.",
            AllowMultipleArgumentsPerToken = true,
        };
        Option<int> seeds = new("--seeds") { Description = "Fresh seeds for each.", DefaultValueFactory = _ => 20 };
        Option<int?> first = new("--seed") { Description = "The first of them. Default: by the clock." };
        Command command = new("planted", "Switches on one planted mistake after the other, and says how often it is caught.")
        {
            only, seeds, first,
        };
        command.SetAction(parsed => PlantedTable.Run(
            parsed.GetValue(only) ?? [], parsed.GetValue(seeds),
            parsed.GetValue(first) ?? Environment.TickCount & int.MaxValue));
        return command;
    }

    private static int Run(IReadOnlyCollection<string> only, LabOptions options)
    {
        long began = Stopwatch.GetTimestamp();
        if (options.Planted.Length > 0)
            PlantedFaults.Active = Enum.Parse<PlantedFault>(options.Planted);
        Console.WriteLine($"seed={options.Seed}{(options.Planted.Length > 0 ? $", planted={options.Planted}" : "")}");
        List<PartResult> results = [];
        foreach (LabPart part in s_parts.Where(part => only.Count == 0 || only.Contains(part.Name)))
        {
            results.Add(LabRunner.Run(part, options));
            if (!options.GoesOn && results[^1].Violations.Count > 0)
                break;
        }

        int violations = results.Sum(result => result.Violations.Count);
        Console.WriteLine($"{results.Sum(result => result.Checks)} checks passed, {violations} violations, "
            + $"{results.Sum(result => result.Skipped.Count)} skipped, in {Stopwatch.GetElapsedTime(began).TotalSeconds:F1} s");
        return violations == 0 ? 0 : 1;
    }
}
