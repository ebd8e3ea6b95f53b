using System.Text.RegularExpressions;

namespace MappedFileQueues.Tests.Tool;

/// <summary>What every command has: an example in its help, and a place in the completion of a shell.</summary>
public sealed partial class HelpTests
{
    [Fact]
    public void Help_EveryCommand_HasAnExample()
    {
        List<(string[] Command, string Help)> commands = [];
        Find([], commands);

        Assert.Contains(commands, each => each.Command is ["pack", "verify"]);
        Assert.All(commands, each =>
        {
            (string[] command, string help) = each;
            Assert.True(
                Spaces().Replace(help, " ").Contains($"`mfq {string.Join(' ', command)}", StringComparison.Ordinal)
                    || command is ["completion"],
                $"mfq {string.Join(' ', command)} --help has no example:\n{help}");
        });
    }

    /// <summary>The commands of `mfq pack` showed two of the name `--output`, with different words.</summary>
    [Theory]
    [InlineData("pack", "list")]
    [InlineData("pack", "create")]
    [InlineData("bridge", "forward")]
    public void Help_OfACommand_NamesAnOptionOnce(params string[] command)
    {
        string[] options =
        [
            .. ToolRun.Of([.. command, "--help"]).Expect(0).Lines
                .Select(line => line.TrimStart()).Where(line => line.StartsWith("--", StringComparison.Ordinal))
                .Select(line => line.Split(' ')[0]),
        ];

        Assert.Contains("--output", options);
        Assert.Equal(options.Distinct(), options);
    }

    [Theory]
    [InlineData("bash")]
    [InlineData("zsh")]
    [InlineData("pwsh")]
    public void Completion_EachShell_IsAScriptThatAsksTheProgram(string shell) =>
        Assert.Contains("[suggest:", ToolRun.Of("completion", shell).Expect(0).Text, StringComparison.Ordinal);

    [Fact]
    public void Completion_UnknownShell_IsWrongUsage() =>
        Assert.Contains("bash", ToolRun.Of("completion", "fish").Expect(2).Error, StringComparison.Ordinal);

    [Theory]
    [InlineData("mfq ver", "verify")]
    [InlineData("mfq consume orders --form", "--format")]
    [InlineData("mfq consume orders --format ", "hex")]
    public void Suggest_ALineThatIsNotWholeYet_GivesWhatMayFollow(string line, string expected) =>
        Assert.Contains(expected, ToolRun.Of($"[suggest:{line.Length}]", line).Expect(0).Lines);

    /// <summary>It was "an error of mfq itself, please report it".</summary>
    [Theory]
    [InlineData("[suggest:-1]")]
    [InlineData("[suggest:99]")]
    public void Suggest_PlaceIsOutsideTheLine_IsNoError(string question) =>
        Assert.Empty(ToolRun.Of(question, "mfq").Expect(0).Error);

    /// <summary>The script as bash runs it: the words that it offers for a line.</summary>
    [Fact]
    public void Completion_InBash_OffersCommands()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "There is no bash.");
        const string Script =
            """
            mfq() { dotnet exec "$TOOL" "$@"; }
            eval "$(mfq completion bash)"
            COMP_LINE='mfq rep' COMP_POINT=7 COMP_WORDS=(mfq rep) COMP_CWORD=1
            _mfq_complete
            printf '%s\n' "${COMPREPLY[@]}"
            """;
        System.Diagnostics.ProcessStartInfo start = new("bash", ["-c", Script]);
        start.Environment["TOOL"] = Repository.ToolPath;

        Assert.Equal(["repair", "replay"], ToolRun.Start(start, []).Expect(0).Lines.Order(StringComparer.Ordinal));
    }

    private static void Find(string[] command, List<(string[] Command, string Help)> found)
    {
        string help = ToolRun.Of([.. command, "--help"]).Expect(0).Text;
        int at = help.IndexOf("Commands:\n", StringComparison.Ordinal);
        if (at < 0)
        {
            found.Add((command, help));
            return;
        }

        foreach (Match match in CommandLine().Matches(help[at..]))
            Find([.. command, match.Groups[1].Value], found);
    }

    /// <summary>A name at the beginning of a line of the list; the lines that its text continues in are indented
    /// further.</summary>
    [GeneratedRegex(@"^  ([a-z][a-z0-9-]*) ", RegexOptions.Multiline)]
    private static partial Regex CommandLine();

    [GeneratedRegex(@"\s+")]
    private static partial Regex Spaces();
}
