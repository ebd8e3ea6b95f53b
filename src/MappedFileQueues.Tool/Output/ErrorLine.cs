namespace MappedFileQueues.Tool.Output;

/// <summary>Writes errors, one line each, to standard error, so that a script can show or keep them.</summary>
internal static class ErrorLine
{
    /// <summary>Writes the line and returns the exit code that goes with it.</summary>
    public static int Write(string message, int exitCode)
    {
        try
        {
            ToolConsole.Error.WriteLine(TerminalText.ForError($"mfq: {OperatorWords.Of(message).ReplaceLineEndings(" ")}"));
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            // Standard error is closed, or on a full disk. There is nobody to tell, and the exit code still tells.
        }

        return exitCode;
    }
}
