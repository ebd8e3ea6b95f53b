namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// Wrong usage. The errors once named .NET types ("Cannot parse argument 'x' for option '--count' as expected type
/// 'System.Nullable`1[System.Int64]'"), the help that follows an error went to standard output, where a script takes it for data,
/// and `mfq consume ""` ended in a stack trace.
/// </summary>
public sealed class UsageTests : IDisposable
{
    /// <summary>What the arguments below name a store, a pack or a file.</summary>
    private static readonly string[] s_names =
    [
        "s", "a", "t", "p", "file", "file/below", "foreign", "broken", "missing", "target", "new", "long.jsonl", "struct.jsonl",
        "link",
    ];

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("--help")]
    [InlineData("STORE", "consume")]
    [InlineData("--help", "consum")]
    [InlineData("STORE", "consume", "")]
    [InlineData("--commit needs --consumer", "consume", "s", "--commit")]
    [InlineData("--count", "consume", "s", "--count", "-1")]
    [InlineData("--count", "consume", "s", "--count", "x")]
    [InlineData("--count", "consume", "s", "--count")]
    [InlineData("--count", "consume", "s", "--count", "99999999999999999999")]
    [InlineData("--last", "consume", "s", "--last", "1.5")]
    [InlineData("--from", "consume", "s", "--from", "middle")]
    [InlineData("--from", "consume", "s", "--from", "-8")]
    [InlineData("--last", "consume", "s", "--from", "start", "--last", "1")]
    [InlineData("--from", "consume", "s", "--from", "start", "--consumer", "c")]
    [InlineData("--format", "consume", "s", "--format", "xml")]
    [InlineData("name", "consume", "s", "--consumer", "a/b")]
    [InlineData("maybe", "consume", "s", "--follow=maybe")]
    [InlineData("--lock-timeout", "consume", "s", "--lock-timeout", "soon")]
    [InlineData("--lock-timeout", "consume", "s", "--lock-timeout=-Infinity")]
    [InlineData("--lock-timeout", "consume", "s", "--lock-timeout", "NaN")]
    [InlineData("--after", "fence", "s", "0", "--after", "infinite")]
    [InlineData("--after", "fence", "s", "0", "--after", "700h")]
    [InlineData("--interval", "top", "--interval", "infinite")]
    [InlineData("DIR", "top", "")]
    [InlineData("FILE", "import", "s", "")]
    [InlineData("--offset", "deadletters", "list", "s", "--offset", "x")]
    [InlineData("--show", "retention", "s", "--show", "--none")]
    [InlineData("BROKER", "bridge", "forward", "s", " ,", "--stream", "o")]
    [InlineData("--stream", "bridge", "fetch", "amqp://127.0.0.1:1", "s", "--stream", "")]
    [InlineData("name", "bridge", "forward", "s", "amqp://127.0.0.1:1", "--stream", "o", "--consumer", "a/b")]
    [InlineData("--stream-max-age", "bridge", "forward", "s", "amqp://127.0.0.1:1", "--stream", "o", "--stream-max-age", "0")]
    [InlineData("PACK", "pack", "create", "")]
    [InlineData("DIR", "pack", "extract", "p", "")]
    [InlineData("--lines", "produce", "s", "--lines", "-", "--messages", "1")]
    [InlineData("--lines", "produce", "s", "--lines", "")]
    [InlineData("--size", "produce", "s", "--size", "10")]
    [InlineData("--size", "produce", "s", "--messages", "1", "--size", "300000000")]
    [InlineData("--messages", "produce", "s", "--messages", "0")]
    [InlineData("--segment-size", "produce", "s", "--segment-size", "64X")]
    [InlineData("--segment-size", "produce", "s", "--segment-size", "0")]
    [InlineData("--segment-size", "produce", "s", "--segment-size", "9999999G")]
    [InlineData("--output", "info", "s", "--output", "xml")]
    [InlineData("--output", "consume", "s", "--output", "table")]
    [InlineData("--to", "consumers", "reset", "s", "c")]
    [InlineData("--to", "consumers", "reset", "s", "c", "--to", "middle")]
    [InlineData("--to", "consumers", "reset", "s", "c", "--to", "-8")]
    [InlineData("name", "consumers", "reset", "s", "a/b", "--to", "latest")]
    [InlineData("name", "consumers", "delete", "s", "a/b")]
    [InlineData("NAME", "consumers", "delete", "s")]
    [InlineData("STORE", "consumers", "list")]
    [InlineData("STORE", "consumers", "list", "")]
    [InlineData("--before", "trim", "s")]
    [InlineData("--before", "trim", "s", "--before", "yesterday-ish")]
    [InlineData("--max-bytes", "retention", "s", "--max-bytes", "0")]
    [InlineData("--none", "retention", "s", "--none", "--max-bytes", "1G")]
    [InlineData("--max-bytes", "retention", "s", "--no-recycle")]
    [InlineData("TARGET", "snapshot", "s")]
    [InlineData("TARGET", "snapshot", "s", "")]
    [InlineData("--keep", "snapshot", "s", "t", "--keep")]
    [InlineData("--dir", "bench", "--dir", "")]
    [InlineData("--volume-size", "pack", "create", "p", "--volume-size", "x")]
    [InlineData("--garbage", "pack", "compact", "p", "--garbage", "x")]
    [InlineData("--before", "trim", "s", "--before", "12:00")]
    [InlineData("--before", "trim", "s", "--before", "01/10/2026")]
    [InlineData("There is no option --line. Did you mean --lines?", "produce", "--line")]
    [InlineData("./--line", "produce", "--line", "x")]
    [InlineData("Did you mean --keep-id?", "snapshot", "a", "--keepid")]
    [InlineData("There is no option -x.", "info", "-x")]
    [InlineData("--lines=--mesages", "produce", "s", "--lines", "--mesages")]
    [InlineData("--consumer has no value before --commit.", "consume", "s", "--consumer", "--commit")]
    [InlineData("--dead-letters", "bridge", "forward", "s", "amqp://127.0.0.1:1", "--stream", "o", "--dead-letters", "--onc")]
    [InlineData("Did you mean --durable?", "pack", "add", "p", ".", "--prefix", "--durabl")]
    [InlineData("--lock-timeout", "produce", "s", "--messages", "1", "--lock-timeout", "72")]
    [InlineData("--max-age", "retention", "s", "--max-age", "0")]
    [InlineData("nonsense", "nonsense")]
    [InlineData("Did you mean consume?", "consum", "s")]
    [InlineData("Did you mean list?", "consumers", "lst", "s")]
    [InlineData("Did you mean --count?", "consume", "s", "--cout", "1")]
    public void AnyCommand_WrongUsage_NamesItOnStandardErrorAndMakesNothing(string named, params string[] arguments)
    {
        ToolRun run = ToolRun.Of(InRoot(arguments)).Expect(2);

        Assert.Empty(run.Text);
        Assert.Contains(named, run.Error, StringComparison.Ordinal);
        Assert.DoesNotContain("System.", run.Error, StringComparison.Ordinal);
        // Once the nearest option to any word, such as the path after a mistyped command.
        Assert.DoesNotContain("? -h", run.Error, StringComparison.Ordinal);
        Assert.All(run.Error.TrimEnd('\n').Split('\n'), line => Assert.StartsWith("mfq: ", line, StringComparison.Ordinal));
        Assert.Empty(Directory.EnumerateFileSystemEntries(_temp.Root));
    }

    /// <summary>A value that is too long filled the screen.</summary>
    [Theory]
    [InlineData("consume", "s", "--consumer")]
    [InlineData("consumers", "members", "s")]
    [InlineData("produce", "s", "--segment-size")]
    public void AnyCommand_ValueIsTooLong_ItsBeginIsShown(params string[] arguments)
    {
        ToolRun run = ToolRun.Of(InRoot([.. arguments, new string('x', 5000)])).Expect(2);

        Assert.Contains(new string('x', 100) + "…'", run.Error, StringComparison.Ordinal);
        Assert.InRange(run.Error.Length, 1, 400);
    }

    /// <summary>
    /// What is no wrong usage but goes wrong is one line and exit code 1, whatever is in the place of a store.
    /// </summary>
    [Theory]
    [InlineData("file", "consume")]
    [InlineData("file", "consume", "--consumer", "c", "--commit")]
    [InlineData("file", "info")]
    [InlineData("file", "produce", "--messages", "1")]
    [InlineData("file/below", "produce", "--messages", "1")]
    [InlineData("foreign", "consume")]
    [InlineData("foreign", "produce", "--messages", "1")]
    [InlineData("broken", "consume")]
    [InlineData("broken", "consume", "--last", "1")]
    [InlineData("broken", "consume", "--consumer", "c", "--commit")]
    [InlineData("broken", "info", "--output", "json")]
    [InlineData("broken", "produce", "--messages", "1")]
    [InlineData("missing", "consumers list")]
    [InlineData("file", "consumers delete", "c")]
    [InlineData("foreign", "consumers reset", "c", "--to", "latest")]
    [InlineData("broken", "consumers list")]
    [InlineData("missing", "retention", "--show")]
    [InlineData("foreign", "retention", "--max-bytes", "1G")]
    [InlineData("broken", "trim", "--before", "8")]
    [InlineData("missing", "snapshot", "target")]
    [InlineData("foreign", "snapshot", "target")]
    [InlineData("broken", "snapshot", "target")]
    public void StoreCommand_NoStoreThere_OneLineWithoutAStackTrace(string name, string command, params string[] options)
    {
        File.WriteAllText(Path.Combine(_temp.Root, "file"), "no store");
        foreach (string folder in new[] { "foreign", "broken" })
            Directory.CreateDirectory(Path.Combine(_temp.Root, folder));
        File.WriteAllText(Path.Combine(_temp.Root, "foreign", "notes.txt"), "no store");
        File.WriteAllText(Path.Combine(_temp.Root, "broken", "queue.meta"), "no meta page");

        ToolRun run = ToolRun.Of(InRoot([.. command.Split(' '), name, .. options]));

        run.ExpectError(name);
        Assert.Empty(run.Text);
        Assert.DoesNotContain("please report it", run.Error, StringComparison.Ordinal);
    }

    /// <summary>
    /// The error line itself could not be written, and that ended the command by SIGABRT, with a core file beside it.
    /// </summary>
    [Theory]
    [InlineData(1, "info")]
    [InlineData(2, "info --count=maybe")]
    [InlineData(3, "check")]
    public void AnyCommand_StandardErrorIsFull_TheExitCodeStillTells(int expectedCode, string command)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "/dev/full is Linux's.");
        string script = $"exec dotnet exec \"$0\" {command} nowhere 2>/dev/full";

        ToolRun.Start(new System.Diagnostics.ProcessStartInfo("bash", ["-c", script, Repository.ToolPath]), [])
            .Expect(expectedCode);
    }

    /// <summary>The error was "No space left on device" alone, which sent the user to look at the store's disk.</summary>
    [Theory]
    [InlineData("completion bash")]
    [InlineData("consume s")]
    [InlineData("info s --output json")]
    public void AnyCommand_StandardOutputIsFull_TheErrorNamesIt(string command)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "/dev/full is Linux's.");
        string store = Path.Combine(_temp.Root, "s");
        ToolRun.Of("produce", store, "--messages", "1").Expect(0);
        string script = $"exec dotnet exec \"$0\" {command.Replace(" s", $" '{store}'", StringComparison.Ordinal)} >/dev/full";

        ToolRun.Start(new System.Diagnostics.ProcessStartInfo("bash", ["-c", script, Repository.ToolPath]), [])
            .ExpectError("Standard output cannot be written", "No space left");
    }

    /// <summary>What begins with a dash can still be named.</summary>
    [Fact]
    public void PathOrValueThatBeginsWithADash_IsTakenWhereItIsMeant()
    {
        ToolRun.In(_temp.Root, [], "produce", "./--line", "--messages", "1", "--lock-timeout", "00:00:01").Expect(0);
        ToolRun.In(_temp.Root, [], "info", "--", "--line").Expect(0);
        ToolRun.In(_temp.Root, [], "pack", "add", "p", "--prefix=-x-", "./--line/queue.meta").Expect(0);
        Assert.Contains("-x-queue.meta", ToolRun.In(_temp.Root, [], "pack", "list", "p").Text, StringComparison.Ordinal);
    }

    /// <summary>An input that cannot be used left an empty store, pack or directory.</summary>
    [Theory]
    [InlineData("does not fit", "produce", "new", "--messages", "1", "--size", "5000", "--segment-size", "4096")]
    [InlineData("missing", "produce", "new", "--lines", "missing")]
    [InlineData("missing'. Correct the path, or give - for standard input.", "produce", "new", "--lines", "missing")]
    [InlineData("below'. Correct the path, or give - for standard input.", "import", "new", "file/below")]
    [InlineData("does not fit", "import", "new", "long.jsonl", "--segment-size", "4096")]
    [InlineData("structSize=8", "import", "new", "struct.jsonl")]
    [InlineData("missing", "replay", "missing", "new")]
    [InlineData("no such file", "pack", "add", "new", "missing")]
    [InlineData("left out", "pack", "add", "new", "link")]
    public void AnyCommand_InputCannotBeUsed_MakesNothing(string named, params string[] arguments)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "A pipe has a name on Unix.");
        File.WriteAllText(Path.Combine(_temp.Root, "long.jsonl"), $"{{\"text\":\"{new string('x', 5000)}\"}}\n");
        File.WriteAllText(
            Path.Combine(_temp.Root, "struct.jsonl"),
            "{\"export\":1,\"structSize\":8,\"segmentSize\":4096,\"layout\":0}\n{\"text\":\"abc\"}\n{\"end\":1}\n");
        File.CreateSymbolicLink(Path.Combine(_temp.Root, "link"), "/dev/null");

        ToolRun run = ToolRun.Of(InRoot(arguments)).Expect(1);

        Assert.Contains(named, run.Error, StringComparison.Ordinal);
        Assert.False(Path.Exists(Path.Combine(_temp.Root, "new")));
    }

    /// <summary>An export of an empty store is one too.</summary>
    [Theory]
    [InlineData("produce")]
    [InlineData("import")]
    public void ProduceOrImport_InputIsEmpty_MakesAnEmptyStore(string command)
    {
        string store = Path.Combine(_temp.Root, "new");
        ToolRun.Of(command, store).Expect(0);

        Assert.Contains("messages   0", ToolRun.Of("info", store).Expect(0).Text, StringComparison.Ordinal);
    }

    /// <summary>The library took @orders for a file of arguments: "Access to the path … is denied".</summary>
    [Fact]
    public void NameThatBeginsWithAnAt_IsAName()
    {
        ToolRun.In(_temp.Root, "one\n"u8.ToArray(), "produce", "@orders").Expect(0);
        ToolRun.In(_temp.Root, [], "info", "@orders").Expect(0);
        Assert.True(Directory.Exists(Path.Combine(_temp.Root, "@orders")));
    }

    /// <summary>The error gave the name that the option has in C#.</summary>
    [Fact]
    public void BridgeForward_StreamNameIsTooLong_NamesTheOption() => Assert.Contains(
        "--stream is too long",
        ToolRun.Of("bridge", "forward", _temp.Root, "amqp://127.0.0.1:1", "--stream", new string('x', 300)).Expect(2).Error,
        StringComparison.Ordinal);

    [Fact]
    public void Help_OfTheTool_NamesEveryExitCode()
    {
        string help = ToolRun.Of("--help").Expect(0).Text.ReplaceLineEndings(" ");

        Assert.All(["0 done", "1 failed", "2 wrong usage", "130", "143"],
            code => Assert.Contains(code, help, StringComparison.Ordinal));
    }

    /// <summary>The arguments with the names as paths: the current directory is the whole process's.</summary>
    private string[] InRoot(IEnumerable<string> arguments) =>
        [.. arguments.Select(each => s_names.Contains(each) ? Path.Combine(_temp.Root, each) : each)];
}
