using System.CommandLine;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack`: many small files in few, on directories.</summary>
internal static class PackCommand
{
    public static Command Create()
    {
        Command command = new("pack", "Keep many small files in few large ones: a pack is a directory of its own.")
        {
            CreateCommand(),
            AddCommand.Create(),
            LookCommands.List(),
            LookCommands.Get(),
            ExtractCommand.Create(),
            LookCommands.Verify(),
            CompactCommand.Create(),
            LookCommands.Stat(),
        };
        return command;
    }

    /// <summary>The first argument of every command.</summary>
    public static Argument<string> PackArgument() => new("PACK") { Description = "The pack's directory." };

    private static Command CreateCommand()
    {
        Argument<string> pack = PackArgument();
        Option<long> volumeSize = new("--volume-size")
        {
            Description = "Length of a volume in bytes; it cannot be changed later.",
            HelpName = "BYTES",
            DefaultValueFactory = _ => new Packs.PackOptions().VolumeSize,
        };
        Command command = new("create", "Make an empty pack.") { pack, volumeSize };
        command.SetAction(parsed =>
        {
            string path = parsed.GetRequiredValue(pack);
            if (File.Exists(Path.Combine(path, "pack.meta")))
                throw new ToolException($"There is a pack already: path={path}. Name another directory, or use it as it is.");
            Packs.PackOptions options = new();
            try
            {
                options.VolumeSize = parsed.GetRequiredValue(volumeSize);
            }
            catch (ArgumentOutOfRangeException error)
            {
                throw new ToolException($"--volume-size is out of range, 4096 to 17179869184: {error.ActualValue}.");
            }

            Packs.PackStore.Open(path, options).Dispose();
            return ExitCodes.Success;
        });
        return command;
    }
}
