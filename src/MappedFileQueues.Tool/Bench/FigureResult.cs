
namespace MappedFileQueues.Tool.Bench;

/// <summary>One figure as it is shown and written: medians, their ratio, and the spread of the queue's side.</summary>
/// <param name="Name">The figure.</param>
/// <param name="Value">The queue's median.</param>
/// <param name="Unit">ns, us, ms: smaller is better; msg/s: larger is better; %, B.</param>
/// <param name="Raw">The raw loop's median.</param>
/// <param name="Ratio">Value / Raw; 1 if both are 0, and missing if only Raw is.</param>
/// <param name="Min">The queue's smallest value.</param>
/// <param name="Max">The queue's largest value.</param>
internal sealed record FigureResult(string Name, double Value, string Unit, double Raw, double? Ratio, double Min, double Max)
{
    private const int DigitsKept = 6;

    public static FigureResult Of(Samples samples)
    {
        double value = Statistics.Median(samples.Ours);
        double raw = Statistics.Median(samples.Raw);
        double? ratio = raw != 0 ? Round(value / raw) : value == 0 ? 1 : null;
        return new FigureResult(
            samples.Name, Round(value), samples.Unit, Round(raw), ratio, Round(samples.Ours.Min()), Round(samples.Ours.Max()));
    }

    /// <summary>Rounds to six significant digits: the rest is noise.</summary>
    private static double Round(double value)
    {
        if (value == 0)
            return 0;
        int digits = DigitsKept - 1 - (int)Math.Floor(Math.Log10(Math.Abs(value)));
        return digits >= 0 ? Math.Round(value, Math.Min(digits, 15)) : Math.Round(value);
    }
}
