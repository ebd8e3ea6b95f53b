using System.CommandLine;
using System.Diagnostics;
using MappedFileQueues.BridgeLab;
using MappedFileQueues.RabbitMQ.Diagnostics;
using MappedFileQueues.Tool.Bridge.Brokers;

if (LabVerbs.Run(args) is { } code)
    return code;

Option<int> seed = new("--seed")
{
    Description = "What happens, and when.",
    DefaultValueFactory = _ => Random.Shared.Next(1_000_000),
};
Option<double> minutes = new("--minutes") { Description = "How long the disturbances go on.", DefaultValueFactory = _ => 3 };
Option<int> nodes = new("--nodes") { Description = "One broker, or a cluster of three.", DefaultValueFactory = _ => 1 };
Option<PlantedFault> fault = new("--fault") { Description = "A planted mistake, which has to be found." };
Option<bool> planted = new("--planted") { Description = "Every planted mistake in turn, each for the minutes at most." };
RootCommand root = new("The laboratory of the bridge: kills everything, and compares what comes out with what went in.")
{
    seed, minutes, nodes, fault, planted,
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
    foreach (PlantedFault each in faults)
    {
        bool isRight = await RunOneAsync(parsed.GetValue(seed), parsed.GetValue(minutes), parsed.GetValue(nodes), each);
        (passed, failed) = isRight ? (passed + 1, failed) : (passed, failed + 1);
    }

    Console.WriteLine($"{passed} passed, {failed} failed");
    return failed == 0 ? 0 : 1;
});
return root.Parse(args).Invoke();

static async Task<bool> RunOneAsync(int seed, double minutes, int nodes, PlantedFault fault)
{
    string folder = Directory.CreateTempSubdirectory("mfq-bridgelab-").FullName;
    long start = Stopwatch.GetTimestamp();
    try
    {
        using Laboratory laboratory = new(folder, seed, TimeSpan.FromMinutes(minutes), nodes, fault);
        IReadOnlyList<string> wrong = await laboratory.RunAsync();
        Console.WriteLine($"seed {seed}, {nodes} nodes, fault {fault}, {Stopwatch.GetElapsedTime(start).TotalSeconds:N0} s: "
            + laboratory.Summary);
        foreach (string line in wrong)
            Console.WriteLine(line);
        bool isRight = (wrong.Count == 0) == (fault == PlantedFault.None);
        Console.WriteLine(fault == PlantedFault.None ? (isRight ? "ok" : "VIOLATED") : isRight ? "found" : "NOT FOUND");
        return isRight;
    }
    finally
    {
        Directory.Delete(folder, recursive: true);
    }
}
