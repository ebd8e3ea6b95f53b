using System.Collections;
using System.Globalization;
using System.Text;
using System.Text.Json;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tests.Files;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>
/// What the framework's own formatters say is what is in the file. Names with spaces came out as the hole itself, null and
/// arrays of generated methods and collections with a format of their own otherwise than anywhere else, and what dictionaries
/// hold not at all.
/// </summary>
public sealed class FrameworkReferenceTests : IDisposable
{
    private const int CallCount = 5000;

    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ManualTime _time = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>A failure names a seed; MFQ_SEED set to it makes that call alone.</summary>
    [Fact]
    public void Log_RandomCallsAndScopes_SaysWhatTheFrameworkSays()
    {
        int? only = int.TryParse(Environment.GetEnvironmentVariable("MFQ_SEED"), out int named) ? named : null;
        int first = only ?? Random.Shared.Next(int.MaxValue - CallCount);
        TestContext.Current.TestOutputHelper!.WriteLine($"seeds from {first}");
        using FrameworkFormatters framework = new();
        using (MappedFileLoggerProvider text = Open(LogLineFormat.Text, framework.Scopes))
        using (MappedFileLoggerProvider json = Open(LogLineFormat.Json, framework.Scopes))
        {
            // The scopes of the framework's logger are everybody's: they are opened by it alone.
            ILogger all = new EveryLogger(framework, text.CreateLogger("C"), json.CreateLogger("C"));
            for (int seed = first; seed < first + (only is null ? CallCount : 1); seed++)
            {
                framework.Seed = seed;
                new RandomLogCalls(seed).Run(all);
            }

            Assert.Equal((0, 0), (text.LostLineCount, json.LostLineCount));
        }

        CompareText(framework.Entries, File.ReadAllText(PathOf(LogLineFormat.Text)));
        CompareJson(framework.Entries, File.ReadAllLines(PathOf(LogLineFormat.Json)));
    }

    private static void CompareJson(List<FrameworkFormatters.Entry> entries, string[] lines)
    {
        Assert.Equal(entries.Count, lines.Length);
        foreach ((FrameworkFormatters.Entry entry, string text) in entries.Zip(lines))
        {
            JsonElement line = JsonElement.Parse(text);
            string message = line.GetProperty("message").GetString()!;
            if (entry.Message is null)
                Assert.True(message.Contains("Exception: ", StringComparison.Ordinal), $"seed {entry.Seed}: {message}");
            else
                AreEqual(entry.Seed, WithoutLoneSurrogates(entry.Message), message);
            if (entry.Json is not { } expected)
                continue;
            ComparePairs(
                entry.Seed, expected.TryGetProperty("State", out JsonElement state) ? state.EnumerateObject() : [], line);
            CompareScopes(entry, expected.GetProperty("Scopes"), line);
        }
    }

    private static void CompareScopes(FrameworkFormatters.Entry entry, JsonElement expected, JsonElement line)
    {
        JsonElement[] scopes = line.TryGetProperty("scopes", out JsonElement written) ? [.. written.EnumerateArray()] : [];
        Assert.Equal(expected.GetArrayLength(), scopes.Length);
        foreach ((JsonElement wanted, JsonElement scope, object? value) in expected.EnumerateArray().Zip(scopes, entry.Scopes))
        {
            if (scope.ValueKind == JsonValueKind.String)
            {
                AreEqual(entry.Seed, ScopeText(value), scope.GetString());
                continue;
            }

            // The framework gives a dictionary of other types as the name of its type.
            string? message = scope.TryGetProperty("message", out JsonElement said) ? said.GetString() : null;
            if (wanted.ValueKind == JsonValueKind.String)
            {
                Assert.True(value is IDictionary && message is null, $"seed {entry.Seed}: {scope}");
                continue;
            }

            string named = wanted.GetProperty("Message").GetString()!;
            AreEqual(entry.Seed, named == value!.GetType().ToString() ? null : named, message);
            ComparePairs(entry.Seed, wanted.EnumerateObject(), scope);
        }
    }

    private static void ComparePairs(int seed, IEnumerable<JsonProperty> expected, JsonElement line)
    {
        List<JsonProperty> wanted = [.. expected.Where(pair => pair.Name != "Message")];
        int template = wanted.FindLastIndex(pair => pair.Name == "{OriginalFormat}");
        if (template >= 0)
        {
            AreEqual(seed, wanted[template].Value.GetString(), line.GetProperty("template").GetString());
            wanted.RemoveAt(template);
        }

        JsonProperty[] written = line.TryGetProperty("values", out JsonElement values) ? [.. values.EnumerateObject()] : [];
        AreEqual(seed, string.Join('|', wanted.Select(pair => pair.Name)), string.Join('|', written.Select(pair => pair.Name)));
        foreach ((JsonProperty want, JsonProperty have) in wanted.Zip(written))
        {
            // Where the framework gives the name of a collection's type, the items are here, as in a message; and no text for
            // what has none.
            bool isTypeName = want.Value.ValueKind == JsonValueKind.String && IsNameOfCollection(want.Value.GetString()!);
            bool isNothing = want.Value.ValueKind == JsonValueKind.Null && have.Value.GetRawText() == "\"\"";
            if (!isTypeName && !isNothing)
                AreEqual(seed, want.Value.GetRawText(), Reescaped(have.Value, want.Value));
        }
    }

