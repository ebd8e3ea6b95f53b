using System.Buffers;
using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Pack;

/// <summary>The commands that read a pack without a lock, and leave no trace.</summary>
internal static class LookCommands
{
    public static Command List()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Option<string> prefix = new("--prefix")
        {
            Description = "Only objects whose key begins with this.",
            DefaultValueFactory = _ => "",
        };
        Command command = new(
            "list",
            "Show the objects in their order on disk, length in bytes and key: `mfq pack list texts.pack`. With --output json: a "
                + "line for each.")
        {
            pack, prefix,
        };
        command.SetAction(parsed =>
        {
            using PackReader reader = Open(parsed.GetRequiredValue(pack));
            int code = ExitCodes.Success;
            foreach (PackEntry entry in reader.Enumerate(parsed.GetRequiredValue(prefix), damage => code = Show(damage)))
            {
                string key = entry.Key;
                if (OutputOption.IsJson(parsed))
                {
                    OutputOption.WriteJson(
                        new ListedObject(key, entry.Length, entry.Sequence), PackJsonContext.Default.ListedObject);
                }
                else
                {
                    OutputLine.Write(
                        string.Create(CultureInfo.InvariantCulture, $"{entry.Length}\t{PrintableKey.Of(key)}"));
                }
            }

            return code;
        });
        return command;
    }

    public static Command Get()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Argument<string> key = new("KEY") { Description = "The object's key." };
        Option<bool> allowStale = new("--allow-stale")
        {
            Description = "Where damage may hide a newer value, write the older one instead of failing.",
        };
        Command command = new(
            "get",
            "Write an object's bytes to standard output, with --output json as base64: `mfq pack get texts.pack README.md`.")
        {
            pack, key, allowStale,
        };
        command.SetAction(parsed =>
        {
            using PackReader reader = Open(parsed.GetRequiredValue(pack), parsed.GetValue(allowStale));
            string name = parsed.GetRequiredValue(key);
            if (!reader.TryGet(name, out IMemoryOwner<byte>? data))
                throw new ToolException($"There is no such object: key={PrintableKey.Of(name)}.");
            using (data)
                WriteObject(name, data.Memory, OutputOption.IsJson(parsed));
            return ExitCodes.Success;
        });
        return command;
    }

    public static Command Verify()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Command command = new("verify", "Read every byte of a pack and report damage: `mfq pack verify texts.pack`.")
        {
            pack,
        };
        command.SetAction(parsed =>
        {
            using PackReader reader = Open(parsed.GetRequiredValue(pack));
            PackVerification found = reader.Verify();
            var verification = new PackVerification
            {
                Count = found.Count,
                Length = found.Length,
                Damages = [.. found.Damages.Concat(reader.Damages).DistinctBy(damage => (damage.File, damage.Position))],
            };
            int code = ExitCodes.Success;
            foreach (PackDamage damage in verification.Damages)
                code = Show(damage);
            if (OutputOption.IsJson(parsed))
            {
                OutputOption.WriteJson(verification, PackJsonContext.Default.PackVerification);
            }
            else
            {
                OutputLine.Write(
                    $"{Report.Count(verification.Count, "object")}, {Report.Bytes(verification.Length)} checked: "
                    + (verification.IsWhole ? "all whole" : "DAMAGED"));
            }

            return code;
        });
        return command;
    }

    public static Command Stat()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Command command = new("stat", "Show a pack's sizes and counts: `mfq pack stat texts.pack`.") { pack };
        command.SetAction(parsed =>
        {
            using PackReader reader = Open(parsed.GetRequiredValue(pack));
            PackInfo info = reader.GetInfo();
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(info, PackJsonContext.Default.PackInfo);
            else
                Print(info);
            return ExitCodes.Success;
        });
        return command;
    }

    private static void WriteObject(string key, ReadOnlyMemory<byte> data, bool isJson)
    {
        if (isJson)
        {
            OutputOption.WriteJson(new GotObject(key, data.Length, data), PackJsonContext.Default.GotObject);
            return;
        }

        using Stream output = StandardOutput.Open();
        output.Write(data.Span);
    }

    private static PackReader Open(string path, bool allowStale = false) =>
        PackReader.Open(path, new PackReaderOptions { FollowWriter = false, AllowStaleValues = allowStale });

    private static int Show(PackDamage damage) => ErrorLine.Write(
        $"Damaged: file={damage.File}, position={damage.Position}, length={damage.Length}. {damage.Reason}", ExitCodes.Failure);

    private static void Print(PackInfo info)
    {
        Report report = new("Pack", "", "");
        report.Add("path", info.Path);
        report.Add("made", info.Created.ToString("u", CultureInfo.InvariantCulture));
        report.Add("objects", Report.Number(info.Count));
        report.Add("volumes", $"{Report.Number(info.VolumeCount)} of up to {Report.Bytes(info.VolumeSize)}");
        report.Add("on disk", Report.Bytes(info.Length));
        report.Add("alive", Report.Bytes(info.LiveLength));
        report.Add("index", Report.Bytes(info.IndexBytes));
        report.Add("puts and deletes", Report.Number(info.Sequence));
        report.Write();
    }
}
