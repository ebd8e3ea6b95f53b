using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Consume;

/// <summary>`mfq consume`: the messages of a store on standard output.</summary>
internal static class ConsumeCommand
{
    /// <summary>So much is written between two commits, when there is that much to read.</summary>
    private const int CommitInterval = 64 * 1024;

    /// <summary>The number of the error "broken pipe" on every Unix.</summary>
    private const int BrokenPipe = 32;

    /// <summary>How long one wait for a message lasts before a signal is looked at.</summary>
    private static readonly TimeSpan s_waitMax = TimeSpan.FromMilliseconds(100);

    public static Command Create()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it is never made.");
        Option<string?> consumer = new("--consumer")
        {
            Description = "Begin where this consumer stands (\"\" is the default one). Without it: at the first message, as a "
                + "reader that leaves no trace.",
            HelpName = "NAME",
        };
        Option<bool> commit = ToolOptions.Flag(
            "--commit",
            "Commit, as that consumer, what has been written out, also when a signal ends it. Without it the consumer stays "
                + "where it stands.");
        Option<string?> from = new("--from")
        {
            Description = "Begin at this offset, at the first message, or behind the last one, instead of where the consumer "
                + "stands; with --commit the consumer is moved there at once.",
            HelpName = "OFFSET|start|end",
        };
        Option<long?> last = ToolOptions.Number(
            "--last", "Begin so many messages before the end, as --from does.", 0, long.MaxValue);
        Option<bool> skipDamage = ToolOptions.Flag(
            "--skip-damage",
            "Read on behind damage, with the next message that can be proved to be one. What was skipped is said on standard "
                + "error, a line each, and does not change the exit code.");
        Option<bool> follow = ToolOptions.Flag("--follow", "At the end wait for more, until Ctrl-C.");
        Option<long?> count = ToolOptions.Number("--count", "End after so many messages.", 0, long.MaxValue);
        Option<string> format = ToolOptions.OneOf(
            "--format",
            "text: the bytes and a newline; hex: two digits a byte; json: a line with offset, length, and `text` or, when the "
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
                result.AddError($"A consumer's name is up to 100 of the characters A-Z a-z 0-9 . _ - : {name}.");
            if (result.GetResult(from) is not null && result.GetResult(last) is not null)
                result.AddError("--from and --last exclude each other.");
            if ((result.GetResult(from) ?? result.GetResult(last)) is { } place
                && result.GetResult(consumer) is not null && result.GetResult(commit) is null)
            {
                result.AddError(
                    $"{place.Option.Name} and --consumer name two places to begin at; with --commit the consumer is moved.");
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
        // What waits for a lock has written nothing: until the source is open a signal ends the process as it ends any other.
        using MessageSource source = plan.Open(OnSkipped);
        using Interruption interruption = new();
        try
        {
            if (!Write(source, isFollowing, countMax, format, interruption.Token))
                return interruption.ExitCode;
        }
        catch (IOException exception) when (exception.HResult == BrokenPipe)
        {
            // Whoever read has seen enough, as `head` does. What it did not take is not committed.
            return ExitCodes.Success;
        }

        return source.DamageAhead is { } damage
            ? ErrorLine.Write(
                $"The log is damaged, and nothing behind that is certain to be a message: offset={damage.Offset}, "
                    + $"file={damage.File}. What could be read has been written; restore the file.",
                ExitCodes.Failure)
            : ExitCodes.Success;
    }

    private static void OnSkipped(CorruptionSkippedEventArgs skipped) => ErrorLine.Write(
        $"Damage was skipped: offset={skipped.Offset}, next={skipped.NextOffset}, bytes={skipped.SkippedLength}, "
            + $"file={skipped.File}.",
        ExitCodes.Success);

    /// <summary>Writes messages; false when a signal came before all of them were written.</summary>
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
            // What was read before the damage, say, is whole, and is not asked for twice.
            Finish();
            throw;
        }

        Finish();
        return count == countMax || isAtEnd;

        // Out first, then committed: a message may come twice when this process is killed in between, but none is lost.
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