    private void CompareText(List<FrameworkFormatters.Entry> entries, string text)
    {
        string head = _time.GetUtcNow().UtcDateTime.ToString("O") + " info ";
        string[] written = text.Split("\n" + head);
        written[0] = written[0][head.Length..];
        written[^1] = written[^1][..^1];
        Assert.Equal(entries.Count, written.Length);
        foreach ((FrameworkFormatters.Entry entry, string line) in entries.Zip(written))
        {
            List<string?> scopes = [.. entry.Scopes.Select(ScopeText)];
            string start = scopes.Count > 0 ? $"C[0] [{string.Join(" => ", scopes)}] " : "C[0] ";
            if (entry.Message is not null && !scopes.Contains(null))
                AreEqual(entry.Seed, Escaped(start + WithoutLoneSurrogates(entry.Message)), line);
            else
                Assert.Contains("Exception: ", line, StringComparison.Ordinal);
        }
    }

    /// <summary>
    /// What the console writes for a scope; where that is the name of a type, what is in it; null where the framework throws.
    /// </summary>
    private static string? ScopeText(object? scope)
    {
        if (scope is not IEnumerable or string)
            return FrameworkFormatters.TextOf(scope) is { } single ? WithoutLoneSurrogates(single) : null;
        try
        {
            if (scope.ToString() is { } text && text != scope.GetType().ToString())
                return WithoutLoneSurrogates(text);
        }
        catch (Exception)
        {
            return null;
        }

        List<string>? pairs = (scope as IEnumerable<KeyValuePair<string, object?>>)?
            .Select(pair => $"{pair.Key}={FrameworkFormatters.TextOf(pair.Value)}").ToList();
        if (pairs is null && scope is IDictionary others)
        {
            pairs = [];
            foreach (DictionaryEntry entry in others)
                pairs.Add($"{entry.Key}={FrameworkFormatters.TextOf(entry.Value)}");
        }

        return WithoutLoneSurrogates(pairs is null ? FrameworkFormatters.TextOf(scope)! : string.Join(", ", pairs));
    }

    private static string Escaped(string text)
    {
        StringBuilder escaped = new();
        text = text.TrimEnd('\r', '\n').Replace("\r\n", "\n", StringComparison.Ordinal);
        foreach (char letter in text)
        {
            if (letter == '\n')
                escaped.Append("\n    ");
            else if ((char.IsControl(letter) && letter != '\t') || letter is '\u00ad' or '\u061c' or '\ufeff'
                or (>= '\u200b' and <= '\u200f') or (>= '\u2028' and <= '\u202e') or (>= '\u2060' and <= '\u206f'))
                escaped.Append(CultureInfo.InvariantCulture, $"\\u{(int)letter:X4}");
            else
                escaped.Append(letter);
        }

        return escaped.ToString();
    }

    private static string WithoutLoneSurrogates(string text) => Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(text));

    private static bool IsNameOfCollection(string text) =>
        text.StartsWith("formatted ", StringComparison.Ordinal) || (text.StartsWith("System.", StringComparison.Ordinal)
            && (text.EndsWith(']') || text.EndsWith("Hashtable", StringComparison.Ordinal)));

    /// <summary>The value in the other's way of escaping: both writers have theirs.</summary>
    private static string Reescaped(JsonElement value, JsonElement other) =>
        (value.ValueKind, other.ValueKind) == (JsonValueKind.String, JsonValueKind.String) && other.ValueEquals(value.GetString())
            ? other.GetRawText()
            : value.GetRawText();

    private static void AreEqual(int seed, string? expected, string? actual) =>
        Assert.True(expected == actual, $"seed {seed}:\nexpected {expected}\nactual   {actual}");

    private string PathOf(LogLineFormat format) => _temp.PathOf($"{format}.log");

    private MappedFileLoggerProvider Open(LogLineFormat format, IExternalScopeProvider scopes)
    {
        MappedFileLoggerProvider provider = new(new MappedFileLoggerOptions
        {
            Path = PathOf(format),
            Format = format,
            IncludeScopes = true,
            TimeProvider = _time,
        });
        provider.SetScopeProvider(scopes);
        return provider;
    }

    /// <summary>Hands each call to all; scopes are the first one's.</summary>
    private sealed class EveryLogger(params ILogger[] loggers) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => loggers[0].BeginScope(state);

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            foreach (ILogger logger in loggers)
                logger.Log(logLevel, eventId, state, exception, formatter);
        }
    }
}
