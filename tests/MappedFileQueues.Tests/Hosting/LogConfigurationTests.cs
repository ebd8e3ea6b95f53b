using System.Reflection;
using MappedFileQueues.Files;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>
/// The log provider is configured as others are: a section with its alias, that may change while the application runs. Only
/// levels could be set there.
/// </summary>
public sealed class LogConfigurationTests : IDisposable
{
    /// <summary>A value for each property that configuration can set, that is not the default.</summary>
    private static readonly Dictionary<string, (string Text, object Value)> s_values = new()
    {
        ["Path"] = ("logs/other.log", "logs/other.log"),
        ["Format"] = ("json", LogLineFormat.Json),
        ["IncludeScopes"] = ("true", true),
        ["RetryInterval"] = ("7s", TimeSpan.FromSeconds(7)),
        ["File:BufferLength"] = ("64KiB", 65536),
        ["File:FlushInterval"] = ("infinite", Timeout.InfiniteTimeSpan),
        ["File:Durability"] = ("Group", AppendDurability.Group),
        ["File:Preallocation"] = ("fallocate", FilePreallocation.Fallocate),
        ["File:PreallocationLength"] = ("8388608", 8388608L),
        ["File:Content"] = ("Binary", FileContent.Binary),
        ["File:Append"] = ("False", false),
        ["File:RollLength"] = ("1000000", 1000000L),
        ["File:RollInterval"] = ("1.00:00:00", TimeSpan.FromDays(1)),
        ["File:RollAtMidnight"] = ("true", true),
        ["File:RetainedFileCount"] = ("5", 5),
        ["File:RetainedAge"] = ("31.00:00:00", TimeSpan.FromDays(31)),
        ["File:ReuseOldFiles"] = ("true", true),
        ["File:UnixCreateMode"] = ("0640", UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead),
    };

    /// <summary>Set in code alone.</summary>
    private static readonly string[] s_codeOnly =
        ["TimeProvider", "OnError", "OnRolled", "File", "File:TimeProvider", "File:OnRolled", "File:OnError"];

    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly IConfigurationRoot _configuration = new ConfigurationBuilder().AddInMemoryCollection().Build();
    private readonly List<Exception> _errors = [];

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>An option that is added later has to be bound too.</summary>
    [Fact]
    public void Configure_EveryProperty_IsRead()
    {
        IEnumerable<string> properties = Names(typeof(MappedFileLoggerOptions), "")
            .Concat(Names(typeof(AppendFileOptions), "File:")).Except(s_codeOnly);
        Assert.Equal(properties.Order(), s_values.Keys.Order());
        foreach ((string key, (string text, _)) in s_values)
            _configuration["Logging:MappedFile:" + key] = text;

        using ServiceProvider services = Services(logging => logging.AddMappedFile());
        MappedFileLoggerOptions options = services.GetRequiredService<IOptions<MappedFileLoggerOptions>>().Value;
        foreach ((string key, (_, object value)) in s_values)
        {
            object owner = key.StartsWith("File:", StringComparison.Ordinal) ? options.File : options;
            Assert.Equal(value, owner.GetType().GetProperty(key.Split(':')[^1])!.GetValue(owner));
        }
    }

    [Fact]
    public void AddMappedFile_ConfigurationAlone_WritesTheFile()
    {
        Set(("Path", FilePath), ("Format", "Json"), ("LogLevel:Default", "Warning"));
        Log(logging => logging.AddMappedFile().AddMappedFile(), logger =>
        {
            logger.LogInformation("too low");
            logger.LogWarning("{Number}", 1);
        });

        Assert.Contains("\"values\":{\"Number\":1}", Assert.Single(File.ReadAllLines(FilePath)), StringComparison.Ordinal);
    }

    [Fact]
    public void AddMappedFile_CodeToo_CountsMoreThanConfiguration()
    {
        Set(("Path", _temp.PathOf("no.log")), ("Format", "Json"));
        Log(logging => logging.AddMappedFile(FilePath), logger => logger.LogInformation("1"));

        Assert.StartsWith("{", Assert.Single(File.ReadAllLines(FilePath)), StringComparison.Ordinal);
        Assert.False(File.Exists(_temp.PathOf("no.log")));
    }

    [Fact]
    public void AddMappedFile_Twice_WritesBothFiles()
    {
        Log(
            logging => logging.AddMappedFile(FilePath).AddMappedFile(options =>
            {
                options.Path = _temp.PathOf("app.json");
                options.Format = LogLineFormat.Json;
            }),
            logger => logger.LogInformation("both"));

        Assert.EndsWith(" both\n", File.ReadAllText(FilePath), StringComparison.Ordinal);
        Assert.StartsWith("{", File.ReadAllText(_temp.PathOf("app.json")), StringComparison.Ordinal);
    }

