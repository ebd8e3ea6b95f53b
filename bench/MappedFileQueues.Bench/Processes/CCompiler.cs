using System.ComponentModel;

namespace MappedFileQueues.Bench.Processes;

/// <summary>The C compiler of this machine.</summary>
internal static class CCompiler
{
    private static readonly string[] s_compilers = ["cc", "gcc", "clang"];

    /// <summary>Compiles sources of the checkout with the first compiler that is there.</summary>
    public static void Compile(string output, string[] flags, string[] sources)
    {
        string[] paths = [.. sources.Select(OtherProgram.FindSource)];
        foreach (string compiler in s_compilers)
        {
            try
            {
                OtherProgram.Run(compiler, [.. flags, "-o", output, .. paths]);
                return;
            }
            catch (Win32Exception)
            {
                // Not installed; the next one may be.
            }
        }

        throw new ToolException(
            $"No C compiler was found for {sources[0]}: tried={string.Join(' ', s_compilers)}. Install one of them.");
    }
}
