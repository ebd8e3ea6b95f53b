using System.Globalization;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Memory;
using MappedFileQueues.TestPeer.Verbs;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// Damaged files: a child damages a store in hundreds of ways, one after the other, and reads it back after each.
/// </summary>
internal sealed class HostilePart : LabPart
{
    public const string Verb = "hostile";

    private const int RunsEnough = 8;
    private const int SamplesPerFile = 12;
    private const int ComplaintsShown = 5;

    /// <summary>For all of its damages; the child itself ends when one of them takes a minute.</summary>
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(10);

    public override string Name => "hostile";

    public override string Help => "flipped, zeroed, swapped, duplicated, cut, lengthened, foreign files, links and folders";

    /// <summary>The child: `hostile FAULT …`, the rest as the tests' own verb has it.</summary>
    public static int Child(string[] arguments)
    {
        PlantedFaults.Active = Enum.Parse<PlantedFault>(arguments[0]);
        return HostileVerb.Run(arguments[1..]);
    }

    public override void Run(int seed, LabOptions options, PartResult result)
    {
        // All eight kinds of store come in turn.
        uint kind = (uint)seed % 8;
        string[] policies = Enum.GetNames<CorruptionPolicy>();
        string policy = policies[(uint)seed / 8 % policies.Length];
        string folder = Path.Combine(
            Directory.Exists("/dev/shm") ? "/dev/shm" : Path.GetTempPath(), $"mfq-crashlab-{Guid.NewGuid():n}");
        Directory.CreateDirectory(folder);
        try
        {
            using var child = new LabChild(
            [
                Verb, options.Planted.Length > 0 ? options.Planted : "None", folder, (kind & 1) == 0 ? "struct" : "messages",
                (kind & 2) == 0 ? "verified" : "unverified", (kind & 4) == 0 ? "same" : "cut",
                (seed & int.MaxValue).ToString(CultureInfo.InvariantCulture),
                SamplesPerFile.ToString(CultureInfo.InvariantCulture), "0", "1", policy,
            ]);
            bool hasEnded = child.WaitForExit(s_limit);
            Judge(child, hasEnded, result);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    public override bool IsEnough(int runs, LabOptions options, PartResult result) => runs >= RunsEnough;

    private static void Judge(LabChild child, bool hasEnded, PartResult result)
    {
        string[] lines = child.Output.Split('\n');
        string last = lines.LastOrDefault(line => line.StartsWith("AT ", StringComparison.Ordinal)) ?? "before the first damage";
        if (!hasEnded)
            throw new LabViolation($"The child hangs: {last}");
        string[] bad = [.. lines.Where(line => line.StartsWith("BAD ", StringComparison.Ordinal))];
        if (bad.Length > 0)
            throw new LabViolation($"{bad.Length} complaints: {string.Join("\n    ", bad.Take(ComplaintsShown))}");
        if (child.ExitCode != 0)
            throw new LabViolation($"The child ended with exit code {child.ExitCode}: {last}; "
                + $"{string.Join('\n', lines.TakeLast(8))}");
        string done = lines.First(line => line.StartsWith("DONE ", StringComparison.Ordinal));
        result.Add("damages", long.Parse(done[5..], CultureInfo.InvariantCulture));
    }
}
