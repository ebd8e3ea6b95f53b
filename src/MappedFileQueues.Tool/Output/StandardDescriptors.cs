namespace MappedFileQueues.Tool.Output;

/// <summary>
/// Which of the three standard descriptors this process was given. A shell closes one with `&lt;&amp;-`, and then the runtime
/// gets its number for a pipe of its own: a read from it waits for ever, and a write goes into the runtime.
/// </summary>
internal static class StandardDescriptors
{
    public const int Input = 0;
    public const int Output = 1;
    public const int Error = 2;

    /// <summary>Of open(2) on Linux. The runtime opens its own files with it, and nothing that has it outlives an exec.</summary>
    private const int CloseOnExec = 0x80000;

    /// <summary>True if a descriptor was handed to this process. Only Linux tells; elsewhere it counts as handed over.</summary>
    public static bool IsGiven(int descriptor)
    {
        if (ToolConsole.IsRedirected)
            return true;
        try
        {
            string? flags = File.ReadLines($"/proc/self/fdinfo/{descriptor}")
                .FirstOrDefault(line => line.StartsWith("flags:", StringComparison.Ordinal));
            return flags is null || (Convert.ToInt32(flags["flags:".Length..].Trim(), 8) & CloseOnExec) == 0;
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException or FormatException)
        {
            return error is not FileNotFoundException;
        }
    }
}
