using System.Text;
using System.Text.Json.Serialization;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.TrimSmoke;

/// <summary>
/// Produces and consumes through both kinds of queue, as structs, text and JSON, also by a hosted consumer; reopens each store,
/// and checks what comes out; then it logs to a file that configuration describes. Published trimmed and as a single
/// file, or as native code, it shows that the libraries need nothing that continues the way; built against the packages, that
/// these are whole. `FOLDER continue` takes over what another build of this program has left there, and appends to it.
/// </summary>
internal static partial class Program
{
    private const int MessageCount = 10_000;

    private static int Main(string[] arguments)
    {
        if (arguments is [{ } left, "continue"])
        {
            Continue(left);
            Console.WriteLine("The stores of the other build are whole, and take more.");
            return 0;
        }

        string root = arguments.Length > 0 ? arguments[0] : Directory.CreateTempSubdirectory("mfq-trim-").FullName;
        try
        {
            RunStructs(Path.Combine(root, "structs"));
            RunMessages(Path.Combine(root, "messages"));
            RunJson(Path.Combine(root, "json"));
            RunHosted(Path.Combine(root, "structs")).GetAwaiter().GetResult();
            RunLog(Path.Combine(root, "logs", "app.log"));
        }
        finally
        {
            if (arguments.Length == 0)
                Directory.Delete(root, recursive: true);
        }

        Console.WriteLine($"{MessageCount} structs and {MessageCount} messages went through.");
        return 0;
    }

    private static void RunStructs(string storePath)
    {
        using (MappedFileQueue<Tick> queue = MappedFileQueue.Create<Tick>(new MappedFileQueueOptions { StorePath = storePath }))
        {
            for (int index = 0; index < MessageCount; index++)
                queue.Producer.Produce(new Tick { Sequence = index, Price = index * 0.5, Side = (byte)(index & 1) });
        }

        using MappedFileQueue<Tick> reopened = new(new MappedFileQueueOptions { StorePath = storePath });
        for (int index = 0; index < MessageCount; index++)
        {
            reopened.Consumer.Consume(out Tick tick);
            bool isSame = tick.Sequence == index && tick.Price == index * 0.5 && tick.Side == (index & 1);
            Check(isSame, $"struct {index} came out wrong");
            reopened.Consumer.Commit();
        }

        Check(!reopened.Consumer.TryConsume(out Tick _), "a struct more came out than went in");
    }

    private static void RunMessages(string storePath)
    {
        using (MappedFileQueue queue = MappedFileQueue.Create(new MappedFileQueueOptions { StorePath = storePath }))
        {
            for (int index = 0; index < MessageCount; index++)
                queue.Producer.Produce(Encoding.UTF8.GetBytes($"message {index}"));
        }

        using MappedFileQueue reopened = new(new MappedFileQueueOptions { StorePath = storePath });
        for (int index = 0; index < MessageCount; index++)
        {
            string message = Encoding.UTF8.GetString(reopened.Consumer.Consume());
            Check(message == $"message {index}", $"message {index} came out as '{message}'");
            reopened.Consumer.Commit();
        }

        Check(!reopened.Consumer.TryConsume(out ReadOnlySpan<byte> _), "a message more came out than went in");
    }

    private static void RunJson(string storePath)
    {
        var serializer = new JsonMessageSerializer<Note>(NoteJson.Default.Note);
        using (MappedFileQueue queue = MappedFileQueue.Create(new MappedFileQueueOptions { StorePath = storePath }))
        {
            for (int index = 0; index < MessageCount; index++)
                queue.Producer.Produce(new Note(index, $"note {index}"), serializer);
        }

        using MappedFileQueue reopened = new(new MappedFileQueueOptions { StorePath = storePath });
        CheckNotes(reopened, MessageCount);
    }

    private static void CheckNotes(MappedFileQueue queue, int count)
    {
        var serializer = new JsonMessageSerializer<Note>(NoteJson.Default.Note);
        for (int index = 0; index < count; index++)
        {
            Note note = queue.Consumer.Consume(serializer);
            Check(note == new Note(index, $"note {index}"), $"note {index} came out as '{note}'");
            queue.Consumer.Commit();
        }

        Check(!queue.Consumer.TryConsume(out ReadOnlySpan<byte> _), "a note more came out than went in");
    }

    /// <summary>A background service of an application consumes the structs again, under its own name.</summary>
    private static async Task RunHosted(string storePath)
    {
        IConfigurationRoot configuration = new ConfigurationBuilder().AddInMemoryCollection().Build();
        configuration["Ticks:StorePath"] = storePath;
        configuration["MappedFileQueues:ticks:UnixCreateMode"] = "600";
        configuration["MappedFileQueues:ticks:Corruption"] = "SkipMessage";
        configuration["MappedFileQueues:ticks:Retention:MaxAge"] = "720h";
        configuration["MappedFileQueues:ticks:Consumers:hosted:Corruption"] = "Throw";
        var services = new ServiceCollection();
        services.AddLogging();
        services.AddSingleton<IConfiguration>(configuration);
        services.AddMappedFileQueue<Tick>("ticks", options => options.StorePath = configuration["Ticks:StorePath"]!)
            .AddMappedFileConsumer<Tick, TickHandler>("ticks", consumer: "hosted");
        await using ServiceProvider provider = services.BuildServiceProvider();
        HostedQueueOptions options = provider.GetRequiredService<IOptionsMonitor<HostedQueueOptions>>().Get("ticks");
        bool isRead = options.UnixCreateMode == (UnixFileMode.UserRead | UnixFileMode.UserWrite)
            && options.Corruption == CorruptionPolicy.SkipMessage
            && options.Retention == new RetentionOptions { MaxAge = TimeSpan.FromDays(30) };
        Check(isRead, "the options are not those of the configuration");
        TickHandler.Reset();
        foreach (IHostedService service in provider.GetServices<IHostedService>())
            await service.StartAsync(CancellationToken.None);
        await TickHandler.Done.WaitAsync(TimeSpan.FromMinutes(1));
        foreach (IHostedService service in provider.GetServices<IHostedService>())
            await service.StopAsync(CancellationToken.None);
        Check(TickHandler.Sum == (long)MessageCount * (MessageCount - 1) / 2, $"the handler's sum is {TickHandler.Sum}");
    }

