using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>A file that a command reads from its start to its end.</summary>
internal static class NamedInput
{
    /// <summary>Opens it. The system's error for a directory, "access denied", sends the user to look at rights.</summary>
    public static FileStream Open(string path) => Directory.Exists(path)
        ? throw new ToolException($"The input is a directory: path={Path.GetFullPath(path)}. Name a file.")
        : File.OpenRead(path);

    /// <summary>
    /// Opens standard input. Refuses one that is closed, because a read from it would never end, and one that cannot be read,
    /// such as a directory.
    /// </summary>
    public static Stream OpenStandard()
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
