namespace MappedFileQueues.Bench.Measuring;

/// <summary>Ranks of many measured values.</summary>
internal static class Quantiles
{
    /// <summary>
    /// The value below which the given share of all lies. Reorders the array only as far as that needs: millions of pauses are
    /// asked for one rank, and sorting them all would take longer than measuring them.
    /// </summary>
    public static long Of(long[] values, double share)
    {
        int rank = Math.Min((int)(share * values.Length), values.Length - 1);
        Span<long> rest = values;
        while (rest.Length > 64)
        {
            (int left, int right) = Partition(rest);
            if (rank <= right)
            {
                rest = rest[..(right + 1)];
            }
            else if (rank < left)
            {
                return rest[rank];
            }
            else
            {
                rest = rest[left..];
                rank -= left;
            }
        }

        rest.Sort();
        return rest[rank];
    }

    /// <summary>
    /// Hoare's partition: up to `right` nothing is larger than the pivot, from `left` on nothing is smaller, and what is in
    /// between equals it.
    /// </summary>
    private static (int Left, int Right) Partition(Span<long> values)
    {
        long pivot = values[values.Length / 2];
        int left = 0;
        int right = values.Length - 1;
        while (left <= right)
        {
            while (values[left] < pivot)
                left++;
            while (values[right] > pivot)
                right--;
            if (left > right)
                break;
            (values[left], values[right]) = (values[right], values[left]);
            left++;
            right--;
        }

        return (left, right);
    }
}
