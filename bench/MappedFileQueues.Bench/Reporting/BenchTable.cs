using System.Globalization;
using Spectre.Console;

namespace MappedFileQueues.Bench.Reporting;

/// <summary>Shows head and results: a table for people, plain columns for a file or another program.</summary>
internal static class BenchTable
{
    private static readonly string[] s_columns = ["figure", "value", "raw", "ratio", "min", "max", "unit"];

    public static void WriteHead(BenchSettings settings)
    {
        foreach ((string name, string value) in BenchHead.Lines(settings))
            Console.Out.WriteLine($"{name + ":",-13}{value}");
        if (Environment.ProcessorCount < 2)
            Console.Out.WriteLine("warning:     one CPU: two processes take turns on it, and code is not fully compiled in time");
        Console.Out.WriteLine();
    }

    public static void Write(IReadOnlyList<FigureResult> results, string valueTitle = "value", string rawTitle = "raw")
    {
        string[] columns = [s_columns[0], valueTitle, rawTitle, .. s_columns[3..]];
        if (Console.IsOutputRedirected)
            WritePlain(columns, results);
        else
            WriteForPeople(columns, results);
    }

    private static void WriteForPeople(string[] columns, IReadOnlyList<FigureResult> results)
    {
        Table table = new() { Border = TableBorder.Rounded };
        for (int i = 0; i < columns.Length; i++)
        {
            TableColumn column = new(columns[i]);
            table.AddColumn(i == 0 || i == columns.Length - 1 ? column : column.RightAligned());
        }

        foreach (FigureResult result in results)
            table.AddRow([.. Cells(result).Select(cell => new Text(cell))]);
        AnsiConsole.Write(table);
    }

    private static void WritePlain(string[] columns, IReadOnlyList<FigureResult> results)
    {
        Console.Out.WriteLine(Line(columns));
        foreach (FigureResult result in results)
            Console.Out.WriteLine(Line(Cells(result)));
    }

    private static string Line(string[] cells) =>
        $"{cells[0],-28}{cells[1],14}{cells[2],14}{cells[3],9}{cells[4],14}{cells[5],14}  {cells[6]}";

    private static string[] Cells(FigureResult result) =>
    [
        result.Name,
        Number(result.Value),
        Number(result.Raw),
        result.Ratio is { } ratio ? ratio.ToString("0.00", CultureInfo.InvariantCulture) : "-",
        Number(result.Min),
        Number(result.Max),
        result.Unit,
    ];

    private static string Number(double value) => Math.Abs(value) switch
    {
        >= 10_000 => value.ToString("N0", CultureInfo.InvariantCulture),
        >= 100 => value.ToString("0.0", CultureInfo.InvariantCulture),
        >= 1 or 0 => value.ToString("0.00", CultureInfo.InvariantCulture),
        _ => value.ToString("0.0000", CultureInfo.InvariantCulture),
    };
}
