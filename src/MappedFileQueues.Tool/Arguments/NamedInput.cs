namespace MappedFileQueues.Tool.Arguments;

/// <summary>A file that a command reads from its start to its end.</summary>
internal static class NamedInput
{
    /// <summary>The name of standard input.</summary>
    public const string Standard = "-";

    /// <summary>Opens it. The system's error for a directory, "access denied", sends the user to look at rights.</summary>
    public static Stream Open(string path)
    {
        try
        {
            return path == Standard ? OpenStandard()
                : !Directory.Exists(path) ? File.OpenRead(path)
                : throw new ToolException($"The input is a directory: path={SystemPath.Full(path)}. Name a file.");
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            throw new ToolException($"{error.Message.TrimEnd('.')}. Correct the path, or give - for standard input.");
        }
    }

    /// <summary>
    /// Reads it. A read of a pipe or a terminal may wait for ever, so a signal ends the wait; the read itself continues on a
    /// thread that nothing waits for any longer.
    /// </summary>
    public static InputReader Reader(Stream input, string path, int lineLengthMax, CancellationToken interrupted) =>
        new(
            input.CanSeek ? input.Read : (buffer, offset, count) =>
                Task.Run(() => input.Read(buffer, offset, count), CancellationToken.None)
                    .WaitAsync(interrupted).GetAwaiter().GetResult(),
            path == Standard ? "standard input" : path, lineLengthMax);

    /// <summary>Refuses one that is closed, a read from which would never end, and one such as a directory.</summary>
    private static Stream OpenStandard()
    {
        if (!StandardDescriptors.IsGiven(StandardDescriptors.Input))
            throw new ToolException("Standard input is closed. Name a file, or redirect standard input, also from /dev/null.");
        Stream input = ToolConsole.OpenInput();
        // On Windows a read of nothing would wait for something.
        if (OperatingSystem.IsWindows() || !ToolConsole.IsInputRedirected)
            return input;
        try
        {
            _ = input.Read([]);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            throw new ToolException($"Standard input cannot be read: {(error.InnerException ?? error).Message}. "
                + "Redirect it from a file or a pipe, or name a file.");
        }

        return input;
    }
}
