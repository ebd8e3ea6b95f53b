using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using MappedFileQueues.Settings;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// Options and arguments whose values are checked when the command line is parsed. A wrong value is a usage error, which names
/// the option and the values that it accepts.
/// </summary>
internal static class ToolOptions
{
    private const string TimeForm = $"a time such as {Quantities.TimeForms}";

    private static readonly TimeSpan s_waitMax = TimeSpan.FromHours(24);

    /// <summary>True if the option is given; takes no value.</summary>
    public static Option<bool> Flag(string name, string description) =>
        new(name) { Description = description, Arity = ArgumentArity.Zero };

    /// <summary>A whole number within limits.</summary>
    public static Option<long?> Number(string name, string description, long min, long max, string unit = "N") =>
        new(name)
        {
            Description = description,
            HelpName = unit,
            CustomParser = result => Parse(result, $"a whole number from {min} to {max}", (string text, out long? value) =>
            {
                bool isNumber = long.TryParse(text, CultureInfo.InvariantCulture, out long number);
                value = number;
                return isNumber && number >= min && number <= max;
            }),
        };

    /// <summary>A length in bytes within limits, also written as 64MiB or 64M.</summary>
    public static Option<long?> Size(string name, string description, long min, long max) =>
        new(name)
        {
            Description = description,
            HelpName = "BYTES",
            CustomParser = result => Parse(result, $"a length from {min} to {max} bytes, such as {Quantities.LengthForms}",
                (string text, out long? value) =>
                {
                    bool isInRange = Quantities.TryParseLength(text, out long length) && length >= min && length <= max;
                    value = isInRange ? length : null;
                    return isInRange;
                }),
        };

    /// <summary>A time with its unit, or `infinite`.</summary>
    public static Option<TimeSpan?> Duration(string name, string description) =>
        new(name)
        {
            Description = description,
            HelpName = "TIME",
            CustomParser = result => Parse<TimeSpan?>(result, $"{TimeForm}, or {Quantities.Infinite}", TryParseTime),
        };

    /// <summary>A limit of time: more than zero, or `infinite`.</summary>
    public static Option<TimeSpan?> Limit(string name, string description) =>
        new(name)
        {
            Description = description,
            HelpName = "TIME",
            CustomParser = result => Parse(result, $"{TimeForm}, more than 0, or {Quantities.Infinite}",
                (string text, out TimeSpan? value) => TryParseTime(text, out value) && value != TimeSpan.Zero),
        };

    /// <summary>A time that the command itself waits: it has an end, within what one wait of the system takes.</summary>
    public static Option<TimeSpan?> Wait(string name, string description) =>
        new(name)
        {
            Description = description,
            HelpName = "TIME",
            CustomParser = result => Parse(result, $"{TimeForm}, at most 24h",
                (string text, out TimeSpan? value) =>
                    TryParseTime(text, out value) && value >= TimeSpan.Zero && value <= s_waitMax),
        };

    /// <summary>One of several words; the first is the default.</summary>
    public static Option<string> OneOf(string name, string description, params string[] words)
    {
        Option<string> option = new(name)
        {
            Description = description,
            HelpName = string.Join('|', words),
            DefaultValueFactory = _ => words[0],
            CustomParser = result => Parse(result, $"one of {string.Join(", ", words)}", (string text, out string? value) =>
            {
                value = text;
                return words.Contains(text, StringComparer.Ordinal);
            }),
        };
        option.CompletionSources.Add(words);
        return option;
    }

    /// <summary>The path of a file or directory, which need not exist.</summary>
    public static Option<string?> Path(string name, string description, string helpName) =>
        new(name)
        {
            Description = description,
            HelpName = helpName,
            CustomParser = result => Parse<string>(result, "a path", TryParsePath),
        };

    /// <summary>The path of the file or directory that the command works on.</summary>
    public static Argument<string> PathArgument(string name, string description) =>
        new(name)
        {
            Description = description,
            CustomParser = result => Parse<string>(result, "a path", TryParsePath),
        };

    /// <summary>The paths of one or more files or directories.</summary>
    public static Argument<string[]> PathArguments(string name, string description) =>
        new(name)
        {
            Description = description,
            Arity = ArgumentArity.OneOrMore,
            CustomParser = result =>
            {
                if (result.Tokens.Any(token => !TryParsePath(token.Value, out _)))
                    result.AddError($"{result.Argument.Name} is a path, not ''.");
                return [.. result.Tokens.Select(token => token.Value)];
            },
        };

    private delegate bool TryParse<T>(string text, out T? value);

    private static T? Parse<T>(ArgumentResult result, string expected, TryParse<T> tryParse)
    {
        string text = result.Tokens.Count == 1 ? result.Tokens[0].Value : "";
        if (tryParse(text, out T? value))
            return value;
        string name = result.Parent is OptionResult option ? option.Option.Name : result.Argument.Name;
        result.AddError($"{name} is {expected}, not '{text}'.");
        return default;
    }

    private static bool TryParsePath(string text, out string? value)
    {
        value = text;
        return !string.IsNullOrWhiteSpace(text);
    }

    private static bool TryParseTime(string text, out TimeSpan? value)
    {
        bool isTime = Quantities.TryParseTime(text, out TimeSpan time);
        value = isTime ? time : null;
        return isTime;
    }
}
