using System.CommandLine.Parsing;
using System.Globalization;
using MappedFileQueues.Hosting.Settings;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// Options and arguments whose values are checked when the command line is parsed. A wrong value is a usage error, which names
/// the option and the values that it accepts.
/// </summary>
internal static class ToolOptions
{
    private const string TimeForm = $"a time such as {Quantities.TimeForms}";

    /// <summary>How much of a wrong value an error shows: as much as the longest name.</summary>
    private const int ShownMax = 100;

    private static readonly TimeSpan s_waitMax = TimeSpan.FromHours(24);

    /// <summary>True if the option is given; takes no value.</summary>
    public static Option<bool> Flag(string name, string description) =>
        new(name) { Description = description, Arity = ArgumentArity.Zero };

    /// <summary>An option with a form of its own, which an error tells; a text that is no value parses as null.</summary>
    public static Option<T> Value<T>(
        string name, string description, string helpName, string expected, Func<string, T?> parse) =>
        new(name)
        {
            Description = description,
            HelpName = helpName,
            CustomParser = result => Parse(result, expected, parse),
        };

    /// <summary>The same, which may be repeated.</summary>
    public static Option<string[]> Values(
        string name, string description, string helpName, string expected, Func<string, string?> parse) =>
        new(name)
        {
            Description = description,
            HelpName = helpName,
            CustomParser = result => ParseAll(result, expected, parse),
        };

    /// <summary>An argument with a form of its own.</summary>
    public static Argument<string> ValueArgument(
        string name, string description, string expected, Func<string, string?> parse) =>
        new(name) { Description = description, CustomParser = result => Parse(result, expected, parse) };

    /// <summary>A whole number within limits.</summary>
    public static Option<long?> Number(string name, string description, long min, long max, string unit = "N") => Value(
        name, description, unit, $"a whole number from {min} to {max}",
        text => long.TryParse(text, out long number) && number >= min && number <= max ? (long?)number : null);

    /// <summary>How many times as fast: more than zero, with or without an x after it.</summary>
    public static Option<double?> Factor(string name, string description) => Value(
        name, description, "FACTOR", "a number above 0, such as 10x or 0.5x",
        text => double.TryParse(text.EndsWith('x') ? text[..^1] : text, NumberStyles.AllowDecimalPoint,
            CultureInfo.InvariantCulture, out double factor) && factor > 0 && double.IsFinite(factor) ? (double?)factor : null);

    /// <summary>A length in bytes within limits, also written as 64MiB or 64M.</summary>
    public static Option<long?> Size(string name, string description, long min, long max = long.MaxValue) => Value(
        name, description, "BYTES", $"a length from {min} to {max} bytes, such as {Quantities.LengthForms}",
        text => Quantities.TryParseLength(text, out long length) && length >= min && length <= max ? (long?)length : null);

    /// <summary>The length of a new store's segments.</summary>
    public static Option<long?> SegmentSize(string when = "") => Size(
        "--segment-size",
        $"The length of a segment file of a new store{when}, in whole pages; the longest message is 8 bytes shorter.",
        1, StoreMeta.SegmentLengthMax);

    /// <summary>A time with its unit, or `infinite`.</summary>
    public static Option<TimeSpan?> Duration(string name, string description) =>
        Value(name, description, "TIME", $"{TimeForm}, or {Quantities.Infinite}", ParseTime);

    /// <summary>A limit of time: more than zero, or `infinite`.</summary>
    public static Option<TimeSpan?> Limit(string name, string description) => Value(
        name, description, "TIME", $"{TimeForm}, more than 0, or {Quantities.Infinite}",
        text => ParseTime(text) is { } time && time != TimeSpan.Zero ? (TimeSpan?)time : null);

