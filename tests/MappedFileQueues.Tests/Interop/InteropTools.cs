namespace MappedFileQueues.Tests.Interop;

/// <summary>The compilers and interpreters that the readers in other languages need.</summary>
internal static class InteropTools
{
    /// <summary>Whether a program is on the path.</summary>
    public static bool Has(string program) =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator)
            .Any(folder => folder.Length > 0 && File.Exists(Path.Combine(folder, program)));
}
