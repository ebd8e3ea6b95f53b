using System.Globalization;
using MappedFileQueues.Bench.Reporting;

namespace MappedFileQueues.Bench.FigurePages;

/// <summary>
/// How a measured value is written: in three digits in a table, in the unit and with the decimals of the text elsewhere.
/// </summary>
internal static class FigureNumber
{
    /// <summary>What units measure, and how many of the smallest of their kind they are.</summary>
    private static readonly Dictionary<string, (string Kind, double Scale)> s_units = new()
    {
        ["ns"] = ("time", 1),
        ["us"] = ("time", 1e3),
        ["ms"] = ("time", 1e6),
        ["msg/s"] = ("rate", 1),
        ["1/s"] = ("rate", 1),
        ["/s"] = ("rate", 1),
        ["messages a second"] = ("rate", 1),
        ["million"] = ("rate", 1e6),
        ["MB/s"] = ("bytes", 1e6),
        ["GB/s"] = ("bytes", 1e9),
        ["MiB/s"] = ("bytes", 1 << 20),
    };

    /// <summary>Three digits, whole numbers from 100 on.</summary>
    public static string InTable(double? value) => value is not { } number ? "-" : number.ToString(
        Math.Abs(number) switch
        {
            0 => "0",
            >= 100 => "N0",
            >= 10 => "0.0",
            >= 0.1 => "0.00",
            _ => "0.000",
        },
        CultureInfo.InvariantCulture);

    public static string Ratio(double? value) => value?.ToString("0.00", CultureInfo.InvariantCulture) ?? "-";

    /// <summary>One value of a figure: value, raw, ratio, min or max; null where it was not written down.</summary>
    public static double? Field(ReportedFigure figure, string field) => field switch
    {
        "raw" => figure.Raw,
        "ratio" => figure.Ratio,
        "min" => figure.Min,
        "max" => figure.Max,
        _ => figure.Value,
    };

    /// <summary>The value in another unit of the same kind, or null when there is none. No unit is the figure's own.</summary>
    public static double? Convert(double value, string from, string to)
    {
        if (to.Length == 0 || from == to)
            return value;
        return s_units.TryGetValue(from, out (string Kind, double Scale) source)
            && s_units.TryGetValue(to, out (string Kind, double Scale) target)
            && source.Kind == target.Kind
            ? value * source.Scale / target.Scale
            : null;
    }

    /// <summary>The value with as many decimals as a number that is already written has.</summary>
    public static string Like(string written, double value)
    {
        int point = written.IndexOf('.');
        int decimals = point < 0 ? 0 : written.Length - point - 1;
        return value.ToString($"N{decimals}", CultureInfo.InvariantCulture);
    }
}
