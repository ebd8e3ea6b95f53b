using System.Globalization;
using System.Text.RegularExpressions;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Reporting;
using Spectre.Console;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>Shows a table with its fastest way marked, and makes it figures for the JSON.</summary>
internal static partial class IoReport
{
    /// <summary>Ways within this of the fastest are as good as it.</summary>
    private const double AsGood = 0.95;

    /// <summary>The ways as figures; raw is the fastest of the table.</summary>
    public static IReadOnlyList<FigureResult> FiguresOf(IoTable table, IReadOnlyList<Samples> samples)
    {
        Samples[] ways = [.. samples.Where(IsWay)];
        if (ways.Length == 0)
            return [];
        Samples fastest = table.Operations > 0
            ? ways.MinBy(way => FigureResult.Median(way.Ours))!
            : ways.MaxBy(way => FigureResult.Median(way.Ours))!;
        return [.. ways.Select(way => FigureResult.Of(way with { Name = NameOf(table, way), Raw = fastest.Ours }))];
    }

    public static void Write(IoTable table, IReadOnlyList<Samples> samples)
    {
        IReadOnlyList<FigureResult> figures = FiguresOf(table, samples);
        double[] allocated = [.. samples.Where(IsAllocation).Select(way => FigureResult.Median(way.Ours))];
        string[] titles = [.. samples.Where(IsWay).Select(way => way.Name)];
        string[] columns = ["way", table.Unit, "of the fastest", "min", "max", "bytes allocated"];
        string[][] rows = [.. titles.Select((title, index) => Cells(table, title, figures[index], allocated[index]))];
        if (Console.IsOutputRedirected)
            WritePlain(table, columns, rows);
        else
            WriteForPeople(table, columns, rows);
        foreach (Samples note in samples.Where(IsNote))
            Console.Out.WriteLine(note.Name);
    }

    private static string[] Cells(IoTable table, string title, FigureResult figure, double allocated)
    {
        double share = table.Operations > 0 ? figure.Raw / figure.Value : figure.Value / figure.Raw;
        return
        [
            share >= AsGood ? $"* {title}" : $"  {title}",
            Number(figure.Value),
            share.ToString("0.00", CultureInfo.InvariantCulture),
            Number(figure.Min),
            Number(figure.Max),
            allocated.ToString("N0", CultureInfo.InvariantCulture),
        ];
    }

    private static void WriteForPeople(IoTable table, string[] columns, string[][] rows)
    {
        Table shown = new() { Border = TableBorder.Rounded, Title = new TableTitle(Markup.Escape(table.Title)) };
        foreach ((int index, string column) in columns.Index())
            shown.AddColumn(index == 0 ? new TableColumn(column) : new TableColumn(column).RightAligned());
        foreach (string[] row in rows)
            shown.AddRow([.. row.Select(cell => new Text(cell))]);
        AnsiConsole.Write(shown);
    }

    private static void WritePlain(IoTable table, string[] columns, string[][] rows)
    {
        Console.Out.WriteLine($"\n{table.Title}");
        foreach (string[] row in rows.Prepend(columns))
            Console.Out.WriteLine($"{row[0],-56}{string.Concat(row[1..].Select(cell => $"{cell,16}"))}");
    }

    private static bool IsWay(Samples samples) => !IsAllocation(samples) && !IsNote(samples);

    private static bool IsNote(Samples samples) => samples.Unit == IoMeasurement.NoteUnit;

    private static bool IsAllocation(Samples samples) =>
        samples.Name.EndsWith(IoMeasurement.AllocationSuffix, StringComparison.Ordinal);

    /// <summary>`read_filestream_default_buffer_4_kib`.</summary>
    private static string NameOf(IoTable table, Samples way) =>
        $"{table.Name}_{NotInNames().Replace(way.Name.ToLowerInvariant(), "_")}".TrimEnd('_');

    private static string Number(double value) =>
        value.ToString(value >= 100 ? "N0" : "0.00", CultureInfo.InvariantCulture);

    [GeneratedRegex("[^a-z0-9]+")]
    private static partial Regex NotInNames();
}
