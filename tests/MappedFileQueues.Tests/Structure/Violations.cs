namespace MappedFileQueues.Tests.Structure;

/// <summary>Fails with every violation in full; the framework's own message would cut them short.</summary>
internal static class Violations
{
    public static void None(IEnumerable<string> violations)
    {
        string[] all = [.. violations];
        Assert.True(all.Length == 0, $"{all.Length} violations:\n{string.Join('\n', all)}");
    }
}
