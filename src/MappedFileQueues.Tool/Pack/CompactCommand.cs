using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack compact`: frees the room of overwritten and deleted objects.</summary>
internal static class CompactCommand
{
    public static Command Create()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Option<double> garbage = new("--garbage")
        {
            Description = "Replace volumes of which at least this share is garbage, 0 to 1.",
            HelpName = "PART",
            DefaultValueFactory = _ => 0.3,
        };
        garbage.Validators.Add(result =>
        {
            bool isOutside = result.Tokens is [{ Value: { } text }]
                && double.TryParse(text, CultureInfo.InvariantCulture, out double part) && part is not (>= 0 and <= 1);
            if (isOutside)
                result.AddError($"--garbage is a share, 0 to 1: {result.Tokens[0].Value}.");
        });
        Command command = new(
            "compact", "Free the room of overwritten and deleted objects: `mfq pack compact texts.pack`.")
        {
            pack, garbage,
        };
        command.SetAction(parsed =>
        {
            using PackStore store = PackStore.Open(parsed.GetRequiredValue(pack), new PackOptions { CreateIfMissing = false });
            PackCompaction done = store.Compact(parsed.GetRequiredValue(garbage));
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(done, PackJsonContext.Default.PackCompaction);
            else
                Print(done);
            return done.VolumesSkipped == 0
                ? ExitCodes.Success
                : ErrorLine.Write($"Damaged volumes were left as they are: count={done.VolumesSkipped}.", ExitCodes.Failure);
        });
        return command;
    }

    private static void Print(PackCompaction done) => OutputLine.Write(
        $"replaced {Report.Count(done.VolumesReplaced, "volume")} by {Report.Number(done.VolumesMade)}, "
        + $"freed {Report.Bytes(done.BytesFreed)}");
}
