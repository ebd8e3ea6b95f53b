using Spectre.Console;

namespace MappedFileQueues.Tool.Output;

/// <summary>
/// Rows under a title: a drawn table on a terminal; aligned plain text, never shortened, when redirected and on a terminal
/// that is too narrow.
/// </summary>
internal sealed class Report(string title, params string[] columns)
{
    private readonly List<string[]> _rows = [];

    /// <summary>The number of rows.</summary>
    public int RowCount => _rows.Count;

    /// <summary>The columns that the drawn table takes.</summary>
    public int TableWidth => Enumerable.Range(0, columns.Length)
        .Sum(index => 3 + _rows.Append(columns).Max(row => TerminalWidth.Of(TerminalText.Neutralise(row[index])))) + 1;

    /// <summary>The lines that the drawn table takes: title, head, and three of the frame.</summary>
    public int TableHeight => _rows.Count + 5;

    /// <summary>Adds a row with one cell per column; the end of a line within a cell would look like another row.</summary>
    public void Add(params string[] cells) => _rows.Add([.. cells.Select(cell => cell.ReplaceLineEndings(" "))]);

    /// <summary>Writes the report to standard output.</summary>
    public void Write()
    {
        if (ToolConsole.IsOutputRedirected || TerminalWidth.IsNarrow)
            WritePlain();
        else
            WriteTable();
    }

    /// <summary>Writes the report unless it has no rows.</summary>
    public void WriteIfAny()
    {
        if (RowCount > 0)
            Write();
    }

    /// <summary>A count or a length with thousands separators.</summary>
    public static string Number(long value) => $"{value:N0}";

    /// <summary>The same for a value that may be unknown.</summary>
    public static string Number(long? value, string none) => value is { } known ? Number(known) : none;

    /// <summary>How many there are of something, such as "message".</summary>
    public static string Count(long count, string what) => $"{Number(count)} {what}{(count == 1 ? "" : "s")}";

    /// <summary>A length in bytes, exact; a large one is also shown rounded.</summary>
    public static string Bytes(long length) =>
        length < 1_000_000 ? Count(length, "byte") : $"{length:N0} bytes ({length / 1e6:N1} MB)";

    /// <summary>A length in bytes in few digits, such as "3.2 GB".</summary>
    public static string Size(long length) => length switch
    {
        < 1_000 => $"{length} bytes",
        < 1_000_000 => $"{length / 1e3:N1} kB",
        < 1_000_000_000 => $"{length / 1e6:N1} MB",
        _ => $"{length / 1e9:N1} GB",
    };

    private void WritePlain()
    {
        List<string[]> lines = [.. _rows];
        if (columns.Any(column => column.Length > 0))
            lines.Insert(0, columns);
        ToolConsole.Out.WriteLine(TerminalText.ForOutput(title));
        foreach (string[] line in lines)
        {
            IEnumerable<string> cells = line.Select((cell, index) => cell.PadRight(lines.Max(other => other[index].Length)));
            ToolConsole.Out.WriteLine(TerminalText.ForOutput($"  {string.Join("  ", cells).TrimEnd()}"));
        }
    }

    private void WriteTable()
    {
        TableTitle head = new(Markup.Escape(TerminalText.Neutralise(title)), Style.Parse("bold"));
        Table table = new Table().Title(head).RoundedBorder();
        foreach (string column in columns)
            table.AddColumn(new TableColumn(new Text(column)));
        if (columns.All(column => column.Length == 0))
            table.HideHeaders();
        foreach (string[] row in _rows)
            table.AddRow(row.Select(cell => new Text(TerminalText.Neutralise(cell))));
        AnsiConsole.Write(table);
    }
}
