using System.CommandLine;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Consume;

/// <summary>`mfq consume`: the messages of a store on standard output.</summary>
internal static class ConsumeCommand
{
    /// <summary>So much is written between two commits, when there is that much to read.</summary>
    private const int CommitInterval = 64 * 1024;

    /// <summary>The number of the error "broken pipe" on every Unix.</summary>
    private const int BrokenPipe = 32;

    /// <summary>How long one wait for a message lasts before Ctrl-C is looked at.</summary>
    private static readonly TimeSpan s_waitMax = TimeSpan.FromMilliseconds(100);

    public static Command Create()
    {
        Argument<string> store = new("STORE") { Description = "The store's directory; it is never made." };
        Option<string?> consumer = new("--consumer")
        {
            Description = "Begin where this consumer stands (\"\" is the default one). Without it: at the first message, as a "
                + "reader that leaves no trace.",
            HelpName = "NAME",
        };
        Option<bool> commit = new("--commit")
        {
            Description = "Commit, as that consumer, what has been written out. Without it the consumer stays where it stands.",
        };
        Option<bool> follow = new("--follow") { Description = "At the end wait for more, until Ctrl-C." };
        Option<long?> count = new("--count") { Description = "End after so many messages.", HelpName = "N" };
        Option<string> format = new("--format")
        {
            Description = "text: the bytes and a newline; hex: two digits a byte; json: a line with offset, length, and "
                + "`text` or, when the message is not UTF-8, `base64`.",
            HelpName = "text|hex|json",
            DefaultValueFactory = _ => "text",
        };
        format.AcceptOnlyFromAmong("text", "hex", "json");
        count.Validators.Add(result =>
        {
            if (result.Tokens.Count == 1 && long.TryParse(result.Tokens[0].Value, out long value) && value < 0)
                result.AddError($"--count must be at least 0: {value}.");
        });

        Command command = new("consume", "Write a store's messages to standard output.")
        {
            store, consumer, commit, follow, count, format,
        };
        command.Validators.Add(result =>
        {
            if (result.GetResult(commit) is not null && result.GetResult(consumer) is null)
                result.AddError("--commit needs --consumer.");
            if (result.GetValue(consumer) is { } name && !StoreNames.IsValidConsumer(name))
                result.AddError($"A consumer's name is up to 100 of the characters A-Z a-z 0-9 . _ - : {name}.");
        });
        command.SetAction(parsed => Run(
            () => Open(parsed.GetRequiredValue(store), parsed.GetValue(consumer), parsed.GetValue(commit)),
            parsed.GetValue(follow),
            parsed.GetValue(count) ?? long.MaxValue,
            Enum.Parse<MessageFormat>(parsed.GetRequiredValue(format), ignoreCase: true)));
        return command;
    }

    private static MessageSource Open(string storePath, string? consumer, bool isCommitting)
    {
        if (consumer is null)
            return new ReaderSource(storePath, QueueStart.Earliest);
        return isCommitting
            ? new ConsumerSource(storePath, consumer)
            : new ReaderSource(storePath, StoreLook.StartOf(storePath, consumer));
    }

    private static int Run(Func<MessageSource> open, bool isFollowing, long countMax, MessageFormat format)
    {
        using CancellationTokenSource stopped = new();
        Action<PosixSignalContext> stop = context =>
        {
            context.Cancel = true;
            stopped.Cancel();
        };
        using PosixSignalRegistration onInterrupt = PosixSignalRegistration.Create(PosixSignal.SIGINT, stop);
        using PosixSignalRegistration onTerminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, stop);
        using MessageSource source = open();
        try
        {
            Write(source, isFollowing, countMax, format, stopped.Token);
        }
        catch (IOException exception) when (exception.HResult == BrokenPipe)
        {
            // Whoever read has seen enough, as `head` does. What it did not take is not committed.
        }

        return ExitCodes.Success;
    }

    private static void Write(
        MessageSource source, bool isFollowing, long countMax, MessageFormat format, CancellationToken stopped)
    {
        Stream output = StandardOutput.Open();
        using MessageWriter writer = new(output, format);
        long uncommitted = 0;
        TimeSpan wait = TimeSpan.Zero;
        for (long count = 0; count < countMax && !stopped.IsCancellationRequested;)
        {
            if (source.TryRead(wait, out ReadOnlySpan<byte> message))
            {
                uncommitted += writer.Write(message, source.MessageOffset);
                count++;
                wait = TimeSpan.Zero;
                if (uncommitted < CommitInterval)
                    continue;
            }
            else if (!isFollowing)
            {
                break;
            }
            else
            {
                wait = s_waitMax;
            }

            if (uncommitted > 0)
                Finish();
        }

        if (uncommitted > 0)
            Finish();

        // Out first, then committed: a message may come twice when this process is killed in between, but none is lost.
        void Finish()
        {
            output.Flush();
            source.Commit();
            uncommitted = 0;
        }
    }
}
