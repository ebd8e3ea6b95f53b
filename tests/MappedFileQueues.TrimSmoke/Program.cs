using System.Text;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.TrimSmoke;

/// <summary>
/// Produces and consumes through both kinds of queue, reopens each store, and checks what comes out; then it logs to a file that
/// configuration describes. Published trimmed and as a single file, or as native code, it shows that the libraries need nothing
/// that goes on the way; built against the packages, that these are whole.
/// </summary>
internal static partial class Program
{
    private const int MessageCount = 10_000;

    private static int Main(string[] arguments)
    {
        string root = arguments.Length > 0 ? arguments[0] : Directory.CreateTempSubdirectory("mfq-trim-").FullName;
        try
        {
            RunStructs(Path.Combine(root, "structs"));
            RunMessages(Path.Combine(root, "messages"));
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

    private static void RunLog(string path)
    {
        IConfigurationRoot configuration = new ConfigurationBuilder().AddInMemoryCollection().Build();
        configuration["Logging:MappedFile:Path"] = path;
        configuration["Logging:MappedFile:IncludeScopes"] = "true";
        configuration["Logging:MappedFile:File:Durability"] = "PageCache";
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
    private struct Tick
    {
        public long Sequence;
        public double Price;
        public byte Side;
    }
}
