using System.CommandLine;
using System.CommandLine.Invocation;
using System.CommandLine.Parsing;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// Wrong usage: a line for each error on standard error, then where the help is. Nothing goes to standard output.
/// </summary>
internal static class UsageErrors
{
    /// <summary>Writes the errors, and returns the exit code for them.</summary>
    public static int Write(ParseResult parsed)
    {
        SuggestCorrections(parsed);
        foreach (string error in parsed.Errors.Select(Word).Distinct())
            ErrorLine.Write(error, ExitCodes.Usage);
        return ErrorLine.Write($"`{NameOf(parsed.CommandResult)} --help` shows the usage.", ExitCodes.Usage);
    }

    /// <summary>What may have been meant by a word that is not known; the library knows it.</summary>
    private static void SuggestCorrections(ParseResult parsed)
    {
        if (parsed.Action is not ParseErrorAction action)
            return;
        action.ShowHelp = false;
        using StringWriter suggestions = new();
        parsed.Invoke(new InvocationConfiguration { Output = suggestions, Error = TextWriter.Null });
        foreach (string suggestion in suggestions.ToString().Split("\n\n", StringSplitOptions.TrimEntries))
        {
            if (suggestion.Length > 0)
                ErrorLine.Write(suggestion, ExitCodes.Usage);
        }
    }

    /// <summary>The library's words, but where they name a .NET type, which says nothing to who typed the command.</summary>
    private static string Word(ParseError error)
    {
        (string name, Type type) = error.SymbolResult switch
        {
            OptionResult option => (option.Option.Name, option.Option.ValueType),
            ArgumentResult { Parent: OptionResult option } => (option.Option.Name, option.Option.ValueType),
            ArgumentResult argument => (argument.Argument.Name, argument.Argument.ValueType),
            _ => ("", typeof(void)),
        };
        if (!error.Message.Contains($"{type}", StringComparison.Ordinal))
            return error.Message;
        type = Nullable.GetUnderlyingType(type) ?? type;
        string expected = type == typeof(bool) ? "true or false"
            : type == typeof(double) || type == typeof(decimal) ? "a number"
            : "a whole number within its limits";
        return $"{name} is {expected}, not '{string.Join(' ', error.SymbolResult!.Tokens.Select(token => token.Value))}'.";
    }

    private static string NameOf(SymbolResult? result)
    {
        string name = "";
        for (; result is not null; result = result.Parent)
        {
            if (result is CommandResult command)
                name = command.Parent is null ? $"mfq{name}" : $" {command.Command.Name}{name}";
        }

        return name;
    }
}
