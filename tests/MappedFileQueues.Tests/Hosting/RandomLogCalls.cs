using System.Collections;
using System.Globalization;
using System.Numerics;
using System.Text;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>Log calls of all kinds with values of all kinds; the same for the same seed.</summary>
internal sealed partial class RandomLogCalls(int seed)
{
    private static readonly string[] s_texts =
    [
        "", " ", "text", "Zoë", "日本", "😀", "\"quoted\" \\", "ÂÄâ…€•", "\ufeff", "\uffff", "x\ud800y", "x\udc00y",
        "a\nb", "a\r\nb", "\r", "\t", "\u001b[31mred", "\u0000", "\u007f", "\u0085", "\u009b2J",
        "\u200b", "\u200d", "\u202e", "\u2028", "\u2029", "\u2066", "\u2060", "\u206f", "\u2070", "\u00ad", "\u061c",
        "2026-01-31T12:00:00.0000000Z info C[0] forged", new string('ö', 700),
    ];

    private static readonly string[] s_names =
        ["A", "Name", " Name ", "name", "a b", "0", "", "@Object", "Имя", "A}}B", "{OriginalFormat", "\n"];

    private static readonly string[] s_alignments = ["", "", "", ",5", ",-8", ", 12 ", ", -3", ",0", ",007"];

    private static readonly string[] s_formats = ["", "", "", ":", ":X", ":N0", ":G", ":O", ":D", ":yyyy-MM-dd", ":0.00", ":c"];

    private readonly Random _random = new(seed);

    private static readonly Action<ILogger, object?, Exception?> s_one =
        LoggerMessage.Define<object?>(LogLevel.Information, 0, "{{one}} { Value ,6:N1}");

    private static readonly Action<ILogger, string?, int, DateTime, Exception?> s_three =
        LoggerMessage.Define<string?, int, DateTime>(LogLevel.Information, 0, "{Text,-6}|{Number:X}|{Time:O} {{");

    private static readonly Action<ILogger, Exception?> s_none = LoggerMessage.Define(LogLevel.Information, 0, "{{none}}");

    private static readonly Func<ILogger, object?, string?, IDisposable?> s_scope =
        LoggerMessage.DefineScope<object?, string?>("scope {Object} of { Text }");

    /// <summary>Opens some scopes, makes one call, and closes them.</summary>
    public void Run(ILogger logger)
    {
        Stack<IDisposable?> opened = new();
        for (int count = _random.Next(3); count > 0; count--)
            Scope(logger, opened);
        Call(logger);
        foreach (IDisposable? scope in opened)
            scope?.Dispose();
    }

    [LoggerMessage(0, LogLevel.Information, "{{{A}}} {B,8} {C:N0} {D} {E,-4}| {F} {G:0.0} {A}")]
    private static partial void Many(
        ILogger logger, string? a, object? b, int c, int[]? d, object? e, IEnumerable<string?>? f, double g);

    [LoggerMessage(0, LogLevel.Information, "{Second} {First} {{}}")]
    private static partial void Swapped(ILogger logger, string? first, object? second);

    [LoggerMessage(0, LogLevel.Information, "{{}}")]
    private static partial void Nothing(ILogger logger);

    private void Scope(ILogger logger, Stack<IDisposable?> opened)
    {
        Dictionary<string, object?> pairs = Pairs();
        Try(() => opened.Push(_random.Next(8) switch
        {
            0 => logger.BeginScope(Text() ?? "scope"),
            1 => LoggerExtensions.BeginScope(logger, "scope " + Template(out object?[] values), values),
            2 => logger.BeginScope(pairs),
            3 => logger.BeginScope(pairs.ToList()),
            4 => logger.BeginScope(pairs.ToArray()),
            5 => s_scope(logger, Value(), Text()),
            6 => logger.BeginScope(new NamedPairs(pairs)),
            _ => logger.BeginScope(Value() ?? 7),
        }));
    }

