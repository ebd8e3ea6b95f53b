using System.Globalization;

namespace MappedFileQueues.Tests.Crash;

/// <summary>A run of the crash laboratory with a fresh seed, which the test's output names.</summary>
internal static class CrashLabRun
{
    public static ChildProcess Start(ITestOutputHelper output, string part, params string[] more)
    {
        string seed = (Environment.TickCount & int.MaxValue).ToString(CultureInfo.InvariantCulture);
        output.WriteLine($"--only {part} --seed {seed} {string.Join(' ', more)}");
        return ChildProcess.Start(Repository.CrashLabPath, ["--only", part, "--seed", seed, "--jobs", "1", .. more]);
    }
}
