using System.Collections;
using System.Text;
using System.Text.Json;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>Whatever is logged: a call never throws for it, no value is lost, and nothing in it passes for a line.</summary>
public sealed class LogDataTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();

    private string FilePath => _temp.PathOf("app.log");

    private string Head => _time.GetUtcNow().UtcDateTime.ToString("O") + " info C[0] ";

    public void Dispose() => _temp.Dispose();

    /// <summary>A name that is null was an exception of the JSON writer in the program that logs.</summary>
    [Fact]
    public void Log_NullKey_StandsInTheLine()
    {
        KeyValuePair<string, object?>[] state = [new(null!, 1), new("b", 2)];
        string line = Json(logger =>
        {
            using (logger.BeginScope(state))
                logger.Log(LogLevel.Information, 0, state, null, static (_, _) => "message");
        });

        Assert.EndsWith(
            """message","values":{"(null)":1,"b":2},"scopes":[{"values":{"(null)":1,"b":2}}]}""", line, StringComparison.Ordinal);
        Assert.Equal(Head + "[(null)=1, b=2] message\n", Text(logger =>
        {
            using (logger.BeginScope(state))
                logger.Log(LogLevel.Information, 0, state, null, static (_, _) => "message");
        }));
    }

    /// <summary>A dictionary as scope was the name of its type, and one as state lost what it held.</summary>
    [Fact]
    public void Log_Dictionaries_KeepTheirValues()
    {
        Dictionary<string, object?> state = new() { ["Id"] = 7, ["Who"] = "Zoë" };
        Dictionary<string, int> scope = new() { ["Tenant"] = 1 };

        string line = Json(Call);
        Assert.EndsWith(
            """message","values":{"Id":7,"Who":"Zoë"},"scopes":[{"values":{"Tenant":1}},{"values":{"Id":7,"Who":"Zoë"}}]}""",
            line,
            StringComparison.Ordinal);
        Assert.Equal(Head + "[Tenant=1 => Id=7, Who=Zoë] message\n", Text(Call));

        void Call(ILogger logger)
        {
            using (logger.BeginScope(scope))
            using (logger.BeginScope(state))
                logger.Log(LogLevel.Information, 0, state, null, static (_, _) => "message");
        }
    }

    /// <summary>
    /// Logs are read in terminals and taken apart line by line: with a carriage return or ESC in a value one could write over
    /// what is there, and with a line end begin an entry of one's own.
    /// </summary>
    [Fact]
    public void Log_ControlCharactersInTextLines_AreEscapedOrIndented()
    {
        using (MappedFileLoggerProvider provider = Open(LogLineFormat.Text))
        {
            provider.CreateLogger("Cat\negory\u001b").LogInformation(
                "{Value}",
                "tab\tESC\u001b[2J CR\r CRLF\r\nLF\nNEL\u0085 LS\u2028 CSI\u009b RLO\u202e NUL\0 DEL\u007f"
                    + " SHY\u00ad ALM\u061c WJ\u2060 BOM\ufeff · ، é … 😀"

                    // Tags, the usual carrier of hidden text, and others was there as they are.
                    + " TAG\U000E0041 MVS\u180e IAA\ufff9 HF\u3164 CGJ\u034f VS❤\ufe0f ﷽ あ");
        }

        Assert.Equal(
            Head[..^5] + "Cat\n    egory\\u001B[0] tab\tESC\\u001B[2J CR\\u000D CRLF\n    LF\n    NEL\\u0085 LS\\u2028 CSI\\u009B"
                + " RLO\\u202E NUL\\u0000 DEL\\u007F SHY\\u00AD ALM\\u061C WJ\\u2060 BOM\\uFEFF · ، é … 😀"
                + " TAG\\U000E0041 MVS\\u180E IAA\\uFFF9 HF\\u3164 CGJ\\u034F VS❤\ufe0f ﷽ あ\n",
            File.ReadAllText(FilePath));
    }

    public static TheoryData<string> Throwers() =>
        ["value", "item", "format", "count", "formatter", "exception", "scope", "list", "scope list", "key"];

    /// <summary>What the framework's providers let through to the program is in the line, beside what could be had.</summary>
    [Theory]
    [MemberData(nameof(Throwers))]
    public void Log_SomethingThrows_TheLineSaysSo(string what)
    {
        foreach (LogLineFormat format in Enum.GetValues<LogLineFormat>())
        {
            string text = Written(format, logger =>
            {
                Log(logger, what);
                logger.LogInformation("behind");
            });
            string[] lines =
                text.Replace("\n    ", " ", StringComparison.Ordinal).Split('\n', StringSplitOptions.RemoveEmptyEntries);
            Assert.Equal(2, lines.Length);

            // What a state holds that has a message of its own is not asked for in text.
            if (what != "list" || format == LogLineFormat.Json)
                Assert.Contains("Exception", lines[0], StringComparison.Ordinal);
            Assert.Contains("behind", lines[1], StringComparison.Ordinal);
            if (what is "value" or "item" or "format" or "scope" or "scope list" or "exception")
                Assert.Contains("kept", lines[0], StringComparison.Ordinal);
            if (format == LogLineFormat.Json)
                Assert.Equal("C", JsonElement.Parse(lines[0]).GetProperty("category").GetString());
        }
    }

    /// <summary>
    /// A logger around another that changes the message hands on the generated state with a formatter of its own; the message was
    /// made from the template all the same.
    /// </summary>
    [Fact]
    public void Log_DecoratedGeneratedCall_SaysWhatTheDecoratorSays() =>
        Assert.Equal(
            Head.Replace("info C[0]", "dbug C[4]", StringComparison.Ordinal) + "[masked] 1 2 3 4 5 6 7.00\n",
            Text(logger => new Masking(logger).Many("1", "2", "3", "4", "5", 6, 7)));

    /// <summary>A formatter that says nothing, and no exception: the framework writes no line either.</summary>
    [Fact]
    public void Log_NoMessage_IsNoLine() =>
        Assert.Equal("", Text(logger => logger.Log(LogLevel.Information, 0, 1, null, static (_, _) => null!)));

    private static void Log(ILogger logger, string what)
    {
        Exception? error = what == "exception" ? new ThrowingException() : null;
        object? scope = what switch { "scope" => new Thrower(), "scope list" => new ThrowingList(), _ => null };
        using IDisposable? opened = scope is null ? null : logger.BeginScope(scope);
        switch (what)
        {
            case "value":
                logger.LogInformation("{A} kept {B}", new Thrower(), 1);
                break;
            case "item":
                logger.LogInformation("{A} kept", [new object?[] { 1, new Thrower() }]);
                break;
            case "format":
                logger.LogInformation("{A:Q} {B}", 1, "kept");
                break;
            case "count":
                logger.LogInformation("{A} {B}", [1]);
                break;
            case "formatter":
                logger.Log(LogLevel.Information, 0, 1, null, static (_, _) => throw new InvalidOperationException("Mine."));
                break;
            case "list":
                logger.Log(LogLevel.Information, 0, new ThrowingList(), null, static (_, _) => "message");
                break;
            case "key":
                Hashtable keys = new() { [new Thrower()] = 1 };
                logger.Log(LogLevel.Information, 0, keys, null, static (state, _) => $"{state.Keys.Cast<object>().Single()}");
                break;
            default:
                logger.LogInformation(error, "kept");
                break;
        }
    }

    private string Text(Action<ILogger> call) => Written(LogLineFormat.Text, call);

    private string Json(Action<ILogger> call) => Written(LogLineFormat.Json, call).TrimEnd();

    private string Written(LogLineFormat format, Action<ILogger> call)
    {
        using (MappedFileLoggerProvider provider = Open(format))
            call(provider.CreateLogger("C"));
        return Encoding.UTF8.GetString(File.ReadAllBytes(FilePath));
    }

    private MappedFileLoggerProvider Open(LogLineFormat format) => new(new MappedFileLoggerOptions
    {
        Path = FilePath,
        Format = format,
        IncludeScopes = true,
        TimeProvider = _time,
        File = new MappedFileQueues.Files.AppendFileOptions { Append = false },
    });

    private sealed class Thrower
    {
        public override string ToString() => throw new InvalidOperationException("No text.");
    }

    private sealed class ThrowingException : Exception
    {
        public override string Message => throw new InvalidOperationException("No message.");

        public override string ToString() => throw new InvalidOperationException("No text.");
    }

    private sealed class ThrowingList : IReadOnlyList<KeyValuePair<string, object?>>
    {
        public int Count => 2;

        public KeyValuePair<string, object?> this[int index] => throw new InvalidOperationException("No value.");

        public IEnumerator<KeyValuePair<string, object?>> GetEnumerator() => throw new InvalidOperationException("No values.");

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
    }

    private sealed class Masking(ILogger inner) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => inner.BeginScope(state);

        public bool IsEnabled(LogLevel logLevel) => inner.IsEnabled(logLevel);

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            inner.Log(logLevel, eventId, state, exception, (state, exception) => "[masked] " + formatter(state, exception));
    }
}