    private void Call(ILogger logger)
    {
        Dictionary<string, object?> pairs = Pairs();
        string? text = Text();
        switch (_random.Next(14))
        {
            case 0:
                s_one(logger, Value(), null);
                break;
            case 1:
                s_three(logger, text, _random.Next(), DateTime.UnixEpoch.AddSeconds(_random.Next()), null);
                break;
            case 2:
                s_none(logger, null);
                break;
            case 3:
                int[]? numbers = _random.Next(3) == 0 ? null : [1, -2, _random.Next()];
                string?[]? texts = _random.Next(3) == 0 ? null : [Text(), null];
                Many(logger, text, Value(), _random.Next(), numbers, Value(), texts, _random.Next() / 7.0);
                break;
            case 4:
                Swapped(logger, text, Value());
                break;
            case 5:
                Nothing(logger);
                break;
            case 6:
                logger.Log(LogLevel.Information, 0, pairs, null, static (state, _) => $"{state.Count} pairs");
                break;
            case 7:
                logger.Log<object>(LogLevel.Information, 0, pairs.ToList(), null, static (_, _) => "a list");
                break;
            case 8:
                logger.Log(LogLevel.Information, 0, pairs.ToArray(), null, (_, _) => text ?? "an array");
                break;
            case 9:
                logger.Log(LogLevel.Information, 0, new NamedPairs(pairs), null, static (state, _) => $"{state}");
                break;
            case 10:
                logger.Log(LogLevel.Information, 0, Value(), null, (_, _) => text ?? "anything");
                break;
            case 11:
                Try(() => new Decorator(logger).LogInformation(Template(out object?[] values), values));
                break;
            default:
                Try(() => logger.LogInformation(Template(out object?[] values), values));
                break;
        }
    }

    /// <summary>What is no template at all throws in the caller, before any logger is asked.</summary>
    private static void Try(Action call)
    {
        try
        {
            call();
        }
        catch (FormatException)
        {
        }
    }

    private string Template(out object?[] values)
    {
        StringBuilder template = new();
        int holes = 0;
        for (int count = _random.Next(6); count > 0; count--)
        {
            switch (_random.Next(5))
            {
                case 0:
                    template.Append(Pick("{{", "}}", "{{{{", "}}{{"));
                    break;
                case 1:
                    template.Append(Pick(s_texts));
                    break;
                default:
                    template.Append('{').Append(Pick(s_names)).Append(Pick(s_alignments)).Append(Pick(s_formats)).Append('}');
                    holes++;
                    break;
            }
        }

        if (_random.Next(20) == 0)
            template.Append(Pick("{", "}", "{A", "{A}}"));
        int missing = _random.Next(20) == 0 ? 1 : 0;
        values = [.. Enumerable.Range(0, Math.Max(0, holes + _random.Next(20) / 19 - missing)).Select(_ => Value())];
        return template.ToString();
    }

    private Dictionary<string, object?> Pairs()
    {
        Dictionary<string, object?> pairs = [];
        for (int count = _random.Next(4); count > 0; count--)
            pairs[Pick("Id", "a b", "Имя", "\u001b", "x\ud800y", "")] = Value();
        if (_random.Next(4) == 0)
            pairs["{OriginalFormat}"] = "{Id} of pairs";
        return pairs;
    }

    private string? Text() => _random.Next(8) == 0 ? null : Pick(s_texts);

    private T Pick<T>(params T[] from) => from[_random.Next(from.Length)];

