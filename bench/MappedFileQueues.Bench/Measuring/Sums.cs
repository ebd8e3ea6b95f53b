namespace MappedFileQueues.Bench.Measuring;

/// <summary>Checks that a run read what it wrote; only then its figure counts.</summary>
internal static class Sums
{
    public static void Check(string name, ulong sum, ulong expected)
    {
        if (sum != expected)
        {
            throw new ToolException(
                $"The messages read differ from those written: figure={name}, sum={sum}, expected={expected}.");
        }
    }
}
