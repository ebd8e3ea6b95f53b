namespace MappedFileQueues.Bench.Measuring;

/// <summary>
/// Raw, queue, raw, queue …: a temporary disturbance of the machine (another guest, a change of frequency) affects both sides.
/// </summary>
internal static class Interleaved
{
    /// <summary>Measures both sides in turn, or only the raw one if only the limits are wanted.</summary>
    public static Samples Run(string name, string unit, int repetitions, Func<double> raw, Func<double>? ours)
    {
        double[] rawValues = new double[repetitions];
        double[] ourValues = new double[ours is null ? 0 : repetitions];
        for (int i = 0; i < repetitions; i++)
        {
            rawValues[i] = raw();
            if (ours is not null)
                ourValues[i] = ours();
        }

        return new Samples(name, unit, rawValues, ourValues);
    }
}
