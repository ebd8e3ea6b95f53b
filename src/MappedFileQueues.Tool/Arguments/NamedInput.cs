using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Arguments;

/// <summary>A file that a command reads from its start to its end.</summary>
internal static class NamedInput
{
    /// <summary>Opens it. The system's error for a directory, "access denied", sends the user to look at rights.</summary>
    public static FileStream Open(string path) => Directory.Exists(path)
        ? throw new ToolException($"The input is a directory: path={Path.GetFullPath(path)}. Name a file.")
        : File.OpenRead(path);

    /// <summary>Opens standard input; refuses one that is closed, because a read from it would never end.</summary>
    public static Stream OpenStandard() => StandardDescriptors.IsGiven(StandardDescriptors.Input)
        ? Console.OpenStandardInput()
        : throw new ToolException("Standard input is closed. Name a file, or redirect standard input, also from /dev/null.");
}
