using System.Text;
using System.Text.Json;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>What an application logs is in the file, as the formatter of the framework would have said it.</summary>
public sealed class MappedFileLoggerTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();

    private string FilePath => _temp.PathOf("app.log");

    private string Now => _time.GetUtcNow().UtcDateTime.ToString("O");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Log_Text_LinesAreAsDescribed()
    {
        using (ILoggerFactory factory = Factory())
        {
            ILogger logger = factory.CreateLogger("Shop");
            logger.Started();
            logger.Came("Zoë", null);
            logger.Log(LogLevel.None, "nothing");
            logger.Many("1", "2", "3", "4", "5", 6, 7.126);
        }

        Assert.Equal(
            $"{Now} info Shop[1] Started\n{Now} warn Shop[2] User Zoë came from (null)\n{Now} dbug Shop[4] 1 2 3 4 5 6 7.13\n",
            File.ReadAllText(FilePath));
    }

    [Fact]
    public void Log_TextWithLineEndsAndException_OnlyEntriesBeginAtTheMargin()
    {
        InvalidOperationException error = new("first\r\nsecond");
        using (ILoggerFactory factory = Factory())
            factory.CreateLogger("Shop").LogError(error, "one\n{Two}\n", "2\n2");

        Assert.Equal(
            $"{Now} fail Shop[0] one\n    2\n    2\n    \n    System.InvalidOperationException: first\n    second\n",
            File.ReadAllText(FilePath));
    }

    [Fact]
    public void Log_Scopes_StandInTheLine()
    {
        using (ILoggerFactory factory = Factory(options => options.IncludeScopes = true))
        {
            ILogger logger = factory.CreateLogger("Shop");
            using (logger.BeginScope("Request {Id}", 7))
            using (logger.BeginScope("inner"))
                logger.Started();
            logger.Started();
        }

        Assert.Equal(
            $"{Now} info Shop[1] [Request 7 => inner] Started\n{Now} info Shop[1] Started\n", File.ReadAllText(FilePath));
    }

    [Fact]
    public void Log_Json_EachLineIsAnObjectWithItsValues()
    {
        InvalidOperationException error = new("oh \"no\"");
        using (ILoggerFactory factory = Factory(options =>
        {
            options.Format = LogLineFormat.Json;
            options.IncludeScopes = true;
        }))
        {
            ILogger logger = factory.CreateLogger("Shop");
            using (logger.BeginScope("Request {Id}", 7))
                logger.Took(error, 1234, "a\nb", TimeSpan.FromSeconds(1.5));
            logger.LogInformation("plain {Flag} {Guid} {Nan}", true, Guid.Empty, double.NaN);
        }

        string[] lines = File.ReadAllLines(FilePath);
        Assert.Equal(2, lines.Length);
        JsonElement first = JsonElement.Parse(lines[0]);
        Assert.Equal(_time.GetUtcNow(), first.GetProperty("time").GetDateTimeOffset());
        Assert.Equal("Error", first.GetProperty("level").GetString());
        Assert.Equal("Shop", first.GetProperty("category").GetString());
        Assert.Equal(3, first.GetProperty("id").GetInt32());
        Assert.Equal("Took", first.GetProperty("event").GetString());
        Assert.Equal(" 1,234 items of a\nb     | took 00:00:01.5000000", first.GetProperty("message").GetString());
        Assert.Equal("{Count,6:N0} items of {Kind,-8}| took {Time}", first.GetProperty("template").GetString());
        Assert.Equal(1234, first.GetProperty("values").GetProperty("Count").GetInt32());
        Assert.Equal("00:00:01.5000000", first.GetProperty("values").GetProperty("Time").GetString());
        JsonElement scope = Assert.Single(first.GetProperty("scopes").EnumerateArray());
        Assert.Equal("""{"message":"Request 7","template":"Request {Id}","values":{"Id":7}}""", scope.GetRawText());
        Assert.Equal(error.ToString(), first.GetProperty("exception").GetString());
        JsonElement second = JsonElement.Parse(lines[1]);
        Assert.True(second.GetProperty("values").GetProperty("Flag").GetBoolean());
        Assert.Equal("NaN", second.GetProperty("values").GetProperty("Nan").GetString());
        Assert.False(second.TryGetProperty("scopes", out _));
    }

    /// <summary>A level that is no defined one was an exception in the caller, or `crit`.</summary>
    [Theory]
    [InlineData(42)]
    [InlineData(-1)]
    public void Log_UndefinedLevel_StandsInTheLineAsANumber(int level)
    {
        foreach (LogLineFormat format in Enum.GetValues<LogLineFormat>())
        {
            using MappedFileLoggerProvider provider = new(
                new MappedFileLoggerOptions { Path = FilePath + format, Format = format, TimeProvider = _time });
            provider.CreateLogger("C").Log((LogLevel)level, "message");
        }

        Assert.Equal($"{Now} {level} C[0] message\n", File.ReadAllText(FilePath + LogLineFormat.Text));
        JsonElement line = JsonElement.Parse(File.ReadAllText(FilePath + LogLineFormat.Json));
        Assert.Equal($"{level}", line.GetProperty("level").GetString());
        Assert.Equal("message", line.GetProperty("message").GetString());
    }

    public static TheoryData<string, object?[]> Templates() => new()
    {
        { "no holes {{really}}", [] },
        { "no holes {{really}} {A}", [1] },
        { "{A} and {A}", [1, 2] },
        { "{A,8}|{B,-8}|{C,2}|", ["x", "ÿ", "long"] },
        { "{A:X4} {B:yyyy} {C:0.00}", [255, new DateTime(2026, 1, 2), 1.005m] },
        { "{A} {B} {C}", [null, LogLevel.Error, new[] { "p", null, "q" }] },
        { "{A} {B} {C} {D}", ['c', 1.5f, Guid.Empty, new Version(1, 2)] },
        { "{A} {B}", [DateTimeOffset.UnixEpoch, new Uri("http://x/y")] },
        { "{A}", [new string('ö', 5000)] },
        { "{A:D}", [DayOfWeek.Friday] },
        { "", [] },
        { "a }} brace {A} and {{ one", [1] },
    };

    /// <summary>The framework's own formatter is the oracle.</summary>
    [Theory]
    [MemberData(nameof(Templates))]
    public void Log_AnyTemplate_SaysWhatTheFormatterOfTheFrameworkSays(string template, object?[] values)
    {
        StringLogger expected = new();
        using (ILoggerFactory factory = Factory())
        {
            expected.LogInformation(template, values);
            factory.CreateLogger("C").LogInformation(template, values);
        }

        Assert.Equal($"{Now} info C[0] {expected.Text}\n", File.ReadAllText(FilePath));
    }

    [Fact]
    public void Log_FormatterOfSomebodyElse_IsAsked()
    {
        using (ILoggerFactory factory = Factory())
        {
            KeyValuePair<string, object?>[] state = [new("A", 1), new("{OriginalFormat}", "template {A}")];
            factory.CreateLogger("C").Log(LogLevel.Information, 0, state, null, static (_, _) => "my own words");
            factory.CreateLogger("C").Log<object>(LogLevel.Information, 0, state, null, static (_, _) => "and mine");
        }

        Assert.Equal($"{Now} info C[0] my own words\n{Now} info C[0] and mine\n", File.ReadAllText(FilePath));
    }

    [Theory]
    [InlineData(LogLineFormat.Text)]
    [InlineData(LogLineFormat.Json)]
    public void Log_GeneratedCallsWithReferences_AllocateNothing(LogLineFormat format)
    {
        using ILoggerFactory factory = Factory(options => options.Format = format);
        ILogger logger = factory.CreateLogger("Shop");
        const int Count = 2000;
        Log(logger, Count);
        // Beside other tests 1,656 bytes were seen, once, for 4,000 calls. What a call allocates is there each time.
        long least = Enumerable.Range(0, 5).Min(_ =>
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            Log(logger, Count);
            return GC.GetAllocatedBytesForCurrentThread() - before;
        });
        Assert.Equal(0, least);

        static void Log(ILogger logger, int count)
        {
            for (int i = 0; i < count; i++)
            {
                logger.Started();
                logger.Came("Alice", "Paris");
            }
        }
    }

    /// <summary>
    /// A value that is a struct costs the box that the interface asks for each time it is read, and nothing else.
    /// </summary>
    [Fact]
    public void Log_GeneratedCallsWithStructs_AllocateTheirBoxesOnly()
    {
        const int BoxesMax = 4 * 24;
        using ILoggerFactory factory = Factory();
        ILogger logger = factory.CreateLogger("Shop");
        const int Count = 2000;
        Log(logger, Count);
        long before = GC.GetAllocatedBytesForCurrentThread();
        Log(logger, Count);

        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, Count * BoxesMax);

        static void Log(ILogger logger, int count)
        {
            for (int i = 0; i < count; i++)
                logger.Took(null, i, "kind", TimeSpan.FromTicks(i));
        }
    }

    [Fact]
    public async Task Log_ManyThreadsAndValuesThatLog_EveryLineIsWhole()
    {
        const int ThreadCount = 4;
        const int LineCount = 2000;
        using (ILoggerFactory factory = Factory())
        {
            ILogger logger = factory.CreateLogger("C");
            await Task.WhenAll(Enumerable.Range(0, ThreadCount).Select(thread => Task.Run(() =>
            {
                for (int i = 0; i < LineCount; i++)
                    logger.LogInformation("{Thread} {Number} {Value} end", thread, i, new LogsItself(logger));
            })));
        }

        string head = $"{Now} info C[0] ";
        int[] next = new int[ThreadCount];
        int inner = 0;
        foreach (string line in File.ReadLines(FilePath))
        {
            Assert.StartsWith(head, line, StringComparison.Ordinal);
            string[] words = line[head.Length..].Split(' ');
            if (words is ["inner"])
            {
                inner++;
                continue;
            }

            Assert.Equal([words[0], $"{next[int.Parse(words[0])]++}", "itself", "end"], words);
        }

        Assert.All(next, count => Assert.Equal(LineCount, count));
        Assert.Equal(ThreadCount * LineCount, inner);
    }

    [Fact]
    public void Log_FileFails_ProgramGoesOnAndLogGoesOnLater()
    {
        FaultyDisk disk = new();
        List<Exception> errors = [];
        using MappedFileLoggerProvider provider = new(new MappedFileLoggerOptions
        {
            Path = FilePath,
            TimeProvider = _time,
            OnError = errors.Add,
            RetryInterval = TimeSpan.Zero,
        });
        ILogger logger = provider.CreateLogger("C");
        logger.LogInformation("before");
        provider.Flush(durable: true);
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Write)
                throw FaultyDisk.Broken(name);
        };
        logger.LogInformation("lost");
        provider.Flush();
        Assert.Single(errors);

        disk.Before = null;
        logger.LogInformation("behind");
        provider.Flush();

        Assert.Single(errors);
        string text = Encoding.UTF8.GetString(File.ReadAllBytes(FilePath));
        Assert.Equal($"{Now} info C[0] before\n{Now} info C[0] behind\n", text);
    }

    [Fact]
    public void Log_AfterDispose_IsDropped()
    {
        MappedFileLoggerProvider provider = new(new MappedFileLoggerOptions { Path = FilePath });
        ILogger logger = provider.CreateLogger("C");
        provider.Dispose();
        logger.LogInformation("late");

        Assert.Equal(1, provider.LostLineCount);
        Assert.Empty(File.ReadAllText(FilePath));
    }

    private ILoggerFactory Factory(Action<MappedFileLoggerOptions>? configure = null) =>
        LoggerFactory.Create(builder => builder.SetMinimumLevel(LogLevel.Trace).AddMappedFile(options =>
        {
            options.Path = FilePath;
            options.TimeProvider = _time;
            configure?.Invoke(options);
        }));

    private sealed class LogsItself(ILogger logger)
    {
        public override string ToString()
        {
            logger.LogInformation("inner");
            return "itself";
        }
    }

    private sealed class StringLogger : ILogger
    {
        public string Text { get; private set; } = "";

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            Text = formatter(state, exception);
    }
}