    /// <summary>A time that the command itself waits: it has an end, within what one wait of the system takes.</summary>
    public static Option<TimeSpan?> Wait(string name, string description) => Value(
        name, description, "TIME", $"{TimeForm}, at most 24h",
        text => ParseTime(text) is { } time && time >= TimeSpan.Zero && time <= s_waitMax ? (TimeSpan?)time : null);

    /// <summary>One of several words; the first is the default.</summary>
    public static Option<string> OneOf(string name, string description, params string[] words)
    {
        Option<string> option = Value(
            name, description, string.Join('|', words), $"one of {string.Join(", ", words)}",
            text => words.Contains(text) ? text : null);
        option.DefaultValueFactory = _ => words[0];
        option.CompletionSources.Add(words);
        return option;
    }

    /// <summary>A place in the log: an offset, the number of a message, a time, or one of two words.</summary>
    public static Option<QueueStart?> Place(string name, string description, string earliest, string latest) => Value(
        name, $"{description} #NUMBER is a message's number from 0 on; a TIME is such as 2026-01-31T12:00Z, and nothing of it or "
            + "later is missed.",
        $"{earliest}|{latest}|OFFSET|#NUMBER|TIME",
        $"an offset, #NUMBER, a time such as 2026-01-31T12:00Z, {earliest} or {latest}",
        text => text == earliest ? QueueStart.Earliest
            : text == latest ? QueueStart.Latest
            : ParseOffset(text) is { } offset ? QueueStart.FromOffset(offset)
            : text.StartsWith('#') && ParseOffset(text[1..]) is { } number ? QueueStart.FromMessage(number)
            : ParseDate(text) is { } time ? (QueueStart?)QueueStart.FromTime(time) : null);

    /// <summary>A time in UTC, or with its difference, that begins with the year; null for another text.</summary>
    public static DateTimeOffset? ParseDate(string text) =>
        text is [_, _, _, _, '-', ..] && DateTimeOffset.TryParse(
            text, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out DateTimeOffset time) ? time : null;

    /// <summary>The offset that a text says; null for another text.</summary>
    public static long? ParseOffset(string text) =>
        long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long offset) ? offset : null;

    /// <summary>The path of a file or directory, which need not exist.</summary>
    public static Option<string?> Path(string name, string description, string helpName) =>
        Value(name, description, helpName, "a path", ParsePath)!;

    /// <summary>The path of the file or directory that the command works on.</summary>
    public static Argument<string> PathArgument(string name, string description) =>
        ValueArgument(name, description, "a path", ParsePath);

    /// <summary>A store that the command never makes.</summary>
    public static Argument<string> Store(string description = "The store's directory; it is never created.") =>
        PathArgument("STORE", description);

    /// <summary>The paths of one or more files or directories.</summary>
    public static Argument<string[]> PathArguments(string name, string description) => new(name)
    {
        Description = description,
        Arity = ArgumentArity.OneOrMore,
        CustomParser = result => ParseAll(result, "a path", ParsePath),
    };

    private static T? Parse<T>(ArgumentResult result, string expected, Func<string, T?> parse) =>
        Parse(result, result.Tokens is [{ Value: { } text }] ? text : "", expected, parse);

    private static string[] ParseAll(ArgumentResult result, string expected, Func<string, string?> parse) =>
        [.. result.Tokens.Select(token => Parse(result, token.Value, expected, parse) ?? "")];

    private static T? Parse<T>(ArgumentResult result, string text, string expected, Func<string, T?> parse)
    {
        if (parse(text) is { } value)
            return value;
        string name = result.Parent is OptionResult option ? option.Option.Name : result.Argument.Name;
        string shown = text.Length <= ShownMax ? text : $"{text[..ShownMax]}…";
        result.AddError($"{name} is {expected}, not '{shown}'.");
        return default;
    }

    private static string? ParsePath(string text) => string.IsNullOrWhiteSpace(text) ? null : text;

    private static TimeSpan? ParseTime(string text) => Quantities.TryParseTime(text, out TimeSpan time) ? time : null;
}
