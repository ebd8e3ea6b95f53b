using System.Globalization;
using MappedFileQueues.Memory;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Packs;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `pack-write FOLDER FIRST… [max=BYTES] [step=STEP hit=N]`: a lane (a thread) for each FIRST does operations from that number on
/// and prints `done LANE OPERATION` after each; lane 0 compacts now and then. With a step the process kills itself when it comes
/// there; it prints `ready` when it has opened the pack. With `max` the pack is a cache of this length.
/// </summary>
internal static class PackWriteVerb
{
    private const int CompactEvery = 150;

    private static readonly PackOptions s_options = new() { VolumeSize = 32 * 1024, CheckpointInterval = 64 * 1024 };

    public static int Run(string[] arguments)
    {
        if (arguments.FirstOrDefault(argument => argument.StartsWith("step=", StringComparison.Ordinal)) is { } step)
        {
            int hit = int.Parse(arguments[^1]["hit=".Length..], CultureInfo.InvariantCulture);
            StepTrap.Arm(Enum.Parse<ProtocolStep>(step["step=".Length..]), hit, ProcessSignals.Kill);
        }

        if (arguments.FirstOrDefault(argument => argument.StartsWith("max=", StringComparison.Ordinal)) is { } max)
            s_options.MaxBytes = long.Parse(max["max=".Length..], CultureInfo.InvariantCulture);
        using PackStore pack = PackStore.Open(arguments[0], s_options);
        Console.WriteLine("ready");
        int[] firsts =
        [
            .. arguments[1..].Where(argument => char.IsAsciiDigit(argument[0]))
                .Select(argument => int.Parse(argument, CultureInfo.InvariantCulture)),
        ];
        Thread[] lanes = new Thread[firsts.Length];
        for (int lane = 0; lane < lanes.Length; lane++)
        {
            int number = lane;
            lanes[lane] = new Thread(() => Work(pack, number, firsts[number]));
            lanes[lane].Start();
        }

        foreach (Thread lane in lanes)
            lane.Join();
        return 0;
    }

    private static void Work(PackStore pack, int lane, int first)
    {
        for (int operation = first; ; operation++)
        {
            string key = PackStorm.Key(lane, operation);
            PackDurability durability = operation % 3 == 0 ? PackDurability.Group : PackDurability.PageCache;
            if (PackStorm.Data(lane, operation) is { } data)
                pack.Put(key, data, durability);
            else
                pack.Delete(key, durability);
            Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"done {lane} {operation}"));
            if (lane == 0 && operation % CompactEvery == CompactEvery - 1)
                pack.Compact(0.2);
        }
    }
}