    private object? Value() => _random.Next(40) switch
    {
        0 => null,
        1 => _random.Next(2) == 0,
        2 => (byte)_random.Next(256),
        3 => (sbyte)_random.Next(-128, 128),
        4 => (short)_random.Next(short.MinValue, short.MaxValue),
        5 => (ushort)_random.Next(ushort.MaxValue),
        6 => _random.Next(),
        7 => (uint)_random.Next() * 2,
        8 => _random.NextInt64(),
        9 => (ulong)_random.NextInt64() * 2,
        10 => Pick(0.0, -0.0, 1.5, Math.PI * 1e100, double.Epsilon, double.NaN, double.PositiveInfinity, 1e16),
        11 => Pick(0f, 1.1f, float.MaxValue, float.NegativeInfinity),
        12 => Pick(0m, 1.10m, decimal.MinValue, 79228162514264337593543950335m),
        13 => Pick('a', '\n', '\u001b', 'ö', '\ud800', '\udfff', '\0'),
        14 => new DateTime(_random.NextInt64(DateTime.MaxValue.Ticks), Pick(DateTimeKind.Utc, DateTimeKind.Unspecified)),
        15 => new DateTimeOffset(_random.NextInt64(DateTime.MaxValue.Ticks / 2), TimeSpan.FromHours(_random.Next(-9, 9))),
        16 => DateOnly.FromDayNumber(_random.Next(DateOnly.MaxValue.DayNumber)),
        17 => new TimeOnly(_random.NextInt64(TimeOnly.MaxValue.Ticks)),
        18 => TimeSpan.FromTicks(_random.NextInt64(long.MinValue, long.MaxValue)),
        19 => new Guid(_random.Next(), 1, 2, [1, 2, 3, 4, 5, 6, 7, 8]),
        20 => Pick<object>(DayOfWeek.Friday, (DayOfWeek)77, UnixFileMode.UserRead | UnixFileMode.UserWrite, (UnixFileMode)(-1)),
        21 => Pick<object>(new Uri("http://x/y?ö"), new Version(1, 2), typeof(List<int>), new StringBuilder("built\n")),
        22 => Pick<object>(BigInteger.Pow(7, 900), (Half)1.5, Int128.MaxValue, new Rune(0x1F600), (1, "two"), new { A = 1 }),
        23 => new int[] { 1, -2, _random.Next() },
        24 => new object?[] { null, "x", 1.5, 'c', new[] { 1, 2 }, new DateTime(2026, 1, 2) },
        25 => new[] { new[] { 1, 2 }, [3] },
        26 => new List<string?> { Text(), null, Text() },
        27 => new Dictionary<string, object?> { ["a"] = 1, ["b"] = null },
        28 => new Dictionary<string, int> { ["a"] = 1 },
        29 => new Hashtable { [Text() ?? "k"] = Text() },
        30 => new FormattableItems([1, 2, 3]),
        31 => new OwnFormat(Text() ?? "-"),
        32 => new OwnSpanFormat(Text() ?? "-"),
        33 => new Utf8Only(),
        34 => new SaysNothing(),
        35 => new FormatException("an exception as a value\n"),
        36 => Array.Empty<int>(),
        _ => Text(),
    };

    /// <summary>A collection that has a format, which the framework does not ask.</summary>
    private sealed class FormattableItems(int[] items) : IEnumerable<int>, IFormattable
    {
        public IEnumerator<int> GetEnumerator() => ((IEnumerable<int>)items).GetEnumerator();

        public string ToString(string? format, IFormatProvider? formatProvider) => $"formatted {format}";

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
    }

    /// <summary>No format is null in some places of the framework and empty in others: types take both for the same.</summary>
    private sealed class OwnFormat(string text) : IFormattable
    {
        public string ToString(string? format, IFormatProvider? formatProvider) =>
            $"{text}/{(string.IsNullOrEmpty(format) ? "none" : format)}/{(formatProvider as CultureInfo)?.Name}";
    }

    private readonly struct OwnSpanFormat(string text) : ISpanFormattable
    {
        public string ToString(string? format, IFormatProvider? formatProvider) => $"{text}/{format}";

        public bool TryFormat(Span<char> destination, out int written, ReadOnlySpan<char> format, IFormatProvider? provider) =>
            destination.TryWrite($"{text}/{format}", out written);
    }

    /// <summary>Only a type with IFormattable is asked for its format.</summary>
    private sealed class Utf8Only : IUtf8SpanFormattable
    {
        public override string ToString() => "as chars";

        public bool TryFormat(Span<byte> destination, out int written, ReadOnlySpan<char> format, IFormatProvider? provider)
        {
            "as bytes"u8.CopyTo(destination);
            written = 8;
            return true;
        }
    }

    private sealed class SaysNothing
    {
        public override string? ToString() => null;
    }

    /// <summary>A scope or state with names and values that has something to say by itself too.</summary>
    private sealed class NamedPairs(Dictionary<string, object?> pairs) : IReadOnlyCollection<KeyValuePair<string, object?>>
    {
        public int Count => pairs.Count;

        public IEnumerator<KeyValuePair<string, object?>> GetEnumerator() => pairs.GetEnumerator();

        public override string ToString() => $"named {pairs.Count}";

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
    }

    /// <summary>A logger around another that says more than the formatter it was given.</summary>
    private sealed class Decorator(ILogger inner) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => inner.BeginScope(state);

        public bool IsEnabled(LogLevel logLevel) => inner.IsEnabled(logLevel);

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            inner.Log(logLevel, eventId, state, exception, (state, exception) => "decorated " + formatter(state, exception));
    }
}
