using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Reflection;
using System.Text.Json;
using MappedFileQueues.Files;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using MappedFileQueues.Tests.Files.Rolling;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>The provider's files end by size, at midnight and by age; lines say to which trace they belong.</summary>
public sealed class LogRollTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ConcurrentQueue<RolledFile> _rolled = [];
    private readonly ConcurrentQueue<Exception> _errors = [];

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>A log without limits fills the disk in the end.</summary>
    [Fact]
    public void Options_Default_AreLimitedToOneGibibyte()
    {
        AppendFileOptions file = new MappedFileLoggerOptions().File;
        Assert.Equal(1L << 30, file.RollLength * (file.RetainedFileCount + 1));

        IConfigurationRoot configuration = new ConfigurationBuilder().AddInMemoryCollection(new Dictionary<string, string?>
        {
            ["Logging:MappedFile:File:RollLength"] = "0",
            ["Logging:MappedFile:File:RetainedFileCount"] = "all",
            ["Logging:MappedFile:File:RetainedAge"] = "infinite",
        }).Build();
        using ServiceProvider services = new ServiceCollection()
            .AddLogging(logging => logging.AddConfiguration(configuration.GetSection("Logging")).AddMappedFile(FilePath))
            .BuildServiceProvider();
        file = services.GetRequiredService<IOptions<MappedFileLoggerOptions>>().Value.File;
        Assert.Equal((0L, null, null), (file.RollLength, file.RetainedFileCount, file.RetainedAge));
    }

    [Fact]
    public void RollAtMidnight_DayPasses_EachDayHasItsFileAndTheHandlerHearsOfIt()
    {
        ManualTime time = new(DateTimeOffset.Parse("2025-03-30T21:00:00Z", CultureInfo.InvariantCulture), Zones.Berlin);
        using (MappedFileLoggerProvider provider = new((Options(time) with { OnRolled = _rolled.Enqueue }).Make()))
        {
            ILogger logger = provider.CreateLogger("C");
            logger.LogInformation("Sunday");
            provider.Flush();
            time.Advance(TimeSpan.FromMinutes(59));
            provider.Flush();
            Assert.Empty(_rolled);
            Eventually.True(
                () =>
                {
                    time.Advance(TimeSpan.FromMinutes(1));
                    return !_rolled.IsEmpty;
                },
                "the file of Sunday is rolled");
            logger.LogInformation("Monday");
        }

        RolledFile sunday = Assert.Single(_rolled);
        Assert.EndsWith(" Sunday\n", File.ReadAllText(sunday.Path), StringComparison.Ordinal);
        Assert.EndsWith(" Monday\n", File.ReadAllText(FilePath), StringComparison.Ordinal);
        Assert.Empty(_errors);
    }

    /// <summary>A handler that throws is told to the handler of errors; one that is replaced needs no new file.</summary>
    [Fact]
    public void OnRolled_Throws_IsReportedAndTheLogGoesOn()
    {
        ManualTime time = new();
        LogOptions options = Options(time) with
        {
            RollLength = 60,
            OnRolled = file => throw new InvalidOperationException($"cannot send {Path.GetFileName(file.Path)}"),
        };
        using (MappedFileLoggerProvider provider = new(options.Make()))
        {
            ILogger logger = provider.CreateLogger("C");
            for (int i = 0; i < 3; i++)
                logger.LogInformation("{Number}", i);
            provider.Flush();
            Eventually.True(() => _errors.Count == 2, "both failures are told");
            Assert.Equal(0, provider.LostLineCount);
        }

        Assert.All(_errors, error => Assert.IsType<InvalidOperationException>(
            Assert.IsType<TargetInvocationException>(error).InnerException));
        Assert.Contains("cannot send app.roll-000001.log", _errors.First().Message, StringComparison.Ordinal);
        Assert.Equal(3, Directory.GetFiles(_temp.StorePath, "app*.log").Length);
    }

    [Theory]
    [InlineData(ActivityIdFormat.W3C)]
    [InlineData(ActivityIdFormat.Hierarchical)]
    public void JsonLine_InAnActivity_HasItsIdsAsFields(ActivityIdFormat format)
    {
        using Activity activity = new Activity("work").SetIdFormat(format);
        using (MappedFileLoggerProvider provider = new(Json()))
        {
            ILogger logger = provider.CreateLogger("C");
            logger.LogInformation("before");
            activity.Start();
            logger.LogInformation("{Number}", 1);
            activity.Stop();
            logger.LogInformation("behind");
        }

        JsonElement[] lines = [.. File.ReadLines(FilePath).Select(line => JsonDocument.Parse(line).RootElement)];
        Assert.Equal(
            [false, format == ActivityIdFormat.W3C, false], lines.Select(line => line.TryGetProperty("traceId", out _)));
        Assert.Equal(1, lines[1].GetProperty("values").GetProperty("Number").GetInt32());
        if (format != ActivityIdFormat.W3C)
            return;
        Assert.Equal(activity.TraceId.ToHexString(), lines[1].GetProperty("traceId").GetString());
        Assert.Equal(activity.SpanId.ToHexString(), lines[1].GetProperty("spanId").GetString());
    }

    /// <summary>The ids are strings that the activity holds: a line still allocates nothing.</summary>
    [Fact]
    public void JsonLine_InAnActivity_AllocatesNothing()
    {
        using Activity activity = new Activity("work").SetIdFormat(ActivityIdFormat.W3C).Start();
        using MappedFileLoggerProvider provider = new(Json());
        ILogger logger = provider.CreateLogger("C");
        Action<ILogger, string, Exception?> log =
            LoggerMessage.Define<string>(LogLevel.Information, new EventId(1), "{Name} came");
        for (int i = 0; i < 100; i++)
            log(logger, "Alice", null);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++)
            log(logger, "Alice", null);
        Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before);
    }

    /// <summary>After ClearProviders a file could not be added any more: nothing was logged, and nothing said so.</summary>
    [Fact]
    public void AddMappedFile_AfterClearProviders_LogsAgain()
    {
        IConfigurationRoot configuration = new ConfigurationBuilder().AddInMemoryCollection(
            new Dictionary<string, string?> { ["Logging:MappedFile:Path"] = FilePath }).Build();
        using (ServiceProvider services = new ServiceCollection()
            .AddLogging(logging => logging.AddConfiguration(configuration.GetSection("Logging"))
                .AddMappedFile().AddMappedFile().ClearProviders().AddMappedFile().AddMappedFile())
            .BuildServiceProvider())
        {
            Assert.Single(services.GetServices<ILoggerProvider>());
            services.GetRequiredService<ILoggerFactory>().CreateLogger("C").LogInformation("there");
        }

        Assert.EndsWith(" there\n", File.ReadAllText(FilePath), StringComparison.Ordinal);
    }

    private MappedFileLoggerOptions Json() => new() { Path = FilePath, Format = LogLineFormat.Json };

    private LogOptions Options(ManualTime time) => new(FilePath, time, _errors.Enqueue);

    private sealed record LogOptions(string Path, ManualTime Time, Action<Exception> OnError)
    {
        public long RollLength { get; init; }

        public Action<RolledFile>? OnRolled { get; init; }

        public MappedFileLoggerOptions Make() => new()
        {
            Path = Path,
            TimeProvider = Time,
            OnError = OnError,
            OnRolled = OnRolled,
            File = new AppendFileOptions { TimeProvider = Time, RollAtMidnight = true, RollLength = RollLength },
        };
    }
}