    /// <summary>Level, format, scopes, flushing and rolling, and the file itself: all of it while the application runs.</summary>
    [Fact]
    public void Reload_EverythingChanges_TheNextLineFollows()
    {
        Set(("Path", FilePath), ("LogLevel:Default", "Warning"));
        Log(Add, logger =>
        {
            using IDisposable? scope = logger.BeginScope("scope");
            logger.LogInformation("1");
            logger.LogWarning("2");
            Set(("LogLevel:Default", "Information"));
            logger.LogInformation("3");
            Set(("Format", "Json"), ("IncludeScopes", "true"));
            logger.LogInformation("4");
            Set(("Format", "Text"), ("File:RollLength", "10"), ("File:FlushInterval", "00:00:00.01"));
            logger.LogInformation("5");
            logger.LogInformation("6");
            Set(("File:RollLength", "0"), ("Path", _temp.PathOf("moved.log")));
            logger.LogInformation("7");
        });

        Assert.Empty(_errors);
        // The file that was written last under its name lies behind those that were rolled from it.
        string[] files =
        [
            .. Directory.GetFiles(_temp.StorePath, "*.log")
                .OrderBy(path => path.Replace("app.log", "app.~.log", StringComparison.Ordinal), StringComparer.Ordinal),
        ];
        string[] lines = [.. files.SelectMany(File.ReadAllLines)];
        Assert.Equal(
            ["2", "3", "\"scopes\":[\"scope\"]}", "[scope] 5", "[scope] 6", "[scope] 7"],
            lines.Select(line => line.StartsWith('{') ? line[line.IndexOf("\"scopes", StringComparison.Ordinal)..] : Tail(line)));
        Assert.True(files.Length >= 4);
        Assert.EndsWith("moved.log", files[^1], StringComparison.Ordinal);
    }

    /// <summary>
    /// A change that came while the file was opened, before the provider heard of changes, was missed until the next one.
    /// </summary>
    [Fact]
    public void Create_OptionsChangeMeanwhile_TheLastOnesCount()
    {
        using MappedFileLoggerProvider provider = new(new ChangingOptions(FilePath, _temp.PathOf("moved.log")), "");

        Assert.Equal(_temp.PathOf("moved.log"), provider.CurrentPath);
    }

    public static TheoryData<string, string> Wrong() => new()
    {
        { "Format", "Jsn" },
        { "RetryInterval", "5 seconds" },
        { "RetryInterval", "-1" },
        { "RetryInterval", "72" },
        { "Pth", "app.log" },
        { "File", "app.log" },
        { "File:BufferLength", "many" },
        { "File:BufferLength", "1" },
        { "File:Durability", "7" },
        { "File:UnixCreateMode", "9" },
        { "File:UnixCreateMode", "UserRead" },
        { "File:RollLenght", "1000" },
        { "RetryIntervall", "00:00:05" },
        { "Path", "" },
        { "Path", "/proc/no/such.log" },
    };

    /// <summary>A typing error in a file must not end a log that runs; at start it is the developer's to see.</summary>
    [Theory]
    [MemberData(nameof(Wrong))]
    public void Reload_WrongValue_IsReportedAndTheFormerSettingsStay(string key, string value)
    {
        Set(("Path", FilePath));
        Log(Add, logger =>
        {
            logger.LogInformation("before");
            Set((key, value), ("IncludeScopes", "true"));
            Exception error = Assert.Single(_errors);
            if (!(value is "1" or "") && key != "Path")
            {
                Assert.Contains($"cannot be used: Logging:MappedFile:{key} is ", error.Message, StringComparison.Ordinal);
                Assert.IsType<InvalidOperationException>(error);
            }

            // A key that no option has was ignored: the limit was simply not there.
            string? meant = key switch
            {
                "File:RollLenght" => "RollLength",
                "RetryIntervall" => "RetryInterval",
                "Pth" => "Path",
                _ => null,
            };
            if (meant is not null)
                Assert.Contains($"{key} is no option. Did you mean {meant}?", error.Message, StringComparison.Ordinal);

            using (logger.BeginScope("scope"))
                logger.LogInformation("behind");
        });

        Assert.Equal(["before", "behind"], File.ReadAllLines(FilePath).Select(Tail));
        Assert.ThrowsAny<Exception>(() => Log(Add, _ => { }));
    }

    private static IEnumerable<string> Names(Type type, string prefix) =>
        type.GetProperties(BindingFlags.Instance | BindingFlags.Public).Select(property => prefix + property.Name);

    private static string Tail(string line) => line[(line.IndexOf("] ", StringComparison.Ordinal) + 2)..];

    private void Add(ILoggingBuilder logging) => logging.AddMappedFile(options => options.OnError = _errors.Add);

    private void Set(params ReadOnlySpan<(string Key, string Value)> values)
    {
        foreach ((string key, string value) in values)
            _configuration["Logging:MappedFile:" + key] = value;
        _configuration.Reload();
    }

    private void Log(Action<ILoggingBuilder> add, Action<ILogger> call)
    {
        using ServiceProvider services = Services(add);
        call(services.GetRequiredService<ILoggerFactory>().CreateLogger("C"));
    }

    private ServiceProvider Services(Action<ILoggingBuilder> add) =>
        new ServiceCollection()
            .AddLogging(logging => add(logging.AddConfiguration(_configuration.GetSection("Logging"))))
            .BuildServiceProvider();

    /// <summary>Options that have another path each time that they are looked at; nobody is told.</summary>
    private sealed class ChangingOptions(params string[] paths) : IOptionsMonitor<MappedFileLoggerOptions>
    {
        private int _count;

        public MappedFileLoggerOptions CurrentValue => Get(null);

        public MappedFileLoggerOptions Get(string? name) => new() { Path = paths[_count++] };

        public IDisposable? OnChange(Action<MappedFileLoggerOptions, string?> listener) => null;
    }
}
