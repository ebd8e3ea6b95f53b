using System.CommandLine;
using System.CommandLine.Help;

namespace MappedFileQueues.Tool.Output;

/// <summary>
/// Terminals with too few columns, among them those without a size. The libraries cannot lay out there: help never ended in 5
/// columns and failed in 1, and tables of 12 showed nothing.
/// </summary>
internal static class TerminalWidth
{
    private const int LayoutMin = 40;
    private const int WidthOfHelp = 80;

    /// <summary>
    /// True if standard output is a terminal that is too narrow for a table. To ask for the width may write to the terminal, so
    /// only what lays out asks.
    /// </summary>
    public static bool IsNarrow => !Console.IsOutputRedirected && Console.WindowWidth < LayoutMin;

    /// <summary>Lays help out for a usual terminal where this one is too narrow; the terminal wraps the lines.</summary>
    public static void Correct(ParseResult parsed)
    {
        if (parsed.Action is HelpAction help && IsNarrow)
            help.MaxWidth = WidthOfHelp;
    }
}
