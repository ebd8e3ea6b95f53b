using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// Options and arguments whose values are checked when the command line is parsed. A wrong value is a usage error, which names
/// the option and the values that it accepts.
/// </summary>
internal static class ToolOptions
{
    private static readonly (string Suffix, long Factor)[] s_sizeUnits =
    [
        ("KiB", 1L << 10), ("MiB", 1L << 20), ("GiB", 1L << 30), ("K", 1L << 10), ("M", 1L << 20), ("G", 1L << 30), ("B", 1),
    ];

    private static readonly (string Suffix, double Seconds)[] s_timeUnits = [("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600)];

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
            CustomParser = result => Parse(result, $"a length from {min} to {max} bytes, such as 4096, 64MiB or 1G",
                (string text, out long? value) =>
                {
                    (string suffix, long factor) = s_sizeUnits.FirstOrDefault(
                        unit => text.EndsWith(unit.Suffix, StringComparison.OrdinalIgnoreCase), ("", 1));
                    bool isNumber = long.TryParse(
                        text[..^suffix.Length], NumberStyles.None, CultureInfo.InvariantCulture, out long number);
                    bool isInRange = isNumber && number <= max / factor && number * factor >= min;
                    value = isInRange ? number * factor : null;
                    return isInRange;
                }),
        };

    /// <summary>A time, in seconds or as 500ms, 10s, 5m, 1h, or `infinite`.</summary>
    public static Option<TimeSpan?> Duration(string name, string description) =>
        new(name)
        {
            Description = description,
            HelpName = "TIME",
            CustomParser = result => Parse<TimeSpan?>(result, "a time such as 500ms, 10s, 5m, or infinite", TryParseDuration),
        };

    /// <summary>A time that the command itself waits: it has an end, within what one wait of the system takes.</summary>
    public static Option<TimeSpan?> Wait(string name, string description) =>
        new(name)
        {
            Description = description,
            HelpName = "TIME",
            CustomParser = result => Parse(result, "a time such as 500ms, 10s or 5m, at most 24h",
                (string text, out TimeSpan? value) =>
                    TryParseDuration(text, out value) && value >= TimeSpan.Zero && value <= s_waitMax),
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

    private static bool TryParseDuration(string text, out TimeSpan? value)
    {
        if (text == "infinite")
        {
            value = Timeout.InfiniteTimeSpan;
            return true;
        }

        // At most a number of days that every clock and timer accepts. The style does not keep "-Infinity" out.
        const double SecondsMax = 1e9;
        (string suffix, double factor) =
            s_timeUnits.FirstOrDefault(unit => text.EndsWith(unit.Suffix, StringComparison.Ordinal), ("", 1));
        bool isTime = double.TryParse(
            text[..^suffix.Length], NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out double number)
            && number >= 0 && number * factor <= SecondsMax;
        value = isTime ? TimeSpan.FromSeconds(number * factor) : null;
        return isTime;
    }
}
