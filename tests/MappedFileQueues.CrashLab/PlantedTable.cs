using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.Memory;

namespace MappedFileQueues.CrashLab;

/// <summary>
/// Whether the laboratory can be believed when it finds nothing: each planted mistake is switched on for a number of fresh
/// seeds, and must be caught within the budget of a usual run, 19 times of 20.
/// </summary>
internal static class PlantedTable
{
    private const double ShareNeeded = 0.95;

    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(6);

    /// <summary>Where a mistake shows first; what is not named shows in the images of cuts.</summary>
    private static readonly Dictionary<PlantedFault, string> s_parts = new()
    {
        [PlantedFault.MappedSegmentRecycled] = "retain",
        [PlantedFault.RecycledNotZeroed] = "retain",
        [PlantedFault.AllocatedRaisedEarly] = "retain",
        [PlantedFault.HardLinkIgnored] = "retain",
        [PlantedFault.LogStartNotRecorded] = "retain",
        [PlantedFault.LogStartAfterDeletion] = "retain",
        [PlantedFault.CursorsNotReadAgain] = "retain",
        [PlantedFault.LimitRaisedLate] = "retain",
        [PlantedFault.LogStartRecordedLate] = "retain",
        [PlantedFault.CursorsNotSynced] = "retain",
        [PlantedFault.DurableNotRaised] = "retain",
        [PlantedFault.RecycledNameNotFlushed] = "retain",
        [PlantedFault.TemporaryNameShared] = "again",
        [PlantedFault.LogStartNotReadAgain] = "retain",
        [PlantedFault.LeftoversKept] = "retain",
        [PlantedFault.UnrecordedLogStartKept] = "retain",
        [PlantedFault.StoppedOwnerIsDead] = "kill",
        [PlantedFault.GenerationNotRaised] = "kill",
        [PlantedFault.SilentRepair] = "kill",
        [PlantedFault.FlushErrorIgnored] = "fault",
        [PlantedFault.PoisonNotShared] = "fault",
        [PlantedFault.ChecksumWithoutOffset] = "hostile",
        [PlantedFault.BlockNotInChecksum] = "hostile",
        [PlantedFault.AppendNotFlushed] = "append",
        [PlantedFault.ReusedNotCleared] = "append",
        [PlantedFault.ZeroTailKept] = "append",
        [PlantedFault.RoomNotMarked] = "append",
        [PlantedFault.PackNotFlushed] = "pack",
        [PlantedFault.PackNameNotFlushed] = "pack",
        [PlantedFault.CompactionNotFlushed] = "pack",
        [PlantedFault.TombstonesDropped] = "pack",
        [PlantedFault.PackDamageIsEnd] = "pack",
        [PlantedFault.PackCutIsDamage] = "pack",
        [PlantedFault.PackHiddenForgotten] = "pack",
        [PlantedFault.PackEvictionNotSettled] = "pack",
        [PlantedFault.SequenceHintAboveDurable] = "group",
        [PlantedFault.SequenceNotSettled] = "group",
        [PlantedFault.SequenceSettledBeforeRecord] = "group",
        [PlantedFault.GroupNotConfirmed] = "group",
        [PlantedFault.GroupStateReadLate] = "group",
        [PlantedFault.GroupNamedReused] = "group",
        [PlantedFault.GroupBitBeforeContent] = "group",
        [PlantedFault.GroupHolderTakenForDead] = "group",
        [PlantedFault.GroupHalfMadeForgotten] = "group",
        [PlantedFault.GroupFloorSinglesFirst] = "group",
        [PlantedFault.GroupNotSaved] = "group",
        [PlantedFault.GroupLiveBelievedAfterCut] = "group",
        [PlantedFault.GroupNotClamped] = "group",
        [PlantedFault.GroupSavedNotClamped] = "group",
        [PlantedFault.GroupBitsByCountIgnored] = "group",
        [PlantedFault.LetterAfterDone] = "group",
        [PlantedFault.GroupGenerationReset] = "group",
    };

    public static int Run(IReadOnlyCollection<PlantedFault> only, int seedCount, int firstSeed)
    {
        bool isGood = true;
        Console.WriteLine($"{"planted fault",-24} {"caught",7}  {"part",-8} {"median",8}  {"first seed",10}");
        foreach (PlantedFault fault in Enum.GetValues<PlantedFault>().Where(fault => fault != PlantedFault.None))
        {
            if (only.Count > 0 && !only.Contains(fault))
                continue;
            List<double> times = [];
            List<int> missed = [];
            for (int i = 0; i < seedCount; i++)
            {
                // Far apart: the runs of one seed continue with the seeds after it.
                int seed = unchecked(firstSeed + (i * 100_003)) & int.MaxValue;
                long began = Stopwatch.GetTimestamp();
                if (IsCaught(fault, seed))
                    times.Add(Stopwatch.GetElapsedTime(began).TotalSeconds);
                else
                    missed.Add(seed);
            }

            times.Sort();
            bool isCaught = times.Count >= seedCount * ShareNeeded;
            isGood &= isCaught;
            string median = times.Count == 0 ? "-" : times[times.Count / 2].ToString("F1", CultureInfo.InvariantCulture) + " s";
            Console.WriteLine($"{fault,-24} {times.Count,3}/{seedCount,-3}  {PartOf(fault),-8} {median,8}  {firstSeed,10}"
                + (missed.Count > 0 ? $"  missed: {string.Join(", ", missed)}" : ""));
        }

        return isGood ? 0 : 1;
    }

    /// <summary>First the part where it shows first, then all the others; a program that dies of it has caught it too.</summary>
    private static bool IsCaught(PlantedFault fault, int seed) =>
        Fails(fault, seed, ["--only", PartOf(fault)]) || Fails(fault, seed, []);

    private static bool Fails(PlantedFault fault, int seed, string[] more)
    {
        using var child = new LabChild(
        [
            "--planted", fault.ToString(), "--seed", seed.ToString(CultureInfo.InvariantCulture), "--stop-at-first",
            "--keep", Path.Combine(Path.GetTempPath(), "mfq-crashlab-planted"), .. more,
        ]);
        return !child.WaitForExit(s_limit) || child.ExitCode != 0;
    }

    private static string PartOf(PlantedFault fault) => s_parts.GetValueOrDefault(fault, "cut");
}
