using System.CommandLine.Parsing;

namespace MappedFileQueues.Tool.VersionOne;

/// <summary>`mfq import-v1`: appends the messages of a store of MappedFileQueues 1.x to a store of this version.</summary>
internal static class ImportVersionOneCommand
{
    /// <summary>How many stretches that could not be read are told on standard error.</summary>
    private const int ToldMax = 20;

    public static Command Create()
    {
        Argument<string> old = ToolOptions.PathArgument("OLD", "The folder of 1.x; it is only read.");
        Argument<string> target = ToolOptions.PathArgument("NEW", "The store to append to; made if it is missing.");
        Option<long?> structSize = ToolOptions.Number(
            "--struct-size", "OLD holds structs of so many bytes, as `Unsafe.SizeOf` tells.", 1, FrameHeader.PayloadLengthMax,
            "BYTES");
        Option<bool> stream = ToolOptions.Flag("--stream", "OLD is of MappedFileQueues.Stream.");
        Option<bool> ghosts = ToolOptions.Flag(
            "--ghosts",
            "Also take complete messages after the producer's offset: after a power loss they may be messages, otherwise they "
                + "are what was there before.");
        Option<long?> segmentSize = ToolOptions.SegmentSize();
        StoreOptions opening = new();
        Command command = new(
            "import-v1",
            "Append the messages of a store of MappedFileQueues 1.x to a store: `mfq import-v1 OLD NEW --stream`, or with "
                + "--struct-size. The consumer's place comes along. Run again, it continues, and doubles nothing.")
        {
            old, target, structSize, stream, ghosts, segmentSize, opening,
        };
        command.Validators.Add(result => RequireOne(result, structSize, stream));
        return command.Does(parsed =>
        {
            using Interruption interruption = new();
            using VersionOneFolder folder = new(parsed.GetRequiredValue(old));
            MappedFileQueueOptions options = opening.Of(parsed, SystemPath.Full(parsed.GetRequiredValue(target)));
            options.SegmentSize = parsed.GetValue(segmentSize) ?? options.SegmentSize;
            var import = new VersionOneImport(
                folder, (int?)parsed.GetValue(structSize), parsed.GetValue(ghosts), options, interruption.Token);
            return Write(parsed, import.Run(), folder, interruption);
        });
    }

    private static void RequireOne(CommandResult result, Option structSize, Option stream)
    {
        if (result.GetResult(structSize) is null == result.GetResult(stream) is null)
            result.AddError("Give --struct-size for a store of structs, or --stream for one of MappedFileQueues.Stream.");
    }

    private static int Write(ParseResult parsed, VersionOneResult result, VersionOneFolder folder, Interruption interruption)
    {
        foreach (string name in folder.Strays)
            ErrorLine.Write($"This is no segment and was left out: file=commitlog/{name}.", ExitCodes.Success);
        foreach (UnreadStretch stretch in result.Unread.Take(ToldMax))
        {
            ErrorLine.Write(
                $"Could not be read: offset={stretch.From}, next={stretch.To}, bytes={stretch.To - stretch.From}: "
                    + $"{stretch.Reason}.",
                ExitCodes.Damaged);
        }

        if (result.Unread.Count > ToldMax)
            ErrorLine.Write($"More could not be read: bytes in all={result.UnreadBytes}.", ExitCodes.Damaged);
        return Result.Write(
            parsed, result, ToolJson.Default.VersionOneResult, Text(result),
            !result.IsComplete ? interruption.ExitCode : result.UnreadBytes > 0 ? ExitCodes.Damaged : ExitCodes.Success);
    }

    private static string Text(VersionOneResult result)
    {
        string text = $"{(result.IsComplete ? "" : "Interrupted. ")}Imported {Report.Count(result.Messages, "message")}, "
            + $"{Report.Bytes(result.Bytes)}.";
        if (result.AlreadyThere > 0)
            text += $" {Report.Count(result.AlreadyThere, "message")} had been imported before.";
        if (result.LeftOut > 0)
        {
            text += $" {Report.Count(result.LeftOut, "message")} after the producer's offset left out: what was there before, "
                + "or, after a power loss, messages (--ghosts takes them).";
        }

        return result.ConsumerOffset is { } offset
            ? $"{text} The consumer continues at offset {Report.Number(offset)}{(result.IsConsumerKept ? ", as before" : "")}."
            : text;
    }
}
