using MappedFileQueues.RabbitMQ;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tool.Bridge;

/// <summary>`mfq bridge`: moves messages between a store and a RabbitMQ stream.</summary>
internal static class BridgeCommand
{
    private const string UserVariable = "MFQ_BROKER_USER";
    private const string PasswordVariable = "MFQ_BROKER_PASSWORD";

    public static Command Create() => new(
        "bridge",
        "Move messages between a store and a RabbitMQ stream, each once and in order. An address without an account takes it "
            + $"from {UserVariable} and {PasswordVariable} in the environment.")
    {
        CreateForward(), CreateFetch(),
    };

    private static Command CreateForward()
    {
        Ends ends = new("The store's directory; it may be in use.");
        Option<bool> once = ToolOptions.Flag("--once", "Forward what is there now, and end once the broker has confirmed it.");
        Option<string?> consumer = ConsumerName.Option(
            "--consumer", $"The store's consumer whose cursor follows the confirms; default bridge. {ConsumerName.Help}.");
        consumer.DefaultValueFactory = _ => "bridge";
        Option<bool> unpacked = ToolOptions.Flag("--unpacked", "Send each message as a broker message of its own.");
        Option<bool> notDurable = ToolOptions.Flag("--no-flush", "Also send what a power loss could take back here.");
        Option<string> lockKind = ToolOptions.OneOf(
            "--lock", "The lock between forwarders: quorum, for one node and clusters; classic, for one node.",
            "quorum", "classic");
        Option<string?> deadLetters = ToolOptions.Path(
            "--dead-letters", "A store for messages that the broker refuses; without it the command ends at one.", "STORE");
        Option<long?> maxLength = ToolOptions.Size(
            "--stream-max-bytes", "How many bytes a stream that is made here keeps; default all.", 1);
        Option<TimeSpan?> maxAge = ToolOptions.Limit(
            "--stream-max-age", "How long a stream that is made here keeps messages; default for ever.");
        return new Command(
            "forward", "Forward a store into a stream: `mfq bridge forward orders amqps://shop@broker --stream orders`.")
        {
            ends.Store, ends.Brokers, ends.Stream, once, consumer, unpacked, notDurable, lockKind, deadLetters, maxLength, maxAge,
            ends.GoOn, ends.AllowFileSystem,
        }.Does(parsed => Run(parsed, token =>
        {
            StreamForwarderOptions options = new()
            {
                ConsumerName = parsed.GetRequiredValue(consumer)!,
                PackLength = parsed.GetValue(unpacked) ? 0 : StreamForwarderOptions.PackLengthDefault,
                DurableOnly = !parsed.GetValue(notDurable),
                Lock = parsed.GetRequiredValue(lockKind) == "classic" ? StreamLockKind.Classic : StreamLockKind.Quorum,
                DeadLetterPath = parsed.GetValue(deadLetters),
                StreamMaxLength = parsed.GetValue(maxLength),
                StreamMaxAge = parsed.GetValue(maxAge) is { } age && age > TimeSpan.Zero ? age : null,
            };
            ends.Fill(options, parsed);
            StreamForwarder forwarder = new(options, new ErrorLogger<StreamForwarder>());
            Task work = parsed.GetValue(once) ? forwarder.RunOnceAsync(token) : forwarder.RunAsync(token);
            return (work, forwarder.GetStatus);
        }));
    }

    private static Command CreateFetch()
    {
        Ends ends = new("The store's directory; it is made if it is missing.");
        Option<long?> segmentSize = ToolOptions.SegmentSize();
        return new Command(
            "fetch", "Fetch a stream into a store: `mfq bridge fetch amqps://shop@broker --stream orders orders-copy`.")
        {
            ends.Brokers, ends.Stream, ends.Store, segmentSize, ends.GoOn, ends.AllowFileSystem,
        }.Does(parsed => Run(parsed, token =>
        {
            StreamFetcherOptions options = new();
            options.SegmentSize = parsed.GetValue(segmentSize) ?? options.SegmentSize;
            ends.Fill(options, parsed);
            StreamFetcher fetcher = new(options, new ErrorLogger<StreamFetcher>());
            return (fetcher.RunAsync(token), fetcher.GetStatus);
        }));
    }

    private static int Run(ParseResult parsed, Func<CancellationToken, (Task Work, Func<BridgeStatus> GetStatus)> start)
    {
        using Interruption interruption = new();
        Func<BridgeStatus> status;
        int exitCode = ExitCodes.Success;
        try
        {
            (Task work, status) = start(interruption.Token);
            try
            {
                work.GetAwaiter().GetResult();
            }
            catch (OperationCanceledException) when (interruption.ExitCode != 0)
            {
                exitCode = interruption.ExitCode;
            }
        }
        catch (ArgumentException error)
        {
            return ErrorLine.Write(error.Message, ExitCodes.Usage);
        }

        BridgeStatus end = status();
        string? lastError = end.LastError is { } text ? OperatorWords.Of(text) : null;
        return Result.Write(
            parsed, new BridgeResult(end.Messages, end.Bytes, end.Attempts, lastError), ToolJson.Default.BridgeResult,
            $"{Report.Count(end.Messages, "message")}, {Report.Bytes(end.Bytes)}.", exitCode);
    }

    /// <summary>What both directions take: the store and the stream.</summary>
    private sealed class Ends
    {
        public Ends(string storeHelp)
        {
            Store = ToolOptions.Store(storeHelp);
            Brokers.Validators.Add(result =>
            {
                if (result.Tokens is [{ Value: { } text }] && text.All(one => one == ',' || char.IsWhiteSpace(one)))
                    result.AddError("BROKER is an address such as amqps://user@host/vhost.");
            });
            Stream.Required = true;
        }

        public Argument<string> Store { get; }
        public Argument<string> Brokers { get; } = new("BROKER")
        {
            Description = "The broker, such as amqps://user@host/vhost; the nodes of a cluster with commas between.",
        };
        public Option<string> Stream { get; } = ToolOptions.Value(
            "--stream", "The stream's name.", "NAME", "the name of a stream",
            text => string.IsNullOrWhiteSpace(text) ? null : text);
        public Option<bool> GoOn { get; } = ToolOptions.Flag(
            "--go-on", "Go on when it is not certain that the source is what it was; the log says what is ambiguous.");
        public Option<bool> AllowFileSystem { get; } = StoreOptions.AllowFileSystem();

        public void Fill(BridgeOptions options, ParseResult parsed)
        {
            options.StorePath = parsed.GetRequiredValue(Store);
            options.Brokers = parsed.GetRequiredValue(Brokers);
            options.UserName = Environment.GetEnvironmentVariable(UserVariable);
            options.Password = Environment.GetEnvironmentVariable(PasswordVariable);
            options.Stream = parsed.GetRequiredValue(Stream);
            options.OnSourceChange = parsed.GetValue(GoOn) ? SourceChangePolicy.Continue : SourceChangePolicy.Stop;
            options.DangerouslyAllowFileSystem = parsed.GetValue(AllowFileSystem);
        }
    }
}

/// <summary>What `mfq bridge forward` and `fetch` have moved.</summary>
internal sealed record BridgeResult(long Messages, long Bytes, long Attempts, string? LastError);

/// <summary>Writes what a bridge logs to standard error, a line each; its last error is the command's own to tell.</summary>
internal sealed class ErrorLogger<T> : ILogger<T>
{
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => logLevel is >= LogLevel.Information and < LogLevel.Error;

    public void Log<TState>(
        LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        if (IsEnabled(logLevel))
            ErrorLine.Write(formatter(state, exception), ExitCodes.Success);
    }
}
