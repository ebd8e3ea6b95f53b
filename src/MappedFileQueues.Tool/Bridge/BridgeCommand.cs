using System.CommandLine;
using MappedFileQueues.Format;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Bridge;

/// <summary>`mfq bridge`: moves messages between a store and a RabbitMQ stream.</summary>
internal static class BridgeCommand
{
    private const string UserVariable = "MFQ_BROKER_USER";
    private const string PasswordVariable = "MFQ_BROKER_PASSWORD";

    public static Command Create()
    {
        Command command = new(
            "bridge",
            "Move messages between a store and a RabbitMQ stream, each once and in order. An address without an account takes it "
                + $"from {UserVariable} and {PasswordVariable} in the environment.");
        command.Add(CreateForward());
        command.Add(CreateFetch());
        return command;
    }

    private static Command CreateForward()
    {
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it may be in use.");
        Argument<string> brokers = BrokersArgument();
        Option<string> stream = StreamOption();
        Option<bool> once = ToolOptions.Flag("--once", "Forward what is there now, and end once the broker has confirmed it.");
        Option<string?> consumer = ConsumerName.Option(
            "--consumer", $"The store's consumer whose cursor follows the confirms; default bridge. {ConsumerName.Help}.");
        consumer.DefaultValueFactory = _ => "bridge";
        Option<bool> unpacked = ToolOptions.Flag("--unpacked", "Send each message as a broker message of its own.");
        Option<bool> notDurable = ToolOptions.Flag("--no-flush", "Also send what a power cut could take back here.");
        Option<string> lockKind = ToolOptions.OneOf(
            "--lock", "The lock between forwarders: quorum, for one node and clusters; classic, for one node.",
            "quorum", "classic");
        Option<string?> deadLetters = ToolOptions.Path(
            "--dead-letters", "A store for messages that the broker refuses; without it the command ends at one.", "STORE");
        Option<long?> maxLength = ToolOptions.Size(
            "--stream-max-bytes", "How many bytes a stream that is made here keeps; default all.", 1, long.MaxValue);
        Option<TimeSpan?> maxAge = ToolOptions.Limit(
            "--stream-max-age", "How long a stream that is made here keeps messages; default for ever.");
        Option<bool> goOn = ChangeOption();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "forward", "Forward a store into a stream: `mfq bridge forward orders amqps://shop@broker --stream orders`.")
        {
            store, brokers, stream, once, consumer, unpacked, notDurable, lockKind, deadLetters, maxLength, maxAge, goOn,
            allowFileSystem,
        };
        command.SetAction(parsed => Run(parsed, token =>
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
            Fill(options, parsed.GetRequiredValue(store), parsed.GetRequiredValue(brokers), parsed.GetRequiredValue(stream),
                parsed.GetValue(goOn), parsed.GetValue(allowFileSystem));
            StreamForwarder forwarder = new(options, new ErrorLogger<StreamForwarder>());
            Task work = parsed.GetValue(once) ? forwarder.RunOnceAsync(token) : forwarder.RunAsync(token);
            return (work, forwarder.GetStatus);
        }));
        return command;
    }

    private static Command CreateFetch()
    {
        Argument<string> brokers = BrokersArgument();
        Argument<string> store = ToolOptions.PathArgument("STORE", "The store's directory; it is made if it is missing.");
        Option<string> stream = StreamOption();
        Option<long?> segmentSize = ToolOptions.Size(
            "--segment-size",
            "The length of a segment file of a new store; the longest message is 8 bytes shorter. Default 128 MiB.",
            1,
            StoreMeta.SegmentLengthMax);
        Option<bool> goOn = ChangeOption();
        Option<bool> allowFileSystem = StoreOptions.AllowFileSystem();
        Command command = new(
            "fetch", "Fetch a stream into a store: `mfq bridge fetch amqps://shop@broker --stream orders orders-copy`.")
        {
            brokers, stream, store, segmentSize, goOn, allowFileSystem,
        };
        command.SetAction(parsed => Run(parsed, token =>
        {
            StreamFetcherOptions options = new();
            options.SegmentSize = parsed.GetValue(segmentSize) ?? options.SegmentSize;
            Fill(options, parsed.GetRequiredValue(store), parsed.GetRequiredValue(brokers), parsed.GetRequiredValue(stream),
                parsed.GetValue(goOn), parsed.GetValue(allowFileSystem));
            StreamFetcher fetcher = new(options, new ErrorLogger<StreamFetcher>());
            return (fetcher.RunAsync(token), fetcher.GetStatus);
        }));
        return command;
    }

    private static Argument<string> BrokersArgument()
    {
        Argument<string> brokers = new("BROKER")
        {
            Description = "The broker, such as amqps://user@host/vhost; the nodes of a cluster with commas between.",
        };
        brokers.Validators.Add(result =>
        {
            if (result.Tokens is [{ Value: { } text }] && text.All(one => one == ',' || char.IsWhiteSpace(one)))
                result.AddError("BROKER is an address such as amqps://user@host/vhost.");
        });
        return brokers;
    }

    private static Option<string> StreamOption()
    {
        Option<string> stream = new("--stream") { Description = "The stream's name.", HelpName = "NAME", Required = true };
        stream.Validators.Add(result =>
        {
            if (result.Tokens is [{ Value: { } text }] && string.IsNullOrWhiteSpace(text))
                result.AddError("--stream is the name of a stream.");
        });
        return stream;
    }

    private static Option<bool> ChangeOption() => ToolOptions.Flag(
        "--go-on", "Go on when it is not certain that the source is what it was; the log says what is ambiguous.");

    private static void Fill(
        BridgeOptions options, string store, string brokers, string stream, bool goesOn, bool allowsFileSystem)
    {
        options.StorePath = store;
        options.Brokers = brokers;
        options.UserName = Environment.GetEnvironmentVariable(UserVariable);
        options.Password = Environment.GetEnvironmentVariable(PasswordVariable);
        options.Stream = stream;
        options.OnSourceChange = goesOn ? SourceChangePolicy.Continue : SourceChangePolicy.Stop;
        options.DangerouslyAllowFileSystem = allowsFileSystem;
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
        if (OutputOption.IsJson(parsed))
        {
            OutputOption.WriteJson(
                new BridgeResult(
                    end.Messages, end.Bytes, end.Attempts, end.LastError is { } error ? OperatorWords.Of(error) : null),
                BridgeJsonContext.Default.BridgeResult);
        }
        else
        {
            OutputLine.Write($"{Report.Count(end.Messages, "message")}, {Report.Bytes(end.Bytes)}.");
        }

        return exitCode;
    }
}
