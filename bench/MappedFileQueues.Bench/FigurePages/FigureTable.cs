using System.IO.Enumeration;
using System.Text.RegularExpressions;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// A table of a page. Its heading says which columns are measured (value, raw, ratio, min - max, unit, and other names of
/// these), and the first cell of a row, in code font, which figure. These cells are written anew; all others, such as room,
/// aim and remarks, stay as they are.
/// </summary>
internal static partial class FigureTable
{
    public const string NotMeasured = "not measured";

    /// <summary>The measured columns by their headings.</summary>
    private static readonly Dictionary<string, Func<ReportedFigure, string>> s_columns = new()
    {
        ["value"] = Value,
        ["value (ours)"] = Value,
        ["C#"] = Value,
        ["ns a message"] = Value,
        ["raw"] = Raw,
        ["raw (the peer)"] = Raw,
        ["C"] = Raw,
        ["ratio"] = figure => FigureNumber.Ratio(figure.Ratio),
        ["min - max"] = figure => figure.Min is null
            ? "-"
            : $"{FigureNumber.InTable(figure.Min)} - {FigureNumber.InTable(figure.Max)}",
        ["unit"] = figure => figure.Unit,
    };

    /// <summary>How the headings of columns begin whose numbers nobody measures here.</summary>
    private static readonly string[] s_unmeasured = ["aim", "room", "1.x"];

    /// <summary>True for a heading that promises measured cells.</summary>
    public static bool IsMeasured(string heading) =>
        Cells(heading).Skip(1).Any(cell => cell != "unit" && s_columns.ContainsKey(cell));

    /// <summary>The rows of a table as its groups' results give them.</summary>
    /// <param name="lines">The table: its heading, the line of dashes, rows.</param>
    /// <param name="sources">All results.</param>
    /// <param name="groups">The table's groups; a figure is taken from the first that has it.</param>
    /// <param name="names">Patterns of names: figures of the groups that match them get rows at the end. Empty for none.</param>
    /// <param name="report">Called with the line and what is wrong there.</param>
    public static IEnumerable<string> Rewrite(
        string[] lines, FigureSources sources, string[] groups, string[] names, Action<int, string> report)
    {
        string[] headings = Cells(lines[0]);
        if (!headings.Any(s_columns.ContainsKey))
            return lines;
        List<string> rewritten = [.. lines[..2]];
        HashSet<string> shown = [];
        for (int i = 2; i < lines.Length; i++)
        {
            string[] cells = Cells(lines[i]);
            string name = Name().Match(cells[0]).Groups[1].Value;
            shown.Add(name);
            if (cells.Length != headings.Length)
                report(i, $"{cells.Length} cells in a table of {headings.Length} columns");
            else if (Find(sources, groups, name) is { } figure)
                lines[i] = Row(headings, cells, figure);
            else if (!cells.Contains(NotMeasured))
                report(i, $"`{name}` is in no file of {FigureSources.Folder}: {string.Join(", ", groups)}");
            if (headings.Zip(cells).Skip(1).Any(cell => IsBare(cell.First, cell.Second)))
                report(i, "a number without a mark in a column that is not measured");
            rewritten.Add(lines[i]);
        }

        rewritten.AddRange(
            from figure in groups.SelectMany(each => sources.Reports.GetValueOrDefault(each)?.Results ?? [])
            where names.Any(pattern => FileSystemName.MatchesSimpleExpression(pattern, figure.Name)) && shown.Add(figure.Name)
            select Row(headings, [$"`{figure.Name}`", .. headings.Skip(1).Select(_ => "-")], figure));
        return rewritten;
    }

    private static ReportedFigure? Find(FigureSources sources, string[] groups, string name) =>
        groups.Select(group => sources.Find(group, name)).FirstOrDefault(figure => figure is not null);

    /// <summary>A cell that begins with a number needs a mark, except in columns of aims, conditions, version 1.x.</summary>
    private static bool IsBare(string heading, string cell) => cell.Length > 0 && char.IsAsciiDigit(cell[0])
        && !s_columns.ContainsKey(heading)
        && !s_unmeasured.Any(start => heading.StartsWith(start, StringComparison.Ordinal));

    private static string Row(string[] headings, string[] cells, ReportedFigure figure)
    {
        IEnumerable<string> written = cells.Zip(
            headings, (cell, heading) => s_columns.GetValueOrDefault(heading)?.Invoke(figure) ?? cell);
        return $"| {string.Join(" | ", written)} |";
    }

    private static string[] Cells(string line) => [.. line.Trim().Trim('|').Split('|').Select(cell => cell.Trim())];

    private static string Value(ReportedFigure figure) => FigureNumber.InTable(figure.Value);

    private static string Raw(ReportedFigure figure) => FigureNumber.InTable(figure.Raw);

    [GeneratedRegex("^`([^`]+)`")]
    private static partial Regex Name();
}
