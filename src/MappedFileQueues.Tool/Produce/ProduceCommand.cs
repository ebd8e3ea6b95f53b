using System.Diagnostics;

namespace MappedFileQueues.Tool.Produce;

/// <summary>`mfq produce`: appends lines, or made-up messages, to a store, which is created when it is missing.</summary>
internal static class ProduceCommand
{
    /// <summary>No frame is longer, whatever the segment length; a store with shorter segments reports that itself.</summary>
    private const int MessageLengthMax = 1 << 28;

    private const int SizeDefault = 64;

    /// <summary>How much is searched for damage before the first append: some tenths of a second.</summary>
    private const long LookLengthMax = 256L * 1024 * 1024;

    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory; created when it is missing.");
        Option<string?> lines = ToolOptions.Path(
            "--lines",
            "Append one message for each line of the file, without its newline; - is standard input, and the default.",
            "FILE|-");
        Option<long?> messages = ToolOptions.Number("--messages", "Append this many made-up messages instead.", 1, long.MaxValue);
        Option<long?> size = ToolOptions.Number(
            "--size", $"The length of each made-up message in bytes; default {SizeDefault}.", 0, MessageLengthMax, "B");
        Option<long?> segmentSize = ToolOptions.SegmentSize();
        Option<long?> maxUnconsumed = ToolOptions.Size(
            "--max-unconsumed", "Wait while the slowest consumer of the store is so far behind. Ctrl-C ends the wait.", 1);
        Option<bool> afterDamage = ToolOptions.Flag(
            "--after-damage",
            "Append although the log is damaged before its end, so that consumers that do not skip damage will not get there. "
                + "Without it the command refuses, if the last 256 MiB show the damage.");
        StoreOptions opening = new();
        Command command = new(
            "produce", "Append messages to a store, one for each line of the input: `mfq produce orders --lines orders.txt`.")
        {
            store, lines, messages, size, segmentSize, maxUnconsumed, afterDamage, opening,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(lines) is not null && result.GetResult(messages) is not null)
                result.AddError("--lines and --messages exclude each other.");
            if (result.GetResult(size) is not null && result.GetResult(messages) is null)
                result.AddError("--size needs --messages.");
        });
        return command.Does(parsed =>
        {
            MappedFileQueueOptions options = opening.Of(parsed, parsed.GetRequiredValue(store));
            options.SegmentSize = parsed.GetValue(segmentSize) ?? options.SegmentSize;
            options.MaxUnconsumedBytes = parsed.GetValue(maxUnconsumed) ?? 0;
            long start = Stopwatch.GetTimestamp();
            // The input is opened first, so that a wrong name leaves no new store.
            string file = parsed.GetValue(lines) ?? NamedInput.Standard;
            using Stream? input = parsed.GetValue(messages) is null ? NamedInput.Open(file) : null;
            using TargetStore target = new(options, source: null);
            if (!target.IsNew)
            {
                target.Open();
                RefuseDamage(options.StorePath, isAllowed: parsed.GetValue(afterDamage));
            }

            using Interruption interruption = new();
            bool isInterrupted = false;
            try
            {
                if (input is null)
                {
                    int length = (int)(parsed.GetValue(size) ?? SizeDefault);
                    AddMadeUp(target, parsed.GetValue(messages)!.Value, length, interruption.Token);
                }
                else
                {
                    InputReader reader = NamedInput.Reader(input, file, MessageLengthMax, interruption.Token);
                    while (reader.TryReadLine(out ReadOnlySpan<byte> line))
                    {
                        interruption.Token.ThrowIfCancellationRequested();
                        target.Add(line, null, target.Count, interruption.Token);
                    }
                }

                // Without a line too.
                target.Open();
            }
            catch (OperationCanceledException)
            {
                // Appended lines stay; an unfinished line was not appended.
                isInterrupted = true;
            }

            ProduceSummary summary = new(
                target.Count, target.Bytes, target.FirstOffset, target.LastOffset,
                Stopwatch.GetElapsedTime(start).TotalSeconds, isInterrupted);
            return Result.Write(
                parsed, summary, ToolJson.Lines.ProduceSummary, summary.ToString(),
                isInterrupted ? interruption.ExitCode : ExitCodes.Success);
        });
    }

    /// <summary>
    /// Warns or fails if appended messages will not be read. A producer never reads the log, so it would append after damage, and
    /// consumers that stop there would never see it. The store is open, and recovered, by now.
    /// </summary>
    private static void RefuseDamage(string storePath, bool isAllowed)
    {
        if (FindDamage(storePath) is not { } damage)
            return;
        string found = $"The log is damaged before its end: offset={damage.Offset}, file={damage.File}, "
            + $"path={SystemPath.Full(storePath)}. Consumers that do not skip damage will not reach what is appended.";
        if (!isAllowed)
        {
            throw new ToolException(
                $"{found} Nothing was appended: restore the file, run `mfq repair`, or append anyway with --after-damage.");
        }

        ErrorLine.Write(found, ExitCodes.Success);
    }

    /// <summary>
    /// The first damage between the slowest consumer, or the first message if there is no consumer, and the tail; null if there
    /// is none in the last <see cref="LookLengthMax"/> bytes and the segment in which they begin.
    /// </summary>
    private static QueueCorruptException? FindDamage(string storePath)
    {
        MappedFileQueueInfo info = StoreInspector.Inspect(storePath);
        long needed = info.Consumers.Select(consumer => consumer.Offset).DefaultIfEmpty(info.LogStart).Min();
        long from = Math.Max(needed, info.TailOffset - LookLengthMax);
        // A segment begins with a frame; only the consumer itself trusts an offset that it has stored.
        long start = Math.Max(info.LogStart, from / info.SegmentSize * info.SegmentSize);
        QueueCorruptException? found = null;
        using var reader = MappedFileReader.Open(storePath, QueueStart.FromOffset(start), CorruptionPolicy.SkipMessage);
        reader.CorruptionSkipped += (_, skipped) => found ??= skipped.NextOffset > needed ? skipped.Error : null;
        while (found is null && reader.TryRead(out _) && reader.MessageOffset < info.TailOffset)
        {
        }

        return found ?? reader.DamageAhead;
    }

    private static void AddMadeUp(TargetStore target, long count, int size, CancellationToken interrupted)
    {
        byte[] message = new byte[size];
        for (int index = 0; index < size; index++)
            message[index] = (byte)('a' + index % 26);
        Span<byte> number = stackalloc byte[20];
        for (long index = 0; index < count; index++)
        {
            interrupted.ThrowIfCancellationRequested();
            // Each begins with its number, with as many of twenty digits as fit, so that a reader can see what is missing.
            index.TryFormat(number, out _, "D20");
            number[^Math.Min(number.Length, size)..].CopyTo(message);
            target.Add(message, null, index, interrupted);
        }
    }
}

/// <summary>The result of `mfq produce`.</summary>
internal sealed record ProduceSummary(
    long Messages, long Bytes, long? FirstOffset, long? LastOffset, double Seconds, bool IsInterrupted)
{
    /// <summary>The summary as a sentence.</summary>
    public override string ToString()
    {
        string what = Messages > 0
            ? $"Produced {Messages} message{(Messages == 1 ? "" : "s")}, {Bytes} bytes, "
                + $"offsets {FirstOffset} to {LastOffset}, in {Seconds:F3} s."
            : IsInterrupted ? "Nothing was produced." : "Nothing to produce: the input is empty.";
        return IsInterrupted ? $"Interrupted. {what}" : what;
    }
}
