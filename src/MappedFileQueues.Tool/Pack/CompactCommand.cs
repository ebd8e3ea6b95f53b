using System.CommandLine;
using MappedFileQueues.Packs;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack compact`: frees what overwritten and deleted objects take.</summary>
internal static class CompactCommand
{
    public static Command Create()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Option<double> garbage = new("--garbage")
        {
            Description = "Replace volumes of which at least this part is garbage, 0 to 1.",
            HelpName = "PART",
            DefaultValueFactory = _ => 0.3,
        };
        Command command = new("compact", "Free the room of overwritten and deleted objects.") { pack, garbage };
        command.SetAction(parsed =>
        {
            double part = parsed.GetRequiredValue(garbage);
            if (part is not (>= 0 and <= 1))
                throw new ToolException($"--garbage is a part, 0 to 1: {part}.");
            using PackStore store = PackStore.Open(parsed.GetRequiredValue(pack), new PackOptions { CreateIfMissing = false });
            PackCompaction done = store.Compact(part);
            Console.Out.WriteLine($"replaced {Report.Number(done.VolumesReplaced)} volumes by {Report.Number(done.VolumesMade)}, "
                + $"freed {Report.Bytes(done.BytesFreed)}");
            return done.VolumesSkipped == 0
                ? ExitCodes.Success
                : ErrorLine.Write($"Damaged volumes were left as they are: count={done.VolumesSkipped}.", ExitCodes.Failure);
        });
        return command;
    }
}
