using System.CommandLine;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack`: keeps many small files in few large ones, in directories.</summary>
internal static class PackCommand
{
    private const long VolumeSizeMin = 4096;
    private const long VolumeSizeMax = 16L * 1024 * 1024 * 1024;

    public static Command Create()
    {
        Command command = new("pack", "Keep many small files in few large ones: a pack is a directory of its own.")
        {
            CreateCommand(),
            AddCommand.Create(),
            LookCommands.List(),
            LookCommands.Get(),
            DeleteCommand.Create(),
            ExtractCommand.Create(),
            LookCommands.Verify(),
            CompactCommand.Create(),
            LookCommands.Stat(),
        };
        return command;
    }

    /// <summary>The first argument of every command.</summary>
    public static Argument<string> PackArgument() => ToolOptions.PathArgument("PACK", "The pack's directory.");

    private static Command CreateCommand()
    {
        Argument<string> pack = PackArgument();
        Option<long?> volumeSize = ToolOptions.Size(
            "--volume-size",
            $"The length of a volume; it cannot be changed later; default {new Packs.PackOptions().VolumeSize >> 30} GiB.",
            VolumeSizeMin,
            VolumeSizeMax);
        Command command = new("create", "Create an empty pack: `mfq pack create texts.pack`.") { pack, volumeSize };
        command.SetAction(parsed =>
        {
            string path = parsed.GetRequiredValue(pack);
            if (File.Exists(Path.Combine(path, "pack.meta")))
                throw new ToolException($"There is a pack already: path={path}. Name another directory, or use it as it is.");
            Packs.PackOptions options = new();
            options.VolumeSize = parsed.GetValue(volumeSize) ?? options.VolumeSize;
            using var store = Packs.PackStore.Open(path, options);
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(store.GetInfo(), PackJsonContext.Default.PackInfo);
            return ExitCodes.Success;
        });
        return command;
    }
}
