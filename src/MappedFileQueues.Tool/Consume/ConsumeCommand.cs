using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Consume;

/// <summary>`mfq consume`: writes the messages of a store to standard output.</summary>
internal static class ConsumeCommand
{
    /// <summary>How many bytes are written between two commits, if there is that much to read.</summary>
    private const int CommitInterval = 64 * 1024;

    /// <summary>The number of the error "broken pipe" on every Unix.</summary>
    private const int BrokenPipe = 32;

    /// <summary>How long one wait for a message lasts before the next check for a signal.</summary>
    private static readonly TimeSpan s_waitMax = TimeSpan.FromMilliseconds(100);

    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it is never created.");
        Option<string?> consumer = new("--consumer")
        {
            Description = "Begin at the offset of this consumer (\"\" is the default one). Without it: at the first message, as "
                + "a reader that leaves no trace.",
            HelpName = "NAME",
        };
        Option<bool> commit = ToolOptions.Flag(
            "--commit",
            "Commit, as that consumer, what has been written, also when a signal ends the command. Without it the consumer "
                + "does not move.");
        Option<string?> from = new("--from")
        {
            Description = "Begin at this offset, at the first message, or after the last one, instead of at the consumer's "
                + "offset; with --commit the consumer moves there at once.",
            HelpName = "OFFSET|start|end",
        };
        Option<long?> last = ToolOptions.Number(
            "--last", "Begin this many messages before the end, as --from does.", 0, long.MaxValue);
        Option<bool> skipDamage = ToolOptions.Flag(
            "--skip-damage",
            "Continue after damage, with the next message that can be proved to be one. Each skip is reported on standard "
                + "error, one line each, and does not change the exit code.");
        Option<bool> follow = ToolOptions.Flag("--follow", "Wait for more messages at the end, until Ctrl-C.");
        Option<long?> count = ToolOptions.Number("--count", "End after this many messages.", 0, long.MaxValue);
        Option<string> format = ToolOptions.OneOf(
            "--format",
            "text: the bytes and a newline; hex: two digits per byte; json: a line with offset, length, and `text` or, if the "
                + "message is not UTF-8, `base64`; the default with --output json.",
            "text", "hex", "json");
        Option<TimeSpan?> lockTimeout = StoreOptions.LockTimeout();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();

        Command command = new("consume", "Write a store's messages to standard output.")
        {
            store, consumer, commit, from, last, skipDamage, follow, count, format, lockTimeout, allowFileSystem,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(commit) is not null && result.GetResult(consumer) is null)
                result.AddError("--commit needs --consumer.");
            if (result.GetValue(consumer) is { } name && !StoreNames.IsValidConsumer(name))
                result.AddError($"A consumer's name has at most 100 of the characters A-Z a-z 0-9 . _ - : {name}.");
            if (result.GetResult(from) is not null && result.GetResult(last) is not null)
                result.AddError("--from and --last exclude each other.");
            if ((result.GetResult(from) ?? result.GetResult(last)) is { } place
                && result.GetResult(consumer) is not null && result.GetResult(commit) is null)
            {
                result.AddError(
                    $"{place.Option.Name} and --consumer name two offsets to begin at; with --commit the consumer moves.");
            }

            if (result.GetValue(from) is { } text && TryParseStart(text) is null)
                result.AddError($"--from is an offset, start or end, not '{text}'.");
        });
        command.SetAction(parsed =>
        {
            ConsumePlan plan = new(
                parsed.GetRequiredValue(store),
                parsed.GetValue(consumer),
                parsed.GetValue(commit),
                parsed.GetValue(from) is { } text ? TryParseStart(text) : null,
                parsed.GetValue(last),
                parsed.GetValue(skipDamage),
                parsed.GetValue(lockTimeout) ?? TimeSpan.Zero,
                parsed.GetValue(allowFileSystem));
            bool isFormatGiven = parsed.GetResult(format) is { Implicit: false };
            string written = !isFormatGiven && OutputOption.IsJson(parsed) ? "json" : parsed.GetRequiredValue(format);
            return Run(
                plan,
                parsed.GetValue(follow),
                parsed.GetValue(count) ?? long.MaxValue,
                Enum.Parse<MessageFormat>(written, ignoreCase: true));
        });
        return command;
    }

    private static QueueStart? TryParseStart(string text) => text switch
    {
        "start" => QueueStart.Earliest,
        "end" => QueueStart.Latest,
        _ => long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long offset)
            ? QueueStart.FromOffset(offset)
            : null,
    };

    private static int Run(ConsumePlan plan, bool isFollowing, long countMax, MessageFormat format)
    {
        // A command that waits for a lock has written nothing: until the source is open, a signal ends the process as it does any
        // other.
        using MessageSource source = plan.Open(OnSkipped);
        using Interruption interruption = new();
        try
        {
            if (!Write(source, isFollowing, countMax, format, interruption.Token))
                return interruption.ExitCode;
        }
        catch (IOException exception) when (exception.HResult == BrokenPipe)
        {
            // The reader of the pipe has seen enough, like `head`. What it did not take is not committed.
            return ExitCodes.Success;
        }

        return source.DamageAhead is { } damage
            ? ErrorLine.Write(
                $"The log is damaged, and nothing after the damage is certain to be a message: offset={damage.Offset}, "
                    + $"file={damage.File}. All readable messages have been written; restore the file.",
                ExitCodes.Failure)
            : ExitCodes.Success;
    }

    private static void OnSkipped(CorruptionSkippedEventArgs skipped) => ErrorLine.Write(
        $"Damage was skipped: offset={skipped.Offset}, next={skipped.NextOffset}, bytes={skipped.SkippedLength}, "
            + $"file={skipped.File}.",
        ExitCodes.Success);

    /// <summary>Writes messages; false if a signal came before all of them were written.</summary>
    private static bool Write(
        MessageSource source, bool isFollowing, long countMax, MessageFormat format, CancellationToken stopped)
    {
        Stream output = StandardOutput.Open();
        using MessageWriter writer = new(output, format);
        long uncommitted = 0;
        long count = 0;
        bool isAtEnd = false;
        try
        {
            for (TimeSpan wait = TimeSpan.Zero; count < countMax && !isAtEnd && !stopped.IsCancellationRequested;)
            {
                if (source.TryRead(wait, out ReadOnlySpan<byte> message))
                {
                    uncommitted += writer.Write(message, source.MessageOffset);
                    count++;
                    wait = TimeSpan.Zero;
                    if (uncommitted < CommitInterval)
                        continue;
                }
                else
                {
                    isAtEnd = !isFollowing;
                    wait = s_waitMax;
                }

                Finish();
            }
        }
        catch (MappedFileQueueException)
        {
            // What was read before an error, damage for example, is whole, and is not read a second time.
            Finish();
            throw;
        }

        Finish();
        return count == countMax || isAtEnd;

        // First written, then committed: if this process is killed in between, a message may come twice, but none is lost.
        void Finish()
        {
            if (uncommitted == 0)
                return;
            output.Flush();
            source.Commit();
            uncommitted = 0;
        }
    }
}
