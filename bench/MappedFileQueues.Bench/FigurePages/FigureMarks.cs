using System.Text.RegularExpressions;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// Figures in the text: the comment `&lt;!--f GROUP.NAME--&gt;`, or `GROUP.NAME.raw` (ratio, min, max), right before a number.
/// The text chooses the unit and the decimals, the group's results give the number.
/// </summary>
internal static partial class FigureMarks
{
    private const string Number = @"(?:\d[\d,]*\d|\d)(?:\.\d+)?";

    private const string Units =
        @"(?:ns|us|ms)\b|[MG]i?B/s|msg/s|/s\b|messages\s+a\s+second|million(?=/s|\s+(?:messages\s+)?a\s+second)";

    /// <summary>Further numbers that share the unit that follows: 2.6 to 5.6 us.</summary>
    private const string Further = @"(?:\s+(?:to|and|or|-|beside)\s+(?:<!--f [^>]*-->)?\d[\d,.]*)*";

    /// <summary>Fills in all marked figures of a page.</summary>
    public static string Fill(string text, FigureSources sources, Action<int, string> report) => Mark().Replace(text, mark =>
    {
        string number = mark.Groups["number"].Value;
        string group = mark.Groups["group"].Value;
        string name = mark.Groups["name"].Value;
        string field = mark.Groups["field"].Value;
        ReportedFigure? figure = sources.Find(group, name);
        double? value = figure is null ? null : FigureNumber.Field(figure, field);
        if (value is null || number.Length == 0)
        {
            report(mark.Index, number.Length == 0
                ? $"no number after the mark of {group}.{name}"
                : $"{mark.Groups["path"]} is not in {FigureSources.Folder}/{group}.json");
            return mark.Value;
        }

        string unit = field == "ratio" ? "" : Unit().Match(text, mark.Index + mark.Length).Groups["unit"].Value;
        value = FigureNumber.Convert(value.Value, figure!.Unit, WhiteSpace().Replace(unit, " "));
        if (value is null)
        {
            report(mark.Index, $"{group}.{name} is in {figure.Unit}, and the text says {unit}");
            return mark.Value;
        }

        return mark.Value[..^number.Length] + FigureNumber.Like(number, value.Value);
    });

    /// <summary>Where numbers with a unit of measurement stand that no mark ties to a result.</summary>
    public static IEnumerable<Capture> FindUnmarked(string text) =>
        Measured().Matches(text).Where(number => !IsMarked(text, number));

    private static bool IsMarked(string text, Capture number) => MarkEnd().IsMatch(text[..number.Index]);

    [GeneratedRegex(
        @"(?<!`)<!--f (?<path>(?<group>[\w-]+)\.(?<name>\w+)(?:\.(?<field>value|raw|ratio|min|max))?)-->"
        + "(?<number>" + Number + "|)")]
    private static partial Regex Mark();

    [GeneratedRegex(@"<!--f [^>]*-->\z", RegexOptions.RightToLeft)]
    private static partial Regex MarkEnd();

    [GeneratedRegex(@"\G" + Further + @"\s*(?<unit>" + Units + ")")]
    private static partial Regex Unit();

    /// <summary>Ratios count too: "16 times", "20 x". "1/s" is the name of a unit.</summary>
    [GeneratedRegex(@"(?<![\w.,])(?!1/s\b)" + Number + "(?=" + Further + @"\s*(?:" + Units + @"|times\b|x\b))")]
    private static partial Regex Measured();

    [GeneratedRegex(@"\s+")]
    private static partial Regex WhiteSpace();
}
