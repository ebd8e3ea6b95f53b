using System.Diagnostics;
using System.Text.RegularExpressions;

namespace MappedFileQueues.Tests.Models;

/// <summary>
/// The protocol models in `models/`: the design holds in its whole state space, and every variant that leaves a rule out fails as
/// the head of its file says. spin and gcc do the work; models/run compares, and is a step of `.ci/run`.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed partial class ProtocolModelTests
{
    /// <summary>
    /// It takes some seconds on idle cores, but it is nice to the tests beside it: on a busy machine it gets a
    /// tenth of one core.
    /// </summary>
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(5);

    /// <summary>A search that ends otherwise than its head says must not pass, whichever way round it is.</summary>
    [Theory]
    [InlineData("variant no-barrier fails:crashed -DNO_BARRIER", "variant no-barrier holds -DNO_BARRIER")]
    [InlineData("variant no-barrier fails:crashed -DNO_BARRIER", "variant no-barrier fails:stuck -DNO_BARRIER")]
    [InlineData("variant no-barrier fails:crashed -DNO_BARRIER", "variant no-barrier fails:crashed -DTHREADS=2")]
    public void Run_VariantThatEndsOtherwise_IsCountedAsDifferent(string line, string changed)
    {
        SkipWithoutSpin();
        using var folder = new TempStore();
        string script = Path.Combine(folder.Root, "run");
        File.Copy(Repository.PathOf("models/run"), script);
        string head = Blanks().Replace(File.ReadAllText(Repository.PathOf("models/dispose.pml")), " ");
        Assert.Contains(line, head, StringComparison.Ordinal);
        File.WriteAllText(
            Path.Combine(folder.Root, "dispose.pml"), head.Replace(line, changed, StringComparison.Ordinal));

        using ChildProcess run = StartModels(script, "dispose/no-barrier");

        Assert.Equal(1, run.WaitForExit(s_deadline));
        Assert.StartsWith("1 variants: 0 as expected, 1 different,", run.Lines[^1], StringComparison.Ordinal);
    }

    [Fact]
    public void Run_WithoutTools_ExitsWithTwoAndSaysWhatToInstall()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "The script needs bash.");
        using var empty = new TempStore();

        using ChildProcess run = ChildProcess.Start(
            new ProcessStartInfo("/bin/bash", [Repository.PathOf("models/run")]),
            new Dictionary<string, string> { ["PATH"] = empty.Root });

        Assert.Equal(2, run.WaitForExit());
        Assert.Contains("spin is not installed", run.ErrorText, StringComparison.Ordinal);
        Assert.Contains("apt-get install spin", run.ErrorText, StringComparison.Ordinal);
    }

    [Fact]
    public void Heads_All_NameTheDesignAWitnessAndWhatBreaks()
    {
        string[] models = [.. Repository.SourceFiles("models", "*.pml")];
        Assert.Equal(14, models.Length);
        foreach (string model in models)
        {
            string[] variants = [.. File.ReadLines(model).Where(line => line.StartsWith("variant ", StringComparison.Ordinal))];
            Assert.Contains(variants, line => DesignVariant().IsMatch(line));
            Assert.Contains(variants, line => WitnessVariant().IsMatch(line));
            Assert.All(variants, line => Assert.Matches(Variant(), line));
            Assert.True(variants.Length >= 6, $"{Repository.RelativePath(model)}: {variants.Length} variants");
        }
    }

    /// <summary>With less of a claim on the processors than the tests beside it, some of which measure time.</summary>
    private static ChildProcess StartModels(string script, params IEnumerable<string> arguments) =>
        ChildProcess.Start(new ProcessStartInfo("nice", ["-n", "10", "bash", script, .. arguments]));

    private static void SkipWithoutSpin()
    {
        string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
        if (!folders.Any(folder => File.Exists(Path.Combine(folder, "spin"))))
            Assert.Skip("spin is not installed");
    }

    [GeneratedRegex(@"^variant design\s+holds\b")]
    private static partial Regex DesignVariant();

    [GeneratedRegex(@"^variant witness\s+fails:witness\s+-DWITNESS$")]
    private static partial Regex WitnessVariant();

    [GeneratedRegex(@"^variant [a-z-]+\s+(full-)?(holds|fails:[a-z]+(\|[a-z]+)*)(\s+-D[A-Z][A-Z0-9_]*(=\d+)?)*$")]
    private static partial Regex Variant();

    [GeneratedRegex(" {2,}")]
    private static partial Regex Blanks();
}
