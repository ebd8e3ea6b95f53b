namespace MappedFileQueues.Tests.Support;

/// <summary>Finds the files of the checkout that the tests were built from.</summary>
internal static class Repository
{
    /// <summary>The folder that holds the solution file.</summary>
    public static string Root { get; } = FindRoot();

    /// <summary>
    /// What the tests were built as, `Debug` or `Release`; the child processes' programs were built the same way.
    /// </summary>
    public static string Configuration { get; } =
        new DirectoryInfo(AppContext.BaseDirectory.TrimEnd(Path.DirectorySeparatorChar)).Parent!.Name;

    /// <summary>The child process of the tests, as built beside them.</summary>
    public static string TestPeerPath => BuiltProgram("tests/MappedFileQueues.TestPeer", "MappedFileQueues.TestPeer.dll");

    /// <summary>The consuming application of the tests, as built beside them.</summary>
    public static string HostPeerPath => BuiltProgram("tests/MappedFileQueues.HostPeer", "MappedFileQueues.HostPeer.dll");

    /// <summary>The crash laboratory, as built beside the tests.</summary>
    public static string CrashLabPath => BuiltProgram("tests/MappedFileQueues.CrashLab", "MappedFileQueues.CrashLab.dll");

    /// <summary>The command line tool, as built beside the tests.</summary>
    public static string ToolPath => BuiltProgram("src/MappedFileQueues.Tool", "mfq.dll");

    /// <summary>The demo as it was built.</summary>
    public static string DemoPath => BuiltProgram("samples/Demo", "MappedFileQueues.Demo.dll");

    /// <summary>The project's benchmark, as built beside the tests.</summary>
    public static string BenchPath => BuiltProgram("bench/MappedFileQueues.Bench", "MappedFileQueues.Bench.dll");

    /// <summary>An absolute path from one relative to the root, which uses forward slashes.</summary>
    public static string PathOf(string relativePath) =>
        Path.Combine(Root, relativePath.Replace('/', Path.DirectorySeparatorChar));

    /// <summary>A path relative to the root, with forward slashes.</summary>
    public static string RelativePath(string path) => Path.GetRelativePath(Root, path).Replace(Path.DirectorySeparatorChar, '/');

    /// <summary>
    /// The files under a folder of the root that belong to the sources: build output and what is hidden are left out.
    /// A folder that is not there holds none.
    /// </summary>
    public static IEnumerable<string> SourceFiles(string folder, string pattern)
    {
        string start = PathOf(folder);
        if (!Directory.Exists(start))
            return [];
        return Directory.EnumerateFiles(start, pattern, SearchOption.AllDirectories)
            .Where(path => !Path.GetRelativePath(start, path).Split(Path.DirectorySeparatorChar).Any(IsNotSource))
            .Order(StringComparer.Ordinal);
    }

    private static bool IsNotSource(string name) => name is "bin" or "obj" or "artifacts" || name.StartsWith('.');

    private static string BuiltProgram(string projectFolder, string fileName)
    {
        string path = PathOf($"{projectFolder}/bin/{Configuration}/net10.0/{fileName}");
        if (!File.Exists(path))
            throw new FileNotFoundException($"The program was not built: path={path}. Build the solution.", path);
        return path;
    }

    private static string FindRoot()
    {
        for (DirectoryInfo? folder = new(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            if (File.Exists(Path.Combine(folder.FullName, "MappedFileQueues.slnx")))
                return folder.FullName;
        }

        throw new DirectoryNotFoundException($"No MappedFileQueues.slnx above the tests: start={AppContext.BaseDirectory}.");
    }
}
