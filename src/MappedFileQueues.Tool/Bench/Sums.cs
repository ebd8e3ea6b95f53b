namespace MappedFileQueues.Tool.Bench;

/// <summary>A figure counts only when what was read is what was written.</summary>
internal static class Sums
{
    public static void Check(string name, ulong sum, ulong expected)
    {
        if (sum != expected)
        {
            throw new ToolException(
                $"The messages that were read are not those that were written: figure={name}, sum={sum}, expected={expected}.");
        }
    }
}
