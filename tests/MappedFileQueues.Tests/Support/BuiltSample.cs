using System.Diagnostics;

namespace MappedFileQueues.Tests.Support;

/// <summary>Builds programs of the folder samples, each once, as `dotnet run` does.</summary>
internal static class BuiltSample
{
    private static readonly Lock s_lock = new();
    private static readonly Dictionary<string, string> s_paths = [];

    /// <summary>The path of the program, for `dotnet exec`.</summary>
    public static string Of(string name)
    {
        lock (s_lock)
        {
            if (!s_paths.TryGetValue(name, out string? path))
                s_paths[name] = path = Build(name);
            return path;
        }
    }

    private static string Build(string name)
    {
        string source = Repository.PathOf($"samples/{name}.cs");
        ProcessStartInfo start = new(
            "dotnet",
            ["build", source, "-c", Repository.Configuration, "-t:Build", "-getProperty:TargetPath"])
        {
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            // A server of builds would outlive the tests.
            Environment = { ["MSBUILDDISABLENODEREUSE"] = "1", ["DOTNET_CLI_USE_MSBUILD_SERVER"] = "0" },
        };
        using Process process = Process.Start(start)!;
        Task<string> errors = process.StandardError.ReadToEndAsync();
        string output = process.StandardOutput.ReadToEnd();
        process.WaitForExit();
        Assert.True(process.ExitCode == 0, $"{source} cannot be built: {output}{errors.Result}");
        return output.Trim();
    }
}
