namespace MappedFileQueues.Tool.Bench;

internal static class Statistics
{
    /// <summary>The middle value, or the mean of the two middle ones; 0 if there are no values.</summary>
    public static double Median(IReadOnlyCollection<double> values)
    {
        double[] sorted = [.. values.Order()];
        if (sorted.Length == 0)
            return 0;
        int middle = sorted.Length / 2;
        return sorted.Length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
}
