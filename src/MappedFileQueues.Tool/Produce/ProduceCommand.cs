using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Produce;

/// <summary>`mfq produce`: appends lines, or made-up messages, to a store, which is created when it is missing.</summary>
internal static class ProduceCommand
{
    /// <summary>No frame is longer, whatever the segment length; a store with shorter segments reports that itself.</summary>
    private const int MessageLengthMax = 1 << 28;

    private const int SizeDefault = 64;

    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; created when it is missing.");
        Option<string?> lines = ToolOptions.Path(
            "--lines",
            "Append one message for each line of the file, without its newline; - is standard input, and the default.",
            "FILE|-");
        Option<long?> messages = ToolOptions.Number("--messages", "Append this many made-up messages instead.", 1, long.MaxValue);
        Option<long?> size = ToolOptions.Number(
            "--size", $"The length of each made-up message in bytes; default {SizeDefault}.", 0, MessageLengthMax, "B");
        Option<long?> segmentSize = ToolOptions.Size(
            "--segment-size",
            "The length of a segment file of a new store, in whole pages; the longest message is 8 bytes shorter. An existing "
                + "store keeps its own.",
            1,
            StoreMeta.SegmentLengthMax);
        Option<long?> maxUnconsumed = ToolOptions.Size(
            "--max-unconsumed",
            "Wait while the slowest consumer of the store is so far behind. Ctrl-C ends the wait.",
            1,
            long.MaxValue);
        Option<bool> behindDamage = ToolOptions.Flag(
            "--behind-damage",
            "Append although the log is damaged before its end, so that consumers that do not skip damage will not get there. "
                + "Without it the command refuses, if the last 256 MiB show the damage.");
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();

        Command command = new(
            "produce", "Append messages to a store, one for each line of the input: `mfq produce orders --lines orders.txt`.")
        {
            store, lines, messages, size, segmentSize, maxUnconsumed, behindDamage, lockTimeout, allowFileSystem,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(lines) is not null && result.GetResult(messages) is not null)
                result.AddError("--lines and --messages exclude each other.");
            if (result.GetResult(size) is not null && result.GetResult(messages) is null)
                result.AddError("--size needs --messages.");
        });
        command.SetAction(parsed =>
        {
            MappedFileQueueOptions options = new()
            {
                StorePath = parsed.GetRequiredValue(store),
                LockTimeout = parsed.GetValue(lockTimeout) ?? TimeSpan.Zero,
                DangerouslyAllowFileSystem = parsed.GetValue(allowFileSystem),
            };
            options.SegmentSize = parsed.GetValue(segmentSize) ?? options.SegmentSize;
            options.MaxUnconsumedBytes = parsed.GetValue(maxUnconsumed) ?? 0;
            bool goesBehindDamage = parsed.GetValue(behindDamage);

            // The input is opened first, so that a wrong name leaves no new store.
            string file = parsed.GetValue(lines) ?? "-";
            using Stream? input = parsed.GetValue(messages) is not null ? null
                : file == "-" ? NamedInput.OpenStandard() : NamedInput.Open(file);
            using ProduceRun run = new(options);
            if (run.IsOpen)
                RefuseDamage(options.StorePath, goesBehindDamage);
            using Interruption interruption = new();
            bool isInterrupted = false;
            try
            {
                if (input is null)
                {
                    int length = (int)(parsed.GetValue(size) ?? SizeDefault);
                    AddMadeUp(run, parsed.GetValue(messages)!.Value, length, interruption.Token);
                }
                else
                {
                    AddLines(run, input, file, interruption.Token);
                }

                // Without a line too.
                run.Open();
            }
            catch (OperationCanceledException)
            {
                // Appended lines stay; an unfinished line was not appended.
                isInterrupted = true;
            }

            ProduceSummary summary = run.Sum(isInterrupted);
            if (OutputOption.IsJson(parsed))
                OutputOption.WriteJson(summary, ProduceJsonContext.Default.ProduceSummary);
            else
                OutputLine.Write(summary.ToString());
            return isInterrupted ? interruption.ExitCode : ExitCodes.Success;
        });
        return command;
    }

    /// <summary>Warns or fails if appended messages will not be read. The store is open, and recovered, by now.</summary>
    private static void RefuseDamage(string storePath, bool isAllowed)
    {
        if (DamageLook.Find(storePath) is not { } damage)
            return;
        string found = $"The log is damaged before its end: offset={damage.Offset}, file={damage.File}, "
            + $"path={Path.GetFullPath(storePath)}. Consumers that do not skip damage will not reach what is appended.";
        if (!isAllowed)
        {
            throw new ToolException(
                $"{found} Nothing was appended: restore the file, run `mfq repair`, or append anyway with --behind-damage.");
        }

        ErrorLine.Write(found, ExitCodes.Success);
    }

    private static void AddLines(ProduceRun run, Stream input, string file, CancellationToken interrupted)
    {
        bool isStandardInput = file == "-";
        LineReader lines = new(
            isStandardInput ? new InterruptibleStream(input, interrupted) : input,
            isStandardInput ? "standard input" : file,
            MessageLengthMax);
        while (lines.TryRead(out ReadOnlySpan<byte> line))
        {
            interrupted.ThrowIfCancellationRequested();
            run.Add(line, interrupted);
        }
    }

    private static void AddMadeUp(ProduceRun run, long count, int size, CancellationToken interrupted)
    {
        byte[] message = new byte[size];
        for (int index = 0; index < size; index++)
            message[index] = (byte)('a' + index % 26);

        Span<byte> number = stackalloc byte[20];
        for (long index = 0; index < count; index++)
        {
            interrupted.ThrowIfCancellationRequested();

            // Each begins with its number, with as many of twenty digits as fit, so that a reader can see what is missing.
            index.TryFormat(number, out _, "D20", CultureInfo.InvariantCulture);
            number[^Math.Min(number.Length, size)..].CopyTo(message);
            run.Add(message, interrupted);
        }
    }
}
