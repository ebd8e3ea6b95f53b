using System.CommandLine;
using System.Globalization;

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
    public static Argument<string> PackArgument() => new("PACK") { Description = "The pack's directory." };

    private static Command CreateCommand()
    {
        Argument<string> pack = PackArgument();
        Option<long> volumeSize = new("--volume-size")
        {
            Description = "The length of a volume in bytes; it cannot be changed later.",
            HelpName = "BYTES",
            DefaultValueFactory = _ => new Packs.PackOptions().VolumeSize,
        };
        volumeSize.Validators.Add(result =>
        {
            // The parser itself reports a value that is not a number.
            bool isOutside = result.Tokens is [{ Value: { } text }]
                && long.TryParse(text, CultureInfo.InvariantCulture, out long size) && !IsVolumeSize(size);
            if (isOutside)
                result.AddError(
                    $"--volume-size is out of range, {VolumeSizeMin} to {VolumeSizeMax} bytes: {result.Tokens[0].Value}.");
        });
        Option<string> output = PackOutput.Option("one object, lengths in bytes.", "nothing");
        Command command = new("create", "Create an empty pack: `mfq pack create texts.pack`.") { pack, volumeSize, output };
        command.SetAction(parsed =>
        {
            string path = parsed.GetRequiredValue(pack);
            if (File.Exists(Path.Combine(path, "pack.meta")))
                throw new ToolException($"There is a pack already: path={path}. Name another directory, or use it as it is.");
            using var store = Packs.PackStore.Open(
                path, new Packs.PackOptions { VolumeSize = parsed.GetRequiredValue(volumeSize) });
            if (parsed.IsJson(output))
                PackOutput.Write(store.GetInfo(), PackJsonContext.Default.PackInfo);
            return ExitCodes.Success;
        });
        return command;
    }

    private static bool IsVolumeSize(long size) => size is >= VolumeSizeMin and <= VolumeSizeMax;
}
