using System.Globalization;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack`: keeps many small files in few large ones, in directories.</summary>
internal static class PackCommand
{
    private const long VolumeSizeMin = 4096;
    private const long VolumeSizeMax = 16L * 1024 * 1024 * 1024;

    private static readonly PackOptions s_existing = new() { CreateIfMissing = false };

    public static Command Create() => new("pack", "Keep many small files in few large ones: a pack is a directory of its own.")
    {
        CreateCreate(), AddCommand.Create(), LookCommands.List(), LookCommands.Get(), CreateDelete(), ExtractCommand.Create(),
        LookCommands.Verify(), CreateCompact(), LookCommands.Stat(),
    };

    /// <summary>The first argument of every command.</summary>
    public static Argument<string> PackArgument() => ToolOptions.PathArgument("PACK", "The pack's directory.");

    public static Option<bool> DurableOption() => ToolOptions.Flag("--durable", "Return only when everything is on disk.");

    public static Option<string> PrefixOption(string description = "Only objects whose key begins with this.") =>
        new("--prefix") { Description = description, DefaultValueFactory = _ => "" };

    public static Option<bool> AllowStaleOption() => ToolOptions.Flag(
        "--allow-stale", "Where damage may hide a newer value, write the older one instead of failing.");

    /// <summary>A key for a terminal: it comes from outside, and its control characters must not get there.</summary>
    public static string Printable(string key) => key.Any(letter => char.IsControl(letter) || letter == '\\')
        ? string.Concat(key.Select(
            letter => char.IsControl(letter) ? $"\\u{(int)letter:x4}" : letter == '\\' ? @"\\" : $"{letter}"))
        : key;

    private static Command CreateCreate()
    {
        Argument<string> pack = PackArgument();
        Option<long?> volumeSize = ToolOptions.Size(
            "--volume-size",
            $"The length of a volume; it cannot be changed later; default {new PackOptions().VolumeSize >> 30} GiB.",
            VolumeSizeMin, VolumeSizeMax);
        return new Command("create", "Create an empty pack: `mfq pack create texts.pack`.") { pack, volumeSize }.Does(parsed =>
        {
            string path = parsed.GetRequiredValue(pack);
            if (File.Exists(Path.Combine(path, "pack.meta")))
                throw new ToolException($"There is a pack already: path={path}. Name another directory, or use it as it is.");
            PackOptions options = new();
            options.VolumeSize = parsed.GetValue(volumeSize) ?? options.VolumeSize;
            using var store = PackStore.Open(path, options);
            return Result.Write(parsed, store.GetInfo(), ToolJson.Lines.PackInfo, _ => { });
        });
    }

    private static Command CreateDelete()
    {
        Argument<string> pack = PackArgument();
        Argument<string[]> keys = new("KEY") { Description = "The objects' keys.", Arity = ArgumentArity.OneOrMore };
        Option<bool> durable = DurableOption();
        return new Command(
            "delete", "Remove objects, damaged or not. Compaction frees their room: `mfq pack delete texts.pack README.md`.")
        {
            pack, keys, durable,
        }.Does(parsed =>
        {
            string[] given = parsed.GetRequiredValue(keys);
            long missing = 0;
            using (PackStore store = PackStore.Open(parsed.GetRequiredValue(pack), s_existing))
            {
                foreach (string key in given.Where(key => !store.Delete(key)))
                {
                    missing++;
                    ErrorLine.Write($"There is no such object: key={Printable(key)}.", ExitCodes.Failure);
                }

                if (parsed.GetValue(durable))
                    store.Flush();
            }

            return Result.Write(
                parsed, new DeletedObjects(given.Length - missing, missing), ToolJson.Lines.DeletedObjects,
                $"deleted {Report.Count(given.Length - missing, "object")}",
                missing == 0 ? ExitCodes.Success : ExitCodes.Failure);
        });
    }

    private static Command CreateCompact()
    {
        Argument<string> pack = PackArgument();
        Option<double?> garbage = ToolOptions.Value(
            "--garbage", "Replace volumes of which at least this share is garbage, 0 to 1.", "PART", "a share, 0 to 1",
            text => double.TryParse(text, NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out double part)
                && part is >= 0 and <= 1 ? (double?)part : null);
        garbage.DefaultValueFactory = _ => 0.3;
        return new Command(
            "compact", "Free the room of overwritten and deleted objects: `mfq pack compact texts.pack`.")
        {
            pack, garbage,
        }.Does(parsed =>
        {
            using PackStore store = PackStore.Open(parsed.GetRequiredValue(pack), s_existing);
            PackCompaction done = store.Compact(parsed.GetRequiredValue(garbage)!.Value);
            Result.Write(
                parsed, done, ToolJson.Lines.PackCompaction,
                $"replaced {Report.Count(done.VolumesReplaced, "volume")} by {Report.Number(done.VolumesMade)}, "
                    + $"freed {Report.Bytes(done.BytesFreed)}");
            return done.VolumesSkipped == 0
                ? ExitCodes.Success
                : ErrorLine.Write($"Damaged volumes were left as they are: count={done.VolumesSkipped}.", ExitCodes.Failure);
        });
    }
}

/// <summary>The result of `delete`.</summary>
internal sealed record DeletedObjects(long Deleted, long Missing);
