using System.Diagnostics;

namespace MappedFileQueues.Tests.Support;

/// <summary>
/// How a built program is started: by `dotnet exec`. Where the tests run in the runtime of another system, `dotnet` would be
/// missing or that of this machine; `.ci/others` then names a folder that holds a starter for each program.
/// </summary>
internal static class BuiltProgram
{
    private static readonly string? s_starters = Environment.GetEnvironmentVariable("MFQ_TEST_STARTERS");

    /// <summary>The command line of a program.</summary>
    /// <param name="path">Its dll.</param>
    /// <param name="arguments">What it gets.</param>
    public static ProcessStartInfo StartInfo(string path, params IEnumerable<string> arguments) => s_starters is null
        ? new ProcessStartInfo("dotnet", ["exec", path, .. arguments])
        : new ProcessStartInfo(
            Path.Combine(s_starters, Path.ChangeExtension(Path.GetFileName(path), OperatingSystem.IsWindows() ? ".exe" : null)),
            arguments);
}
