using System.Diagnostics;
using System.Text;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq tail` and `mfq top` wrote the bytes of messages, and the names of folders, to the terminal as they were. A message could
/// set the window's title, clear the screen, or make the terminal type an answer into the shell.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class TerminalTextTests : IDisposable
{
    /// <summary>A title, a screen that is cleared, and a sequence that begins with one character of two bytes.</summary>
    private static readonly byte[] s_hostile = Encoding.UTF8.GetBytes("é\t\e]0;owned\a\e[2J\u009b31m\u202e€");

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("plain é€\ud83d\ude00\ttab\nline\r\nline", "plain é€\ud83d\ude00\ttab\nline\r\nline")]
    [InlineData("\e[2J\a\0\u007f", "\\x1B[2J\\x07\\x00\\x7F")]
    [InlineData("over\rwritten\r", "over\\x0Dwritten\\x0D")]
    [InlineData("\u009b31m\u0085", "\\u009B31m\\u0085")]
    [InlineData("abc\u202edef\u2028\ufeff\u00ad", "abc\\u202Edef\\u2028\\uFEFF\\u00AD")]
    [InlineData("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e")]
    public void Neutralise_Text_ShowsWhatATerminalWouldObey(string text, string expected) =>
        Assert.Equal(expected, TerminalText.Neutralise(text));

    /// <summary>Wherever the writes are cut, and with bytes that are no UTF-8: some terminals obey 0x9B alone.</summary>
    [Fact]
    public void Write_BytesInPiecesOfAnyLength_ShowsTheSame()
    {
        byte[] bytes = [.. "a\r\nb\rc"u8, .. s_hostile, 0x9B, 0xE2, 0x82, (byte)'x', 0xF0, 0x9F, 0x98, 0x80, 0xC3];
        const string Expected = "a\r\nb\\x0Dcé\t\\x1B]0;owned\\x07\\x1B[2J\\u009B31m\\u202E€\\x9B\\xE2\\x82x\ud83d\ude00\\xC3";
        for (int length = 1; length <= bytes.Length; length++)
        {
            using MemoryStream terminal = new();
            using (TerminalStream stream = new(terminal))
            {
                foreach (byte[] piece in bytes.Chunk(length))
                    stream.Write(piece);
            }

            Assert.Equal(Expected, Encoding.UTF8.GetString(terminal.ToArray()));
        }
    }

    [Theory]
    [InlineData("tail", "--no-follow")]
    [InlineData("consume", "--format", "text")]
    public void Show_HostileMessage_IsNeutralOnATerminalAndExactOnAPipe(string command, params string[] options)
    {
        ToolRun.WithInput([.. s_hostile, (byte)'\n'], "produce", _temp.StorePath).Expect(0);

        ToolRun shown = OnTerminal(command, _temp.StorePath, options);
        ToolRun piped = ToolRun.Of([command, _temp.StorePath, .. options]).Expect(0);

        Assert.Contains("é\t\\x1B]0;owned\\x07\\x1B[2J\\u009B31m\\u202E€", shown.Text, StringComparison.Ordinal);
        Assert.DoesNotContain('\e', shown.Text);
        Assert.Equal([.. s_hostile, (byte)'\n'], piped.Output);
    }

    [Fact]
    public void Top_HostileName_IsNeutralOnATerminal()
    {
        string store = Path.Combine(_temp.Root, "a\e]0;owned\a");
        ToolRun.Of("produce", store, "--messages", "1").Expect(0);

        ToolRun shown = OnTerminal("top", _temp.Root, ["--once"]);
        ToolRun failed = OnTerminal("info", store + "x", [], exitCode: 1);

        Assert.Contains("\\x1B]0;", shown.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("\e]0;", shown.Text, StringComparison.Ordinal);
        Assert.Contains("\\x1B]0;", failed.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("\e]0;", failed.Text, StringComparison.Ordinal);
    }

    /// <summary>
    /// What writes to a terminal otherwise than by the classes that neutralise: the drawing of tables, escape sequences of the
    /// tool itself, JSON, which escapes, and lines for a parent process.
    /// </summary>
    [Fact]
    public void Sources_WritesToTheConsole_AreWhereTextIsNeutralised()
    {
        string[] allowed =
        [
            "Output/ErrorLine.cs", "Output/OutputLine.cs",
            "Output/ProgressLine.cs", "Output/Report.cs", "Output/Result.cs", "Top/TopCommand.cs",
        ];
        const string Folder = "src/MappedFileQueues.Tool/";

        Assert.Equal(
            allowed,
            Repository.SourceFiles(Folder, "*.cs")
                .Where(path => ConsoleWrite().IsMatch(File.ReadAllText(path)))
                .Select(path => Repository.RelativePath(path)[Folder.Length..]).Order(StringComparer.Ordinal));
    }

    [System.Text.RegularExpressions.GeneratedRegex(@"Console\.(Out\.|Error\.)?Write")]
    private static partial System.Text.RegularExpressions.Regex ConsoleWrite();

    /// <summary>Where a demo keeps its store, and what a bench measured in, came from the command line as they were.</summary>
    [Fact]
    public void Check_HostileNames_AreNeutralOnATerminal()
    {
        string folder = Path.Combine(_temp.Root, "a\e]0;owned\a");
        foreach (string name in new[] { "one", "two" })
            ToolRun.Of("produce", Path.Combine(folder, name, "same"), "--messages", "1").Expect(0);

        ToolRun shown = OnTerminal("check", folder, []);

        Assert.Contains("\\x1B]0;owned\\x07/one/same", shown.Text, StringComparison.Ordinal);
        Assert.DoesNotContain("\e]0;", shown.Text, StringComparison.Ordinal);
    }

    private static ToolRun OnTerminal(string command, string path, string[] options, int exitCode = 0)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && File.Exists("/usr/bin/script"), "The terminal is made by script.");
        string line = $"stty -onlcr cols 300; exec dotnet exec '{Repository.ToolPath}' {command} '{path}' "
            + string.Join(' ', options);
        return ToolRun.Start(new ProcessStartInfo("script", ["-q", "-e", "-c", line, "/dev/null"]), []).Expect(exitCode);
    }
}
