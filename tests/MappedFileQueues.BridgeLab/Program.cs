using System.CommandLine;
using System.Diagnostics;
using MappedFileQueues.BridgeLab;
using MappedFileQueues.RabbitMQ.Diagnostics;
using MappedFileQueues.Demo.Brokers;

if (LabVerbs.Run(args) is { } code)
    return code;

Option<int> seed = new("--seed")
{
    Description = "What happens, and when.",
    DefaultValueFactory = _ => Random.Shared.Next(1_000_000),
};
Option<double?> minutes = new("--minutes")
{
    Description = "How long the disturbances go on at most. Default: 3; with --each no limit.",
};
Option<int> nodes = new("--nodes") { Description = "One broker, or a cluster of three.", DefaultValueFactory = _ => 1 };
Option<PlantedFault> fault = new("--fault") { Description = "A planted mistake, which has to be found." };
Option<bool> planted = new("--planted") { Description = "Every planted mistake in turn, each for the minutes at most." };
Option<int> each = new("--each") { Description = "Goes on until each kind of kill has happened so often." };
Option<bool> keep = new("--keep") { Description = "Keeps the folder of a run that was not right, with the brokers' logs." };
RootCommand root = new("The laboratory of the bridge: kills everything, and compares what comes out with what went in.")
{
    seed, minutes, nodes, fault, planted, each, keep,
};
root.SetAction(async (parsed, _) =>
{
    if (BrokerCluster.Obstacle is { } obstacle)
    {
        Console.WriteLine($"{obstacle} Going on without.");
        return 0;
    }

    int passed = 0;
    int failed = 0;
    PlantedFault[] faults = parsed.GetValue(planted)
        ? [.. Enum.GetValues<PlantedFault>().Where(each => each != PlantedFault.None)] : [parsed.GetValue(fault)];
    int kills = parsed.GetValue(each);
    TimeSpan time = parsed.GetValue(minutes) is { } limit ? TimeSpan.FromMinutes(limit)
        : kills > 0 ? TimeSpan.MaxValue : TimeSpan.FromMinutes(3);
    LabSettings settings = new(parsed.GetValue(seed), time, parsed.GetValue(nodes), kills);
    foreach (PlantedFault one in faults)
    {
        bool isRight = await RunOneAsync(settings, one, parsed.GetValue(keep));
        (passed, failed) = isRight ? (passed + 1, failed) : (passed, failed + 1);
    }

    Console.WriteLine($"{passed} passed, {failed} failed");
    return failed == 0 ? 0 : 1;
});
return root.Parse(args).Invoke();

static async Task<bool> RunOneAsync(LabSettings settings, PlantedFault fault, bool keep)
{
    string folder = Directory.CreateTempSubdirectory("mfq-bridgelab-").FullName;
    long start = Stopwatch.GetTimestamp();
    bool isRight = false;
    try
    {
        using Laboratory laboratory = new(folder, settings, fault);
        Verdict verdict = await laboratory.RunAsync();
        Console.WriteLine(
            $"seed {settings.Seed}, {settings.Nodes} nodes, fault {fault}, {Stopwatch.GetElapsedTime(start).TotalSeconds:N0} s: "
            + laboratory.Summary);
        foreach (string line in verdict.Violations.Concat(verdict.Alarms).Concat(verdict.Troubles))
            Console.WriteLine(line);
        isRight = fault == PlantedFault.None ? verdict.IsClean : verdict.IsFound;
        Console.WriteLine(
            fault != PlantedFault.None ? isRight ? "found" : "NOT FOUND"
            : isRight ? "ok" : verdict.IsFound ? "VIOLATED" : "STUCK");
        return isRight;
    }
    finally
    {
        if (isRight || !keep)
            Directory.Delete(folder, recursive: true);
        else
            Console.WriteLine($"Kept: {folder}");
    }
}
