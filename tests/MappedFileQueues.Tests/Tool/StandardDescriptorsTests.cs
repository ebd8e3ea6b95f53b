using System.Diagnostics;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// A shell, or a daemon, that closes a standard descriptor: `mfq produce` waited for ever in a read from a pipe that the runtime
/// had made in the place of standard input, and `mfq info` said "Access to the path is denied" and named no path. And standard
/// streams that nobody reads any longer, or that cannot be read.
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

    /// <summary>`mfq produce` said "Is a directory" and left an empty store.</summary>
    [Theory]
    [InlineData("produce", "< /tmp", "Is a directory")]
    [InlineData("import", "< /tmp", "Is a directory")]
    [InlineData("produce", "0> /dev/null", "Bad file descriptor")]
    public void Run_StandardInputCannotBeRead_SaysWhyAndMakesNoStore(string command, string redirection, string reason)
    {
        RunInShell($"{command} '{_temp.StorePath}' {redirection}").ExpectError("Standard input cannot be read", reason);

        Assert.False(Directory.Exists(_temp.StorePath));
    }

    /// <summary>The error for a file that exists advised to remove it, also when that was /dev/null.</summary>
    [Theory]
    [InlineData("/dev/null")]
    [InlineData("/dev/stdout")]
    [InlineData("pipe")]
    public void Export_ToADeviceOrPipe_NamesTheRedirection(string target)
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "3").Expect(0);
        string path = Path.Combine(_temp.Root, target);

        ToolRun run = RunInShell(
            $"export '{_temp.StorePath}' --to '{path}'", target == "pipe" ? $"mkfifo '{path}'" : "true");

        run.ExpectError("This is a device or a pipe", path, "redirect standard output");
    }

    /// <summary>
    /// A command that waits for messages did not notice that the reader of its output had gone, and ended only at the next
    /// message.
    /// </summary>
    [Theory]
    [InlineData("tail")]
    [InlineData("consume --consumer a --commit --follow")]
    [InlineData("top")]
    public void Follow_TheReaderOfThePipeGoes_Ends(string command)
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "30").Expect(0);
        string path = command == "top" ? _temp.Root : _temp.StorePath;

        // The shell's own end of the pipe is closed: `head` has the only one.
        ToolRun run = RunInShell(
            $"{command} '{path}' > '{_temp.Root}/pipe'; echo \"code $?\"",
            $"mkfifo '{_temp.Root}/pipe'; head -n 1 '{_temp.Root}/pipe' &",
            isLast: false);

        Assert.Equal("code 0", run.Expect(0).Lines.Order(StringComparer.Ordinal).Last());
        Assert.Empty(run.Error);
    }

    /// <summary>An import from a pipe that has a name ended after its first message, as an error of mfq itself.</summary>
    [Fact]
    public void Import_FromANamedPipe_AppendsEveryMessage()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "30").Expect(0);
        string export = Path.Combine(_temp.Root, "export");
        ToolRun.Of("export", _temp.StorePath, "--to", export).Expect(0);
        string copy = Path.Combine(_temp.Root, "copy");
        string pipe = Path.Combine(_temp.Root, "pipe");

        RunInShell($"import '{copy}' '{pipe}'", $"mkfifo '{pipe}'; cat '{export}' > '{pipe}' &").Expect(0);

        Assert.Equal(30, ToolRun.Of("consume", copy).Expect(0).Lines.Length);
    }

    /// <summary>It was an error of the command: exit code 1.</summary>
    [Fact]
    public void Get_TheReaderOfThePipeGoes_IsDone()
    {
        string file = Path.Combine(_temp.Root, "big");
        File.WriteAllBytes(file, new byte[1_000_000]);
        ToolRun.Of("pack", "add", _temp.StorePath, file).Expect(0);

        ToolRun run = RunInShell(
            $"pack get '{_temp.StorePath}' big > '{_temp.Root}/pipe'; echo \"code $?\"",
            $"mkfifo '{_temp.Root}/pipe'; head -c 10 '{_temp.Root}/pipe' > /dev/null &",
            isLast: false);

        Assert.Equal("code 0", run.Expect(0).Lines.Single());
        Assert.Empty(run.Error);
    }

    /// <summary>A file that grew beyond `ulimit -f` ended the command by SIGXFSZ, without a word.</summary>
    [Theory]
    [InlineData("export", "--to '{0}'")]
    [InlineData("consume", "> '{0}'")]
    public void Run_OutputOutgrowsTheLimitOfFiles_SaysSo(string command, string output)
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "10000", "--size", "1000").Expect(0);
        string path = Path.Combine(_temp.Root, "output");

        RunInShell($"{command} '{_temp.StorePath}' {string.Format(null, output, path)}", "ulimit -c 0; ulimit -f 4096")
            .ExpectError("limit of file sizes");
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

    private static ToolRun RunInShell(string arguments, string before = "true", bool isLast = true)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Only Linux tells which descriptors were given.");
        string exec = isLast ? "exec " : "";
        return ToolRun.Start(
            new ProcessStartInfo("sh", ["-c", $"{before}\n{exec}dotnet exec '{Repository.ToolPath}' {arguments}"]), []);
    }
}
