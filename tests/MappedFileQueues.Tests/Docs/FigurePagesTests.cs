using System.Diagnostics;
using System.Text.Json.Nodes;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Docs;

/// <summary>
/// The measured figures of the pages are those of the checked-in results. The story: tables, sentences and the README gave
/// figures of different days, and nobody could tell which of them still held.
/// </summary>
[Trait("Category", "Slow")]
public sealed class FigurePagesTests
{
    private const string Table = """
        <!-- figures: queues -->
        | figure | aim | ratio | value | raw | min - max | unit |
        |---|---|---|---|---|---|---|
        | `append` (a) | 2.0 | 0.81 | 6.48 | 8.00 | 6.10 - 7.20 | ns |

        Measured by `queues`, 2026-01-02 03:04, commit 0123456: a machine, 2 CPUs; Linux 6.1, ext4, .NET 10.0.1; 10 messages.
        <!-- /figures -->

        """;

    [Fact]
    public void Pages_CheckedIn_ShowTheCheckedInResults() => Check(Repository.Root).Expect(0);

    [Fact]
    public void Check_PageOfTheResults_Passes()
    {
        const string Prose = """
            It takes <!--f queues.append-->6.5 ns, and <!--f queues.append.ratio-->0.81 times as much as a copy.
            From <!--f queues.append.min-->0.0061 to
            <!--f queues.append.max-->0.0072 us.
            <!--f queues.rate-->12.3 million messages a second, <!--f queues.rate-->12,345,678/s
            It is
            5 ms later.
            ```text
            6.5 ns
            ```

            """;
        using TempStore folder = new();
        Make(folder.Root, Table + Prose, "# reasons\nREADME.md | is 5 ms later | a constant\n");

        Check(folder.Root).Expect(0);
    }

    [Fact]
    public void Check_FiguresThatNoResultHolds_FailsForEach()
    {
        (string Line, string Problem)[] wrong =
        [
            ("It takes 6.5 ns.", "6.5 is a figure without a mark"),
            ("It takes 5.9 to\n6.6 ns.", "5.9 is a figure without a mark"),
            ("It is 7 times faster.", "7 is a figure without a mark"),
            ("<!--f queues.gone-->6.5 ns", "queues.gone is not in bench/figures/queues.json"),
            ("<!--f queues.append-->6.5 msg/s", "queues.append is in ns, and the text says msg/s"),
            ("<!--f queues.append-->about 6.5", "no number after the mark"),
            ("\n| figure | value |\n|---|---|\n| `append` | 6.48 |", "a table of measured values outside the marks"),
        ];
        using TempStore folder = new();
        string prose = string.Join('\n', wrong.Select(each => each.Line));
        string table = Table.Replace("| aim |", "| cold |", StringComparison.Ordinal);
        Make(folder.Root, table + prose, "README.md | is 5 ms later | a constant\n");

        string problems = Check(folder.Root).Expect(1).Error;

        Assert.Contains("README.md(4): a number without a mark in a column", problems, StringComparison.Ordinal);
        Assert.All(wrong, each => Assert.Contains(each.Problem, problems, StringComparison.Ordinal));
        Assert.Contains("unmarked.txt(1): no number of README.md needs it", problems, StringComparison.Ordinal);
    }

    [Fact]
    public void Check_PagesOfOlderResults_FailsForEachUntilTheyAreWritten()
    {
        const string Page = Table + "It takes <!--f queues.append-->6.5 ns.\n";
        (string Current, string Older)[] differences =
        [
            ("| 6.48 |", "| 6.47 |"), ("| 0.81 |", "| 0.80 |"), ("6.10 - 7.20", "6.10 - 7.30"),
            ("commit 0123456", "commit 6543210"), ("-->6.5 ns", "-->6.4 ns"),
        ];
        using TempStore folder = new();
        Make(folder.Root, Page);
        string docs = Path.Combine(folder.Root, "docs");
        Directory.CreateDirectory(docs);
        foreach ((int i, (string current, string older)) in differences.Index())
            File.WriteAllText(Path.Combine(docs, $"{i}.md"), Page.Replace(current, older, StringComparison.Ordinal));

        string problems = Check(folder.Root).Expect(1).Error;
        Figures(folder.Root).Expect(0);

        Assert.All(
            Enumerable.Range(0, differences.Length),
            i => Assert.Matches(@$"docs/{i}\.md\(\d+\): .* run `figures` without --check", problems));
        Assert.DoesNotContain("README.md(", problems, StringComparison.Ordinal);
        Assert.All(Directory.EnumerateFiles(docs), path => Assert.Equal(Page, File.ReadAllText(path)));
        Check(folder.Root).Expect(0);
    }

    [Fact]
    public void Check_RowWithoutResult_FailsUnlessItSaysSo()
    {
        using TempStore folder = new();
        const string Row = "| `gone` | - | - | - | - | - | ns |";
        Make(folder.Root, Table.Replace("\n\nMeasured", $"\n{Row}\n\nMeasured", StringComparison.Ordinal));
        string page = Path.Combine(folder.Root, "README.md");

        Assert.Contains("`gone` is in no file", Check(folder.Root).Expect(1).Error, StringComparison.Ordinal);
        File.WriteAllText(
            page, File.ReadAllText(page).Replace(Row, Row.Replace("| - | ns", "| not measured | ns", StringComparison.Ordinal)));
        Check(folder.Root).Expect(0);
    }

