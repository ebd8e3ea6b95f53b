using System.Diagnostics;
using System.Text.Json;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq top`: what it shows, on a terminal too, and that it works while the programs on a store hang.</summary>
[Trait("Category", "Slow")]
public sealed class TopTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void TopOnce_StoresBelowAFolder_AreShownAndNotTouched()
    {
        string inner = Path.Combine(_temp.Root, "a", "b", "orders");
        ToolRun.Of("produce", inner, "--messages", "10", "--size", "56").Expect(0);
        ToolRun.Of("consume", inner, "--consumer", "billing", "--commit", "--count", "4").Expect(0);
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.Root);

        string text = ToolRun.Of("top", _temp.Root, "--once").Expect(0).Text;
        ToolRun json = ToolRun.Of("top", _temp.Root, "--once", "--output", "json").Expect(0);
        JsonElement[] stores = [.. JsonDocument.Parse(json.Output).RootElement.GetProperty("stores").EnumerateArray()];

        Assert.Matches("a/b/orders +640 +- +384 +- +billing .* ok\n", text);
        Assert.Equal(["a/b/orders", "store"], stores.Select(store => store.GetProperty("store").GetString()));
        Assert.Equal(384, stores[0].GetProperty("lag").GetInt64());
        Assert.Equal("ok", stores[0].GetProperty("state").GetString());
        Assert.Equal(before, StoreSnapshot.Of(_temp.Root));
        Assert.StartsWith("No store below", ToolRun.Of("top", Path.Combine(inner, "locks"), "--once").Expect(0).Text,
            StringComparison.Ordinal);
        ToolRun.Of("top", Path.Combine(_temp.Root, "nowhere"), "--once").ExpectError("no such folder");
    }

    /// <summary>A program that is stopped in a claim blocks its store; the picture after the next one says who it is.</summary>
    [Fact]
    public void Top_OwnerHangsInAClaim_NamesIt()
    {
        using var store = new CrashStore();
        using PeerAgent child = store.StartAttached();
        child.Trap("Claimed", 1, "stop");
        child.Send("append what=single prefix=c count=3 size=200");
        child.WaitUntilStopped();

        using ChildProcess top = ChildProcess.StartTool("top", store.Path, "--interval", "100ms", "--output", "json");
        string line = top.WaitForLine(line => line.Contains("BLOCKED", StringComparison.Ordinal));
        top.Signal(ChildProcess.SigTerm);

        Assert.Contains($"pid {child.Id}", line, StringComparison.Ordinal);
        Assert.Equal(143, top.WaitForExit());
    }

    /// <summary>On a real terminal: the screen as a person sees it, renewed in place; then the one from before.</summary>
    [Fact]
    public void Top_OnATerminal_DrawsItsScreenAndLeavesIt()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Terminal.IsThere, "tmux cannot be had.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "10", "--size", "56").Expect(0);
        using Terminal terminal = new(_temp.Root);
        terminal.Type($"dotnet exec '{Repository.ToolPath}' top '{_temp.Root}' --interval 200ms; echo the-end");

        string screen = terminal.WaitFor(text => text.Contains("640", StringComparison.Ordinal));
        Assert.Contains("store", screen, StringComparison.Ordinal);
        Assert.Contains("╭", screen, StringComparison.Ordinal);
        int rows = CountRows(screen);
        ToolRun.Of("produce", _temp.StorePath, "--messages", "10", "--size", "56").Expect(0);
        screen = terminal.WaitFor(text => text.Contains("1,280", StringComparison.Ordinal));
        Assert.Equal(rows, CountRows(screen));
        Assert.Single(screen.Split('\n'), line => line.Contains("UTC", StringComparison.Ordinal));
        terminal.Press("q");

        // The screen from before is back: the command that was typed is above what it prints.
        screen = terminal.WaitFor(text => text.Split('\n').Any(line => line.Trim() == "the-end"));
        Assert.DoesNotContain("1,280", screen, StringComparison.Ordinal);
    }

    /// <summary>
    /// The table of eleven columns was drawn in 80: words of three letters a line, a store over half the screen. Stores was in
    /// the order of their paths, so that what was wrong had scrolled away.
    /// </summary>
    [Theory]
    [InlineData(80)]
    [InlineData(40)]
    public void Top_SmallTerminal_ShowsTheWorstFirstAndFits(int columns)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Terminal.IsThere, "tmux cannot be had.");
        foreach (string name in Enumerable.Range(0, 20).Select(i => $"a{i:00}").Append("broken").Append("poisoned"))
        {
            MappedFileQueueOptions options = new() { StorePath = Path.Combine(_temp.Root, "s", name), SegmentSize = 4096 };
            using MappedFileQueue queue = new(options);
            queue.Producer.Produce("one"u8);
        }

        File.WriteAllText(Path.Combine(_temp.Root, "s", "poisoned", "poison"), "");
        File.WriteAllText(Path.Combine(_temp.Root, "s", "broken", "queue.meta"), "no meta page");
        using Terminal terminal = new(_temp.Root, columns, 24);
        terminal.Type($"dotnet exec '{Repository.ToolPath}' top '{_temp.Root}/s' --interval 200ms; echo the-end");

        string[] lines = terminal.WaitFor(text => text.Contains("more", StringComparison.Ordinal)).TrimEnd().Split('\n');

        Assert.EndsWith("UTC", lines[0].TrimEnd(), StringComparison.Ordinal);
        Assert.Equal("22 stores: 1 CRITICAL, 1 UNKNOWN, 20 OK", lines[1].TrimEnd());
        Assert.Equal("CRITICAL poisoned", lines[2].TrimEnd());
        Assert.Equal("  POISONED: a flush failed", lines[3].TrimEnd());
        string[] rest = [.. lines.SkipWhile(line => line.TrimEnd() != "UNKNOWN broken").Skip(1)];
        Assert.Contains("meta page", string.Concat(rest.TakeWhile(line => line.StartsWith(' '))), StringComparison.Ordinal);
        Assert.Equal("OK a00", rest.First(line => !line.StartsWith(' ')).TrimEnd());
        Assert.Matches("^… and [0-9]+ stores more", lines[^1]);
        Assert.InRange(lines.Length, 20, 24);
        terminal.Press("q");
        terminal.WaitFor(text => text.Split('\n').Any(line => line.Trim() == "the-end"));
    }

    /// <summary>
    /// In 5 lines of 20 the one that is poisoned was among "3 stores more". Names of characters that take two columns made the
    /// terminal wrap, so that it scrolled the first line away.
    /// </summary>
    [Fact]
    public void Top_TinyTerminal_NamesTheWorst()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Terminal.IsThere, "tmux cannot be had.");
        string worst = Path.Combine(_temp.Root, "s", new string('漢', 40) + "😀終");
        foreach (string path in new[] { worst, Path.Combine(_temp.Root, "s", "b"), Path.Combine(_temp.Root, "s", "c") })
            new MappedFileQueue(new MappedFileQueueOptions { StorePath = path, SegmentSize = 4096 }).Dispose();
        File.WriteAllText(Path.Combine(worst, "poison"), "");
        using Terminal terminal = new(_temp.Root, 20, 6);
        terminal.Type($"dotnet exec '{Repository.ToolPath}' top '{_temp.Root}/s' --interval 200ms");

        string screen = terminal.WaitFor(text => text.Contains("more", StringComparison.Ordinal));

        string[] lines = [.. screen.TrimEnd().Split('\n').Select(line => line.TrimEnd())];
        Assert.EndsWith("UTC", lines[0], StringComparison.Ordinal);
        Assert.Equal(["3 stores: 1", "CRITICAL, 2 OK", "CRITICAL …漢漢漢😀終"], lines[1..4]);
        Assert.Equal("… and 2 stores more", lines[^1]);
        terminal.Press("q");
    }

    /// <summary>`top` called each of them critical, `check` only the damaged one.</summary>
    [Fact]
    public void Top_CursorThatCannotBeRead_IsWhatCheckSays()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").Expect(0);
        string folder = Path.Combine(_temp.StorePath, "offset", "consumers");
        Directory.CreateDirectory(Path.Combine(folder, "a.cursor"));

        Assert.Equal(1, ToolRun.Of("check", _temp.StorePath).ExitCode);
        Assert.Contains("WARNING: CONSUMER UNKNOWN", ToolRun.Of("top", _temp.Root, "--once").Text, StringComparison.Ordinal);

        File.WriteAllText(Path.Combine(folder, "b.cursor"), "damaged");

        Assert.Equal(2, ToolRun.Of("check", _temp.StorePath).ExitCode);
        string text = ToolRun.Of("top", _temp.Root, "--once").Text;
        Assert.Matches("CRITICAL: CONSUMER UNKNOWN: .* consumer=\"b\"", text);
    }

    private static int CountRows(string screen) => screen.Split('\n').Count(line => line.Contains('│', StringComparison.Ordinal));

    /// <summary>A bar shows on a terminal after a second, and goes away; a redirected run has none.</summary>
    [Fact]
    public void Verify_OnATerminal_DrawsATableWithoutABarLeft()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Terminal.IsThere, "tmux cannot be had.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "10", "--size", "56").Expect(0);
        using Terminal terminal = new(_temp.Root);
        terminal.Type($"dotnet exec '{Repository.ToolPath}' verify '{_temp.StorePath}'; echo the-end");

        string screen = terminal.WaitFor(text => text.Split('\n').Any(line => line.Trim() == "the-end"));

        Assert.Contains("all whole", screen, StringComparison.Ordinal);
        Assert.DoesNotContain("verifying [", screen, StringComparison.Ordinal);
    }

    /// <summary>A terminal of its own, by tmux.</summary>
    private sealed class Terminal : IDisposable
    {
        private readonly string _socket;

        public Terminal(string folder, int columns = 180, int rows = 30)
        {
            _socket = Path.Combine(folder, "tmux");
            string[] size = ["-x", $"{columns}", "-y", $"{rows}"];
            Tmux(["-f", "/dev/null", "new-session", "-d", .. size, "env PS1='$ ' LANG=C.UTF-8 bash --norc"]);
        }

        public static bool IsThere => (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':')
            .Any(folder => File.Exists(Path.Combine(folder, "tmux")));

        public void Type(string line)
        {
            Tmux("send-keys", "-l", line);
            Press("Enter");
        }

        public void Press(string key) => Tmux("send-keys", key);

        public string WaitFor(Func<string, bool> predicate)
        {
            string screen = "";
            Eventually.True(() => predicate(screen = Tmux("capture-pane", "-p")), "the screen shows it");
            return screen;
        }

        public void Dispose() => Tmux("kill-server");

        private string Tmux(params string[] arguments) =>
            ToolRun.Start(new ProcessStartInfo("tmux", ["-u", "-S", _socket, .. arguments]), []).Expect(0).Text;
    }
}
