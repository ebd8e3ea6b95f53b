using System.CommandLine.Parsing;
using MappedFileQueues.Hosting.Settings;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>
/// Finds words that begin with a dash in the place of a path, a name or a value. The library takes an option that it does not
/// know for one of these: `mfq produce --line` made a store of that name.
/// </summary>
internal static class MistypedOptions
{
    /// <summary>A sentence for each; none where the command line asks for help.</summary>
    /// <param name="arguments">The words that it came from: a value that is given as `--option=-x` is none of them.</param>
    public static IReadOnlyList<string> Find(ParseResult parsed, string[] arguments)
    {
        if (parsed.Errors.Count == 0 && parsed.Action != parsed.CommandResult.Command.Action)
            return [];
        HashSet<string> words =
            [.. arguments.TakeWhile(word => word != "--").Where(word => word.Length > 1 && word.StartsWith('-'))];
        string[] known = [.. OptionsOf(parsed.CommandResult)];
        List<string> sentences = [];
        for (CommandResult? command = parsed.CommandResult; command is not null; command = command.Parent as CommandResult)
        {
            foreach (SymbolResult part in command.Children)
            {
                // A number below zero is for the option itself to refuse.
                sentences.AddRange(part is CommandResult ? [] : part.Tokens.Select(token => token.Value).Where(words.Contains)
                    .Where(word => part is ArgumentResult || !char.IsAsciiDigit(word[1]))
                    .Select(word => part is OptionResult option
                        ? InPlaceOf(option.Option, word, known)
                        : InPlaceOf(((ArgumentResult)part).Argument, word, known)));
            }
        }

        return sentences;
    }

    private static string InPlaceOf(Argument argument, string word, string[] known) =>
        $"{Unknown(word, known)} A path that begins with - is given as ./{word}, and any {argument.Name} after --.";

    private static string InPlaceOf(Option option, string word, string[] known) =>
        (known.Contains(word) ? $"{option.Name} has no value before {word}." : Unknown(word, known))
        + $" A value that begins with - is given as {option.Name}={word}.";

    private static string Unknown(string word, string[] known) =>
        $"There is no option {word}.{NearestName.DidYouMean(word, known)}";

    /// <summary>The names of a command's options, and of those of the commands above it that it has too.</summary>
    public static IEnumerable<string> OptionsOf(CommandResult command)
    {
        IEnumerable<Option> options = command.Command.Options;
        for (SymbolResult? above = command.Parent; above is CommandResult parent; above = parent.Parent)
            options = options.Concat(parent.Command.Options.Where(option => option.Recursive));
        return options.Where(option => !option.Hidden).Select(option => option.Name);
    }
}
