using System.CommandLine.Help;
using System.Text;
using Spectre.Console.Rendering;

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
    public static bool IsNarrow => !ToolConsole.IsOutputRedirected && Console.WindowWidth < LayoutMin;

    /// <summary>Lays help out for a usual terminal where this one is too narrow; the terminal wraps the lines.</summary>
    public static void Correct(ParseResult parsed)
    {
        if (parsed.Action is HelpAction help && IsNarrow)
            help.MaxWidth = WidthOfHelp;
    }

    /// <summary>The columns that a line takes: some characters take two, as those of Chinese, and some take none.</summary>
    public static int Of(string line) => new Segment(line).CellCount();

    /// <summary>How many of its letters, at least one, fit into so many columns.</summary>
    public static int Fitting(string line, int columns)
    {
        int length = 0;
        foreach (Rune rune in line.EnumerateRunes())
        {
            columns -= Of(rune.ToString());
            if (columns < 0 && length > 0)
                break;
            length += rune.Utf16SequenceLength;
        }

        return length;
    }
}
