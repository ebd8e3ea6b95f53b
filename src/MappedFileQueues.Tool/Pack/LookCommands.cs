using System.Buffers;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tool.Pack;

/// <summary>The commands that read a pack without a lock, and leave no trace.</summary>
internal static class LookCommands
{
    public static Command List()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Option<string> prefix = PackCommand.PrefixOption();
        return new Command(
            "list",
            "Show the objects in their order on disk, length in bytes and key: `mfq pack list texts.pack`. With --output json: a "
                + "line for each.")
        {
            pack, prefix,
        }.Does(parsed =>
        {
            using PackReader reader = Open(parsed.GetRequiredValue(pack));
            int code = ExitCodes.Success;
            foreach (PackEntry entry in reader.Enumerate(parsed.GetRequiredValue(prefix), damage => code = Show(damage)))
            {
                string key = entry.Key;
                Result.Write(
                    parsed, new ListedObject(key, entry.Length, entry.Sequence), ToolJson.Lines.ListedObject,
                    $"{entry.Length}\t{PackCommand.Printable(key)}");
            }

            return code;
        });
    }

    public static Command Get()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Argument<string> key = new("KEY") { Description = "The object's key." };
        Option<bool> allowStale = PackCommand.AllowStaleOption();
        return new Command(
            "get",
            "Write an object's bytes to standard output, with --output json as base64: `mfq pack get texts.pack README.md`.")
        {
            pack, key, allowStale,
        }.Does(parsed =>
        {
            using PackReader reader = Open(parsed.GetRequiredValue(pack), parsed.GetValue(allowStale));
            string name = parsed.GetRequiredValue(key);
            using IMemoryOwner<byte> data = reader.TryGet(name, out IMemoryOwner<byte>? found) ? found
                : throw new ToolException($"There is no such object: key={PackCommand.Printable(name)}.");
            return Result.Write(
                parsed, new GotObject(name, data.Memory.Length, data.Memory), ToolJson.Lines.GotObject, WriteBytes);
        });
    }

    public static Command Verify()
    {
        Argument<string> pack = PackCommand.PackArgument();
        return new Command("verify", "Read every byte of a pack and report damage: `mfq pack verify texts.pack`.")
        {
            pack,
        }.Does(parsed =>
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
            {
                Show(damage);
                code = ExitCodes.Damaged;
            }

            return Result.Write(
                parsed, verification, ToolJson.Lines.PackVerification,
                $"{Report.Count(verification.Count, "object")}, {Report.Bytes(verification.Length)} checked: "
                    + (verification.IsWhole ? "all whole" : "DAMAGED"),
                code);
        });
    }

    public static Command Stat()
    {
        Argument<string> pack = PackCommand.PackArgument();
        return new Command("stat", "Show a pack's sizes and counts: `mfq pack stat texts.pack`.") { pack }.Does(parsed =>
        {
            using PackReader reader = Open(parsed.GetRequiredValue(pack));
            return Result.Write(parsed, reader.GetInfo(), ToolJson.Lines.PackInfo, Print);
        });
    }

    /// <summary>Opens a pack as it is now.</summary>
    public static PackReader Open(string path, bool allowStale = false) =>
        PackReader.Open(path, new PackReaderOptions { FollowWriter = false, AllowStaleValues = allowStale });

    private static void WriteBytes(GotObject got) => StandardOutput.Write(output => output.Write(got.Data.Span));

    private static int Show(PackDamage damage) => ErrorLine.Write(
        $"Damaged: file={damage.File}, position={damage.Position}, length={damage.Length}. {damage.Reason}", ExitCodes.Failure);

    private static void Print(PackInfo info)
    {
        Report report = new("Pack", "", "");
        report.Add("path", info.Path);
        report.Add("made", $"{info.Created:u}");
        report.Add("objects", Report.Number(info.Count));
        report.Add("volumes", $"{Report.Number(info.VolumeCount)} of up to {Report.Bytes(info.VolumeSize)}");
        report.Add("on disk", Report.Bytes(info.Length));
        report.Add("alive", Report.Bytes(info.LiveLength));
        report.Add("index", Report.Bytes(info.IndexBytes));
        report.Add("puts and deletes", Report.Number(info.Sequence));
        report.Write();
    }
}

/// <summary>A line of `list`.</summary>
internal sealed record ListedObject(string Key, int Length, long Sequence);

/// <summary>The result of `get`.</summary>
internal sealed record GotObject(string Key, int Length, ReadOnlyMemory<byte> Data);
