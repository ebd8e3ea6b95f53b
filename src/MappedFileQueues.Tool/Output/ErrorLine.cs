namespace MappedFileQueues.Tool.Output;

/// <summary>Writes errors, one line each, to standard error, so that a script can show or keep them.</summary>
internal static class ErrorLine
{
    /// <summary>Writes the line and returns the exit code that goes with it.</summary>
    public static int Write(string message, int exitCode)
    {
        Console.Error.WriteLine($"mfq: {OperatorWords.Of(message).ReplaceLineEndings(" ")}");
        return exitCode;
    }
}
