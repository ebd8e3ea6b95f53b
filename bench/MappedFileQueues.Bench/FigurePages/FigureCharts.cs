using System.Globalization;
using System.Text.RegularExpressions;
using ScottPlot;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// The charts of the pages, drawn from the results. Each file names the results that it shows in a comment: fonts differ between
/// machines, so a check compares these and not the drawing.
/// </summary>
internal static partial class FigureCharts
{
    public const string Folder = "docs/images";

    private const int Width = 720;
    private const int Height = 360;

    /// <summary>Series of bars; a chart is left out when a result of it is missing.</summary>
    private static readonly Chart[] s_charts =
    [
        new(
            "durable", "Appends that wait for the disk", "messages a second",
            ["1 thread", "16 threads", "64 threads", "64 tasks"],
            [
                new("queue (level Group)",
                    ["queues.durable_1", "queues.durable_16", "queues.durable_64", "queues.durable_64_async"]),
                new("one thread that rewrites and flushes a block",
                    [
                        "queues.durable_1.raw", "queues.durable_16.raw", "queues.durable_64.raw",
                        "queues.durable_64_async.raw",
                    ]),
            ]),
        new(
            "appends", "Appending 64 bytes, any number of producers allowed", "ns a message",
            ["new files, nothing prepared", "files used again (retention)", "room prepared"],
            [
                new("queue, checksum on", ["cold.append_shared", "queues.append_recycled", "queues.append_shared"]),
                new("bare copy", ["cold.append_shared.raw", "queues.append_recycled.raw", "queues.append_shared.raw"]),
            ]),
        new(
            "peers", "Appending 64 bytes beside other libraries, nobody waits for the disk", "ns a message",
            ["FasterLog", "SQLite", "channel in memory"],
            [
                new("queue, checksum on", ["peers.append_fasterlog", "peers.append_sqlite", "peers.append_channel"]),
                new("the peer", ["peers.append_fasterlog.raw", "peers.append_sqlite.raw", "peers.append_channel.raw"]),
            ]),
    ];

    /// <summary>What a chart shows; null when there is none, or its results are missing.</summary>
    public static string? Title(string name, FigureSources sources) =>
        s_charts.FirstOrDefault(chart => chart.Name == name && Comment(chart, sources) is not null)?.Title;

    /// <summary>Draws all charts whose results are there.</summary>
    public static void Write(string root, FigureSources sources)
    {
        Directory.CreateDirectory(Path.Combine(root, Folder));
        foreach (Chart chart in s_charts)
        {
            if (Comment(chart, sources) is { } comment && !IsCurrent(root, chart, comment))
                File.WriteAllText(PathOf(root, chart), Draw(chart, sources, comment));
        }
    }

    /// <summary>The charts whose files show other results than those that are there.</summary>
    public static IEnumerable<string> FindStale(string root, FigureSources sources) =>
        from chart in s_charts
        let comment = Comment(chart, sources)
        where comment is null ? File.Exists(PathOf(root, chart)) : !IsCurrent(root, chart, comment)
        select $"{Folder}/{chart.Name}.svg: not drawn from these results";

    private static string PathOf(string root, Chart chart) => Path.Combine(root, Folder, chart.Name + ".svg");

    private static bool IsCurrent(string root, Chart chart, string comment) =>
        File.Exists(PathOf(root, chart)) && File.ReadAllText(PathOf(root, chart)).Contains(comment, StringComparison.Ordinal);

    /// <summary>What the chart shows, or null when a result is missing.</summary>
    private static string? Comment(Chart chart, FigureSources sources)
    {
        List<string> shown = [];
        foreach (string path in chart.Series.SelectMany(series => series.Paths))
        {
            if (Value(path, sources) is not { } value)
                return null;
            shown.Add($"{path}={value.ToString(CultureInfo.InvariantCulture)}");
        }

        return $"<!-- {chart.Title}; {string.Join("; ", chart.Categories)}; {string.Join(' ', shown)} -->";
    }

    private static double? Value(string path, FigureSources sources)
    {
        string[] parts = path.Split('.');
        return sources.Find(parts[0], parts[1]) is { } figure
            ? FigureNumber.Field(figure, parts.ElementAtOrDefault(2) ?? "")
            : null;
    }

    private static string Draw(Chart chart, FigureSources sources, string comment)
    {
        Color[] colors = [Color.FromHex("#1f6feb"), Color.FromHex("#8c959f")];
        using Plot plot = new();
        plot.Font.Set("DejaVu Sans");
        for (int i = 0; i < chart.Series.Length; i++)
        {
            Series series = chart.Series[i];
            Bar[] shown = [.. series.Paths.Select((path, j) => Bar(Value(path, sources)!.Value, j, i, colors[i]))];
            ScottPlot.Plottables.BarPlot bars = plot.Add.Bars(shown);
            bars.LegendText = series.Title;
            bars.ValueLabelStyle.FontSize = 13;
        }

        plot.Title($"{chart.Title}, {chart.Unit}", size: 16);
        plot.Axes.Bottom.SetTicks([.. chart.Categories.Select((_, j) => (double)j)], chart.Categories);
        plot.Axes.Bottom.MajorTickStyle.Length = 0;
        plot.Axes.Bottom.TickLabelStyle.FontSize = 13;
        plot.Axes.Left.TickGenerator = new ScottPlot.TickGenerators.NumericAutomatic
        {
            TargetTickCount = 6,
            LabelFormatter = value => value.ToString("N0", CultureInfo.InvariantCulture),
        };
        plot.Axes.Left.MinorTickStyle.Length = 0;
        plot.Axes.Right.FrameLineStyle.Width = 0;
        plot.Axes.Top.FrameLineStyle.Width = 0;
        plot.Axes.Margins(bottom: 0, top: 0.12);
        plot.HideGrid();
        plot.Legend.FontSize = 13;
        plot.Legend.OutlineWidth = 0;
        plot.Legend.ShadowColor = Colors.Transparent;
        plot.ShowLegend(Edge.Bottom);
        string svg = plot.GetSvgXml(Width, Height);
        svg = FontFamily().Replace(svg, "font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\"");
        svg = TrailingSpace().Replace(svg.ReplaceLineEndings("\n"), "");
        return svg.Replace("</svg>", comment + "\n</svg>", StringComparison.Ordinal).TrimEnd() + "\n";
    }

    private static Bar Bar(double value, int category, int series, Color color) => new()
    {
        Position = category + ((series - 0.5) * 0.36),
        Size = 0.34,
        Value = value,
        FillColor = color,
        LineWidth = 0,
        ValueLabel = value >= 100 ? value.ToString("N0", CultureInfo.InvariantCulture) : FigureNumber.InTable(value),
    };

    [GeneratedRegex("font-family=\"[^\"]*\"")]
    private static partial Regex FontFamily();

    [GeneratedRegex("[ \t]+$", RegexOptions.Multiline)]
    private static partial Regex TrailingSpace();

    private sealed record Chart(string Name, string Title, string Unit, string[] Categories, Series[] Series);

    private sealed record Series(string Title, string[] Paths);
}