    [Fact]
    public void Figures_TableOfPatterns_GetsARowForEachResult()
    {
        using TempStore folder = new();
        Make(folder.Root, """
            <!-- figures: queues names=app* -->
            | figure | value | unit |
            |---|---|---|
            <!-- /figures -->

            """);

        Figures(folder.Root).Expect(0);

        string page = File.ReadAllText(Path.Combine(folder.Root, "README.md"));
        Assert.Contains("|---|---|---|\n| `append` | 6.48 | ns |\n\nMeasured by", page, StringComparison.Ordinal);
    }

    [Fact]
    public void Figures_SecondTableOfAGroup_RefersToTheFirst()
    {
        using TempStore folder = new();
        Make(folder.Root, Table + Table);

        Figures(folder.Root).Expect(0);

        string source = Table.Split('\n').Single(line => line.StartsWith("Measured by", StringComparison.Ordinal));
        Assert.Equal(
            Table + Table.Replace(source, "Measured by `queues`, as above.", StringComparison.Ordinal),
            File.ReadAllText(Path.Combine(folder.Root, "README.md")));
    }

    /// <summary>A chart is drawn when its results are there, and drawn again when they are others.</summary>
    [Fact]
    public void Check_ChartOfOlderResults_FailsUntilItIsDrawn()
    {
        using TempStore folder = new();
        string[] names = ["durable_1", "durable_16", "durable_64", "durable_64_async"];
        string page = Table.Replace("queues -->", "queues chart=durable,peers -->", StringComparison.Ordinal);
        Make(folder.Root, page, more: names.Select(name => Result(name, 100, "msg/s", 50)));
        string chart = Path.Combine(folder.Root, "docs/images/durable.svg");

        Assert.Contains("docs/images/durable.svg", Check(folder.Root).Expect(1).Error, StringComparison.Ordinal);
        Figures(folder.Root).Expect(0);
        Check(folder.Root).Expect(0);
        string text = File.ReadAllText(Path.Combine(folder.Root, "README.md"));
        Assert.Contains("\n![Appends that wait for the disk](docs/images/durable.svg)\n<!-- /", text, StringComparison.Ordinal);
        Assert.Contains("queues.durable_16=100 ", File.ReadAllText(chart), StringComparison.Ordinal);
        Assert.Equal("svg", System.Xml.Linq.XDocument.Load(chart).Root!.Name.LocalName);

        Make(folder.Root, Table, more: names.Select(name => Result(name, 200, "msg/s", 50)));
        Check(folder.Root).Expect(1);
        Figures(folder.Root).Expect(0);
        Assert.Contains("queues.durable_16=200 ", File.ReadAllText(chart), StringComparison.Ordinal);
    }

    [Fact]
    public void Age_ResultsBeforeTheLastChange_FailsForTheReadme()
    {
        using TempStore folder = new();
        string sources = Path.Combine(folder.Root, "src");
        Directory.CreateDirectory(Path.Combine(sources, "MappedFileQueues"));
        Directory.CreateDirectory(Path.Combine(sources, "MappedFileQueues.Files"));
        Git(folder.Root, "init", "-q");
        string measured = Commit("MappedFileQueues/Queue.cs");
        Commit("MappedFileQueues.Files/File.cs");
        Make(folder.Root, Table.Replace("0123456", measured[..7], StringComparison.Ordinal), commit: measured);

        Check(folder.Root, "--age").Expect(0);
        string changed = Commit("MappedFileQueues/Queue.cs");

        Assert.Contains(
            $"README.md: queues: measured 2026-01-02 03:04, commit {measured[..7]}, and changed since by {changed[..7]}",
            Check(folder.Root, "--age").Expect(1).Error,
            StringComparison.Ordinal);
        Check(folder.Root).Expect(0);

        string Commit(string file)
        {
            File.AppendAllText(Path.Combine(sources, file), "// a change\n");
            Git(folder.Root, "add", "src");
            Git(folder.Root, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-q", "-m", "a change");
            return Git(folder.Root, "rev-parse", "HEAD").Trim();
        }
    }

    private static ToolRun Check(string root, params string[] options) => Figures(root, ["--check", .. options]);

    private static ToolRun Figures(string root, params string[] options) =>
        ToolRun.OfBench(["figures", "--root", root, .. options]);

    private static void Make(
        string root, string readme, string allowed = "", string commit = "0123456789", IEnumerable<JsonNode>? more = null)
    {
        string folder = Path.Combine(root, "bench/figures");
        Directory.CreateDirectory(folder);
        JsonNode append = Result("append", 6.48, "ns", 8);
        append["ratio"] = 0.81;
        JsonObject report = new()
        {
            ["date"] = "2026-01-02 03:04",
            ["commit"] = commit,
            ["command"] = "queues",
            ["run"] = "10 messages",
            ["machine"] = "a machine, 2 CPUs",
            ["kernel"] = "6.1-x (a system)",
            ["fileSystem"] = "ext4",
            ["runtime"] = ".NET 10.0.1",
            ["results"] = new JsonArray([append, Result("rate", 12345678, "msg/s", 1), .. more ?? []]),
        };
        File.WriteAllText(Path.Combine(folder, "queues.json"), report.ToJsonString());
        File.WriteAllText(Path.Combine(folder, "unmarked.txt"), allowed);
        File.WriteAllText(Path.Combine(root, "README.md"), readme);
    }

    private static JsonObject Result(string name, double value, string unit, double raw) => new()
    {
        ["name"] = name,
        ["value"] = value,
        ["unit"] = unit,
        ["raw"] = raw,
        ["ratio"] = value / raw,
        ["min"] = 6.1,
        ["max"] = 7.2,
    };

    private static string Git(string folder, params string[] arguments) =>
        ToolRun.Start(new ProcessStartInfo("git", ["-C", folder, .. arguments]), []).Expect(0).Text;
}