    /// <summary>The consumers have committed what the other build wrote: they find nothing, then what is appended here.</summary>
    private static void Continue(string root)
    {
        using (MappedFileQueue<Tick> queue = new(new MappedFileQueueOptions { StorePath = Path.Combine(root, "structs") }))
        {
            using MappedFileReader<Tick> reader = queue.OpenReader();
            for (int index = 0; index < MessageCount; index++)
            {
                bool isThere = reader.TryRead(out Tick tick) && tick.Sequence == index && tick.Price == index * 0.5;
                Check(isThere, $"struct {index} is lost");
            }

            Check(!queue.Consumer.TryConsume(out Tick _), "a struct came twice");
            queue.Producer.Produce(new Tick { Sequence = -1 });
            queue.Consumer.Consume(out Tick last);
            Check(last.Sequence == -1, "the struct that was appended is not there");
        }

        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = Path.Combine(root, "json") }))
        {
            Check(!queue.Consumer.TryConsume(out ReadOnlySpan<byte> _), "a note came twice");
            queue.Consumer.SeekToStart();
            CheckNotes(queue, MessageCount);
            queue.Producer.Produce(new Note(-1, "more"), new JsonMessageSerializer<Note>(NoteJson.Default.Note));
        }

        MappedFileQueueInfo info = StoreInspector.Inspect(Path.Combine(root, "messages"), countsMessages: true);
        bool isWhole = info.MessageCount == MessageCount && info.Consumers is [{ LagMessages: 0 }];
        Check(isWhole, $"{info.MessageCount} messages are left");
    }

    private static void RunLog(string path)
    {
        IConfigurationRoot configuration = new ConfigurationBuilder().AddInMemoryCollection().Build();
        configuration["Logging:MappedFile:Path"] = path;
        configuration["Logging:MappedFile:IncludeScopes"] = "true";
        configuration["Logging:MappedFile:File:Durability"] = "PageCache";
        configuration["Logging:MappedFile:File:RetainedFileCount"] = "3";
        configuration["Logging:MappedFile:File:UnixCreateMode"] = "640";
        using (ILoggerFactory factory = LoggerFactory.Create(
            logging => logging.AddConfiguration(configuration.GetSection("Logging")).AddMappedFile()))
        {
            ILogger logger = factory.CreateLogger("C");
            using (logger.BeginScope(new Dictionary<string, object> { ["Id"] = 7 }))
                logger.LogInformation("{Count} of {Kind}", 3, DayOfWeek.Friday);
            configuration["Logging:MappedFile:Format"] = nameof(LogLineFormat.Json);
            configuration.Reload();
            Came(logger, "Alice", 1.5);
        }

        string[] lines = File.ReadAllLines(path);
        Check(lines.Length == 2, $"{lines.Length} lines of the log came out");
        Check(lines[0].EndsWith(" info C[0] [Id=7] 3 of Friday", StringComparison.Ordinal), $"a line came out as '{lines[0]}'");
        Check(
            lines[1].EndsWith("\"values\":{\"Who\":\"Alice\",\"Hours\":1.5}}", StringComparison.Ordinal),
            $"a line came out as '{lines[1]}'");
    }

    [LoggerMessage(1, LogLevel.Information, "{Who} came after {Hours} h")]
    private static partial void Came(ILogger logger, string who, double hours);

    private static void Check(bool holds, string otherwise)
    {
        if (!holds)
            throw new InvalidOperationException($"The published program: {otherwise}.");
    }

    /// <summary>A message of the struct queue.</summary>
    internal struct Tick
    {
        public long Sequence;
        public double Price;
        public byte Side;
    }

    /// <summary>Adds up what the hosted consumer gives it.</summary>
    internal sealed class TickHandler : IMessageHandler<Tick>
    {
        private static TaskCompletionSource s_done = new();
        private static int s_left;

        public static long Sum { get; private set; }

        public static Task Done => s_done.Task;

        public static void Reset() => (s_done, s_left, Sum) = (new TaskCompletionSource(), MessageCount, 0);

        public ValueTask HandleAsync(Tick tick, ConsumeContext context, CancellationToken cancellationToken)
        {
            Sum += tick.Sequence;
            if (--s_left == 0)
                s_done.TrySetResult();
            return default;
        }
    }

    /// <summary>A message of the JSON queue.</summary>
    internal sealed record Note(int Id, string Text);

    [JsonSerializable(typeof(Note))]
    internal sealed partial class NoteJson : JsonSerializerContext;
}
