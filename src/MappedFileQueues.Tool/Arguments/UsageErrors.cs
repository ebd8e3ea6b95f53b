using System.CommandLine.Parsing;
using MappedFileQueues.Hosting.Settings;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// Reports usage errors: one line for each on standard error, then a hint at the help. Nothing goes to standard output.
/// </summary>
internal static class UsageErrors
{
    /// <summary>Writes the errors and returns their exit code.</summary>
    /// <param name="mistyped">What <see cref="MistypedOptions"/> found; the other errors follow from it then.</param>
    public static int Write(ParseResult parsed, IReadOnlyList<string> mistyped)
    {
        if (mistyped.Count == 0)
            SuggestCorrection(parsed);
        foreach (string error in (mistyped.Count == 0 ? parsed.Errors.Select(Word) : mistyped).Distinct())
            ErrorLine.Write(error, ExitCodes.Usage);
        IEnumerable<string> names = NamesOf(parsed.CommandResult).Reverse();
        // A monitoring system takes 2 for "critical".
        return ErrorLine.Write(
            $"`{string.Join(' ', ["mfq", .. names])} --help` shows the usage.",
            IsCheck(parsed) ? (int)CheckStatus.Unknown : ExitCodes.Usage);
    }

    /// <summary>The exit code of a command that failed: a monitoring system takes 1 for "warning".</summary>
    public static int FailureOf(ParseResult? parsed) =>
        parsed is not null && IsCheck(parsed) ? (int)CheckStatus.Unknown : ExitCodes.Failure;

    private static bool IsCheck(ParseResult parsed) => parsed.CommandResult.Command.Name == CheckCommand.Name;

    /// <summary>Suggests a command or an option for the first word that is none: those after it may be paths or values.</summary>
    private static void SuggestCorrection(ParseResult parsed)
    {
        IEnumerable<string> known = parsed.CommandResult.Command.Subcommands.Select(each => each.Name)
            .Concat(MistypedOptions.OptionsOf(parsed.CommandResult));
        if (parsed.UnmatchedTokens is [var word, ..] && NearestName.Of(word, known) is { } nearest)
            ErrorLine.Write($"There is no {word} here. Did you mean {nearest}?", ExitCodes.Usage);
    }

    /// <summary>The library's message, unless it names a .NET type, which means nothing to a user of the command line.</summary>
    private static string Word(ParseError error)
    {
        string name = ((error.SymbolResult as OptionResult) ?? error.SymbolResult?.Parent as OptionResult)?.Option.Name
            ?? (error.SymbolResult as ArgumentResult)?.Argument.Name ?? "";
        if (name.Length == 0 || !error.Message.Contains("'System.", StringComparison.Ordinal))
            return error.Message;
        string given = string.Join(' ', error.SymbolResult!.Tokens.Select(token => token.Value));
        return $"{name} is a whole number within its limits, not '{given}'.";
    }

    private static IEnumerable<string> NamesOf(SymbolResult? result)
    {
        for (; result is CommandResult { Parent: not null } command; result = result.Parent)
            yield return command.Command.Name;
    }
}
