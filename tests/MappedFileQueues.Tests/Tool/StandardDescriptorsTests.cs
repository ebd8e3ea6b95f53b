using System.Diagnostics;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// A shell, or a daemon, that closes a standard descriptor: `mfq produce` waited for ever in a read from a pipe that the runtime
/// had made in the place of standard input, and `mfq info` said "Access to the path is denied" and named no path.
/// </summary>
[Trait("Category", "Slow")]
public sealed class StandardDescriptorsTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("produce", "Standard input is closed")]
    [InlineData("import", "Standard input is closed")]
    public void Run_WithoutStandardInput_SaysSoAndMakesNoStore(string command, string expected)
    {
        RunInShell($"{command} '{_temp.StorePath}' <&-").ExpectError(expected);

        Assert.False(Directory.Exists(_temp.StorePath));
    }

    [Theory]
    [InlineData(">&-")]
    [InlineData("<&- >&-")]
    public void Run_WithoutStandardOutput_SaysSoAndDoesNothing(string redirection)
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "3").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);

        RunInShell($"info '{_temp.StorePath}' {redirection}").ExpectError("Standard output is closed");
        RunInShell($"consume '{_temp.StorePath}' --consumer a --commit {redirection}").ExpectError("Standard output is closed");

        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
    }

    /// <summary>The exit code still tells.</summary>
    [Fact]
    public void Run_WithoutStandardError_WorksAndFailsAsBefore()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "3").Expect(0);

        Assert.Equal(3, RunInShell($"consume '{_temp.StorePath}' 2>&-").Expect(0).Lines.Length);
        RunInShell($"consume '{_temp.StorePath}x' 2>&-").Expect(1);
        RunInShell($"consume '{_temp.StorePath}x' <&- >&- 2>&-").Expect(1);
    }

    private static ToolRun RunInShell(string arguments)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux tells which descriptors were given.");
        return ToolRun.Start(new ProcessStartInfo("sh", ["-c", $"exec dotnet exec '{Repository.ToolPath}' {arguments}"]), []);
    }
}
