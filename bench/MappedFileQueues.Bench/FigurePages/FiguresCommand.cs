using System.CommandLine;
using MappedFileQueues.Bench.Reporting;
using MappedFileQueues.Tool.Arguments;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// The command `figures`: writes the measured values of the pages and the charts from the checked-in results, or checks them.
/// </summary>
internal static class FiguresCommand
{
    private const string Readme = "README.md";

    /// <summary>The pages on which every figure needs a mark.</summary>
    private static readonly string[] s_strictPages = [Readme, "docs/BENCHMARKS.md"];

    private static readonly Option<bool> s_check = ToolOptions.Flag(
        "--check", "Writes nothing; ends with 1 when a page or a chart differs from the results.");

    private static readonly Option<bool> s_age = ToolOptions.Flag(
        "--age", "Also lists results older than what they measure, by git; ends with 1 when the README shows one of them.");

    private static readonly Option<string?> s_root = ToolOptions.Path(
        "--root", "The checkout; by default the one that holds the current folder.", "DIR");

    public static Command Create()
    {
        Command command = new("figures", $"Writes the pages' tables, marked figures and charts from {FigureSources.Folder}.");
        command.Add(s_check);
        command.Add(s_age);
        command.Add(s_root);
        command.SetAction(parsed => Run(
            parsed.GetValue(s_root) ?? FindRoot(), parsed.GetValue(s_check), parsed.GetValue(s_age)));
        return command;
    }

    private static int Run(string root, bool checks, bool comparesAge)
    {
        FigureSources sources = new(root);
        AllowedNumbers allowed = new(root);
        List<string> problems = [];
        HashSet<string> groupsOfReadme = [];
        foreach (string name in Pages(root))
        {
            string path = Path.Combine(root, name);
            string text = File.ReadAllText(path);
            FigurePage page = new(name, text, sources);
            string rewritten = page.Rewrite();
            if (s_strictPages.Contains(name))
                page.CheckUnmarked(allowed);
            if (name == Readme)
                groupsOfReadme.UnionWith(page.Groups);
            problems.AddRange(page.Problems);
            if (rewritten == text)
                continue;
            if (checks)
                problems.Add(FirstDifference(name, text, rewritten));
            else
                File.WriteAllText(path, rewritten);
        }

        if (!checks)
            FigureCharts.Write(root, sources);
        problems.AddRange(FigureCharts.FindStale(root, sources));
        problems.AddRange(allowed.Unused);
        if (comparesAge)
            problems.AddRange(Old(root, sources, groupsOfReadme));
        foreach (string problem in problems)
            Console.Error.WriteLine(problem);
        if (problems.Count > 0)
            throw new ToolException($"{problems.Count} figures are not as the results in {FigureSources.Folder} say; see above.");
        Console.Out.WriteLine($"All figures are those of {FigureSources.Folder}.");
        return ExitCodes.Success;
    }

    /// <summary>Lists all that is old; only what the README shows is an error.</summary>
    private static List<string> Old(string root, FigureSources sources, HashSet<string> groupsOfReadme)
    {
        FigureAge age = new(root);
        List<string> old = [];
        foreach ((string group, BenchReport report) in sources.Reports)
        {
            if (age.Missing(group, report) is not { } missing)
                continue;
            if (groupsOfReadme.Contains(group))
                old.Add($"{Readme}: {missing}");
            else
                Console.Out.WriteLine(missing);
        }

        return old;
    }

    /// <summary>All pages may mark figures: the guide repeats some of them.</summary>
    private static IEnumerable<string> Pages(string root)
    {
        string docs = Path.Combine(root, "docs");
        return new[] { Path.Combine(root, Readme) }
            .Concat(Directory.Exists(docs) ? Directory.EnumerateFiles(docs, "*.md", SearchOption.AllDirectories) : [])
            .Where(File.Exists)
            .Select(path => Path.GetRelativePath(root, path).Replace(Path.DirectorySeparatorChar, '/'))
            .Order(StringComparer.Ordinal);
    }

    private static string FirstDifference(string name, string text, string rewritten)
    {
        string[] old = text.Split('\n');
        string[] wanted = rewritten.Split('\n');
        int line = 0;
        while (line < old.Length - 1 && line < wanted.Length - 1 && old[line] == wanted[line])
            line++;
        return $"{name}({line + 1}): \"{old[line]}\" instead of \"{wanted[line]}\"; run `figures` without --check";
    }

    private static string FindRoot()
    {
        for (DirectoryInfo? folder = new(Environment.CurrentDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "MappedFileQueues.slnx")))
                return folder.FullName;
        }

        throw new ToolException("The current folder is in no checkout; name one with --root.");
    }
}
