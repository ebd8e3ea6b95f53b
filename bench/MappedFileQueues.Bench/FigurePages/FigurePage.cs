using System.Text;
using System.Text.RegularExpressions;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// A page that shows figures. A table stands between `&lt;!-- figures: GROUP, GROUP names=PATTERN,PATTERN --&gt;` and
/// `&lt;!-- /figures --&gt;`, with a line below it that says when and where its groups were measured, in full at the first table
/// of a group. `chart=NAME` adds the chart, once it is drawn.
/// </summary>
/// <param name="name">Relative to the root of the repository.</param>
/// <param name="text">As it is.</param>
/// <param name="sources">The results.</param>
internal sealed partial class FigurePage(string name, string text, FigureSources sources)
{
    private const int LineMax = 120;

    private readonly List<string> _problems = [];
    private readonly HashSet<string> _toldGroups = [];

    /// <summary>What is wrong and cannot be written anew, each with its line.</summary>
    public IReadOnlyList<string> Problems => _problems;

    /// <summary>The groups that the page takes figures from.</summary>
    public IEnumerable<string> Groups => Block().Matches(text).SelectMany(block => Specification(block).Groups)
        .Concat(Mark().Matches(text).Select(mark => mark.Groups[1].Value))
        .Distinct();

    /// <summary>The page as the results give it.</summary>
    public string Rewrite()
    {
        _toldGroups.Clear();
        string rewritten = Block().Replace(text, RewriteBlock);
        return FigureMarks.Fill(rewritten, sources, (place, problem) => Report(LineAt(rewritten, place), problem));
    }

    /// <summary>Reports figures that nothing ties to a result: those in the text, and tables outside the marks.</summary>
    public void CheckUnmarked(AllowedNumbers allowed)
    {
        string prose = Fence().Replace(text, Blank);
        foreach (Capture number in FigureMarks.FindUnmarked(prose))
        {
            if (!allowed.Covers(name, prose, number.Index))
                Report(LineAt(text, number.Index), $"{number.Value} is a figure without a mark: {Around(prose, number.Index)}");
        }

        string outside = Block().Replace(prose, Blank);
        foreach (Match heading in TableHead().Matches(outside).Where(head => FigureTable.IsMeasured(head.Groups[1].Value)))
            Report(LineAt(text, heading.Index), "a table of measured values outside the marks <!-- figures: … -->");
    }

    private string RewriteBlock(Match block)
    {
        (string[] groups, string[] names, string[] charts) = Specification(block);
        int first = LineAt(text, block.Groups["body"].Index);
        string[] lines = block.Groups["body"].Value.Split('\n');
        string[] table = [.. lines.TakeWhile(line => line.StartsWith('|'))];
        if (table.Length < 2)
        {
            Report(first, "no table after <!-- figures: … -->");
            return block.Value;
        }

        StringBuilder body = new();
        void ReportRow(int row, string problem) => Report(first + row, problem);
        foreach (string line in FigureTable.Rewrite(table, sources, groups, names, ReportRow))
            body.Append(line).Append('\n');
        BenchReport?[] reports = [.. groups.Select(group => sources.Reports.GetValueOrDefault(group))];
        for (int i = 0; i < groups.Length; i++)
        {
            if (reports[i] is { } report)
                body.Append('\n').Append(_toldGroups.Add(groups[i]) ? Source(report) : SourceAbove(report));
            else if (table.Length > 2)
                Report(first, $"there is no {FigureSources.Folder}/{groups[i]}.json");
        }

        string here = Path.GetDirectoryName(name)!;
        foreach (string chart in charts)
        {
            if (FigureCharts.Title(chart, sources) is { } title)
                body.Append($"\n![{title}]({Path.GetRelativePath($"/{here}", $"/{FigureCharts.Folder}/{chart}.svg")})\n");
        }

        return $"{block.Groups["open"].Value}{body}{block.Groups["close"].Value}";
    }

    private static (string[] Groups, string[] Names, string[] Charts) Specification(Match block)
    {
        string[] words = block.Groups["specification"].Value.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        return ([.. words.Where(word => !word.Contains('=')).Select(word => word.TrimEnd(','))], Of("names="), Of("chart="));

        string[] Of(string option) =>
        [
            .. words.Where(word => word.StartsWith(option, StringComparison.Ordinal))
                .SelectMany(word => word[option.Length..].Split(',')),
        ];
    }

    /// <summary>When, from which commit and where, in lines that are not too long.</summary>
    private static string Source(BenchReport report)
    {
        string commit = report.Commit == BenchReport.Unknown ? "commit not recorded" : $"commit {report.Commit[..7]}";
        string words = $"Measured by `{report.Command}`, {report.Date}, {commit}: {report.Machine}; "
            + $"Linux {report.Kernel.Split(' ', '-')[0]}, {report.FileSystem}, {report.Runtime}; {report.Run}.";
        StringBuilder lines = new();
        int length = 0;
        foreach (string word in words.Split(' '))
        {
            bool isFull = length + 1 + word.Length > LineMax;
            lines.Append(length == 0 ? "" : isFull ? "\n" : " ").Append(word);
            length = (isFull || length == 0 ? 0 : length + 1) + word.Length;
        }

        return lines.Append('\n').ToString();
    }

    private static string SourceAbove(BenchReport report) => $"Measured by `{report.Command}`, as above.\n";

    private void Report(int line, string problem) => _problems.Add($"{name}({line}): {problem}");

    private static int LineAt(string page, int place) => page.AsSpan(0, place).Count('\n') + 1;

    private static string Around(string prose, int place) =>
        prose[Math.Max(0, place - 25)..Math.Min(prose.Length, place + 35)].Replace('\n', ' ');

    private static string Blank(Match match) => LineContent().Replace(match.Value, " ");

    [GeneratedRegex(
        @"(?<open><!-- figures: (?<specification>[^>]*?) -->\n)(?<body>.*?)(?<close><!-- /figures -->)", RegexOptions.Singleline)]
    private static partial Regex Block();

    [GeneratedRegex(@"<!--f ([\w-]+)\.")]
    private static partial Regex Mark();

    [GeneratedRegex(@"^\s*```.*?^\s*```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex Fence();

    [GeneratedRegex(@"^(\|.*\|)\n\|[-|: ]+\|$", RegexOptions.Multiline)]
    private static partial Regex TableHead();

    [GeneratedRegex("[^\n]")]
    private static partial Regex LineContent();
}
