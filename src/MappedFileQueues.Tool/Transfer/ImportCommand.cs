namespace MappedFileQueues.Tool.Transfer;

/// <summary>`mfq import`: appends the messages of an export to a store.</summary>
internal static class ImportCommand
{
    public static Command Create()
    {
        Argument<string> store = ToolOptions.Store("The store's directory; made if it is missing.");
        Argument<string> file = ToolOptions.PathArgument(
            "FILE", "What `mfq export` has written, or lines of JSON with `text` or `base64`; - is standard input.");
        file.DefaultValueFactory = _ => NamedInput.Standard;
        Option<long?> skip = ToolOptions.Number(
            "--skip", "Leave out this many messages: those that an import before has appended.", 0, long.MaxValue);
        Option<long?> segmentSize = ToolOptions.SegmentSize(", if the input names none");
        StoreOptions opening = new();
        return new Command(
            "import",
            "Append the messages of an export to a store: `mfq import orders orders.jsonl`. They get new offsets; batches become "
                + "single messages. What was appended before an error or Ctrl-C stays: the count is told, for --skip.")
        {
            store, file, skip, segmentSize, opening,
        }.Does(parsed =>
        {
            MappedFileQueueOptions options = opening.Of(parsed, parsed.GetRequiredValue(store));
            options.SegmentSize = parsed.GetValue(segmentSize) ?? options.SegmentSize;
            string name = parsed.GetRequiredValue(file);
            // First: it waits for the writer of a pipe that has a name, and a signal ends that.
            using Stream input = NamedInput.Open(name);
            using Interruption interruption = new();
            TransferResult result = new(0, 0, IsComplete: false);
            try
            {
                var source = ImportSource.Open(
                    NamedInput.Reader(input, name, ImportSource.LineLengthMax, interruption.Token));
                result = Import(options, source, parsed.GetValue(skip) ?? 0,
                    input.CanSeek ? input : null, interruption.Token);
            }
            catch (OperationCanceledException)
            {
                // Nothing was appended yet.
            }

            return result.Write(parsed, "Imported", interruption);
        });
    }

    private static TransferResult Import(
        MappedFileQueueOptions options, ImportSource source, long skip, Stream? file, CancellationToken stopped)
    {
        using TargetStore target = new(options, source.Header);
        using ProgressLine progress = new("importing");
        bool isComplete = false;
        long number = 0;
        try
        {
            for (; source.TryRead(out ReadOnlySpan<byte> message); number++)
            {
                stopped.ThrowIfCancellationRequested();
                if (number >= skip)
                    target.Add(message, source.Headers, number);
                if (file is not null)
                    progress.Report(file.Position, file.Length);
            }

            if (number < skip)
            {
                throw new ToolException($"The input has fewer messages than are to be left out: messages={number}, skip={skip}. "
                    + "Nothing was appended: correct --skip, or name another file.");
            }

            // An export without messages is a store without messages.
            target.Open();
            isComplete = true;
        }
        catch (OperationCanceledException)
        {
            // What was appended stays.
        }
        catch (IOException error)
        {
            throw new ToolException($"{error.Message} Imported before that: messages={number}. Continue with --skip {number}.");
        }

        target.Flush();
        return new TransferResult(target.Count, target.Bytes, isComplete);
    }
}
