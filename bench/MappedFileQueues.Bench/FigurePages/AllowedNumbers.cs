using System.Text.RegularExpressions;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// Numbers with a unit that are no results of the bench: constants, aims, older runs. Each line of the file is
/// `PAGE | words of the page that hold the number | reason`; how the page breaks its lines does not matter.
/// </summary>
internal sealed class AllowedNumbers
{
    public const string Name = $"{FigureSources.Folder}/unmarked.txt";

    private readonly List<(int Line, string Page, Regex Words)> _entries = [];

    private readonly HashSet<int> _used = [];

    public AllowedNumbers(string root)
    {
        string path = Path.Combine(root, Name);
        string[] lines = File.Exists(path) ? File.ReadAllLines(path) : [];
        for (int i = 0; i < lines.Length; i++)
        {
            if (lines[i].Length == 0 || lines[i][0] == '#')
                continue;
            string[] parts = lines[i].Split(" | ");
            if (parts.Length != 3 || parts.Any(string.IsNullOrWhiteSpace))
                throw new ToolException($"A line is not `PAGE | words | reason`: file={path}, line={i + 1}.");
            string words = string.Join(@"\s+", parts[1].Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(Regex.Escape));
            _entries.Add((i + 1, parts[0].Trim(), new Regex(words)));
        }
    }

    /// <summary>True when an entry of the page holds the place.</summary>
    public bool Covers(string page, string text, int place)
    {
        bool isCovered = false;
        foreach ((int line, _, Regex words) in _entries.Where(entry => entry.Page == page))
        {
            if (words.Matches(text).Any(match => match.Index <= place && place < match.Index + match.Length))
            {
                _used.Add(line);
                isCovered = true;
            }
        }

        return isCovered;
    }

    /// <summary>Entries that no number of these pages needed.</summary>
    public IEnumerable<string> Unused => _entries.Where(entry => !_used.Contains(entry.Line))
        .Select(entry => $"{Name}({entry.Line}): no number of {entry.Page} needs it");
}
