using System.Text;
using System.Text.Json;
using MappedFileQueues.Hosting;
using MappedFileQueues.Tool.Bridge;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// Every command with `--output json` writes what docs/JSON.md lists, and nothing else. The page is the contract of scripts:
/// before it, a member could go or change its name, and no test knew.
/// </summary>
[Trait("Category", "Slow")]
public sealed class JsonOutputTests : IDisposable
{
    /// <summary>Those that take long are held against the page where they are tested: `bench`.</summary>
    private static readonly string[] s_checkedElsewhere = ["mfq bench", "figure"];

    private readonly TempStore _temp = new();
    private readonly HashSet<string> _seen = [];

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Commands_All_WriteTheMembersOfThePageAndNoOther()
    {
        string store = _temp.StorePath;
        Check("produce", store, "--messages", "10", "--size", "56");
        Check("consume", store, "--consumer", "billing", "--commit", "--count", "4");
        Check("tail", store, "--no-follow");
        Check("retention", store, "--max-bytes", "1G", "--max-age", "72h");
        Check("consumers list", store);
        Check("consumers reset", store, "other", "--to", "latest");
        Check("consumers delete", store, "other");
        Check("check", store);
        Check(2, "check", store, "--max-lag", "1");
        Check("top", _temp.Root, "--once");
        Check("verify", store);
        Check("repair", store, "--dry-run");
        Check("trim", store, "--before", "0", "--dry-run");
        Check("snapshot", store, PathOf("copy"));
        Check("export", store, "--to", PathOf("lines.jsonl"));
        Check("import", PathOf("imported"), PathOf("lines.jsonl"));
        Check("replay", store, PathOf("replayed"));
        CheckVersionOne();
        Check("struct", typeof(StructTests).Assembly.Location, "StructTests.Simple", "--c");
        CheckGroups(store);
        CheckClaims(store);
        CheckDamage(store);
        CheckLetters();
        CheckPacks();
        CheckBridge();

        Assert.Empty(JsonPage.Commands.Concat(JsonPage.Objects).Except(s_checkedElsewhere).Except(_seen));
    }

    /// <summary>A new command has a place in the page.</summary>
    [Fact]
    public void Page_NamesEveryCommandThatHelpKnows()
    {
        List<string> commands = [];
        Find([]);

        Assert.Equal(
            commands.Except(["mfq completion"]).Order(StringComparer.Ordinal),
            JsonPage.Commands.Order(StringComparer.Ordinal));

        void Find(string[] command)
        {
            string[] lines = ToolRun.Of([.. command, "--help"]).Expect(0).Text.Split('\n');
            string[] inner =
            [
                .. lines.SkipWhile(line => line != "Commands:").Skip(1)
                    .Where(line => line.StartsWith("  ", StringComparison.Ordinal))
                    .Where(line => char.IsAsciiLetter(line.ElementAtOrDefault(2)))
                    .Select(line => line.Split(' ', StringSplitOptions.RemoveEmptyEntries)[0]),
            ];
            if (inner.Length == 0)
                commands.Add($"mfq {string.Join(' ', command)}");
            foreach (string name in inner)
                Find([.. command, name]);
        }
    }

    private void CheckVersionOne()
    {
        VersionOneStore old = VersionOneStore.OfMessages(PathOf("old"), 1000);
        old.Producer = old.Produce([1], [2], [3])[2];
        old.At(0)[0] = 9;
        old.Write();
        Check(3, "import-v1", PathOf("old"), PathOf("from-old"), "--stream");
    }

    private void CheckGroups(string store)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = store });
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        member.Consume();
        Check("consumers list", store);
        Check("consumers members", store, "workers");
        Check("consumers fence", store, "workers", $"{member.Slot}", "--after", "0ms");
    }

    private void CheckClaims(string store)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = store });
        MessageClaim claim = queue.Producer.DangerousClaim(8);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        _ = member.Consume();
        Check("info", store);
        Check("fence", store, $"{Assert.Single(queue.GetInfo().OpenClaims).Slot}", "--after", "1ms");
        try
        {
            claim.Publish(8);
            Assert.Fail("The claim was fenced.");
        }
        catch (ProducerFencedException)
        {
        }
    }

    private void CheckDamage(string store)
    {
        string segment = Directory.GetFiles(Path.Combine(store, "commitlog"))[0];
        using (FileStream file = File.OpenWrite(segment))
        {
            file.Position = 64 + 20;
            file.WriteByte(1);
        }

        File.WriteAllText(Path.Combine(store, "retention"), "no policy");
        Check(3, "verify", store);
        Check(3, "repair", store, "--dry-run");
        Check("repair", store, "--apply");
    }

    private void CheckLetters()
    {
        string letters = PathOf("letters");
        long[] offsets;
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = letters }))
        {
            offsets =
            [
                .. new[] { "text"u8.ToArray(), [0xFF] }.Select(message => queue.Producer.Produce(new DeadLetter
                {
                    StoreId = Guid.NewGuid(),
                    Queue = "orders",
                    Attempts = 5,
                    ErrorType = "System.TimeoutException",
                    Error = "late",
                    Message = message,
                    MessageLength = message.Length,
                }.ToBytes())),
            ];
        }

        Check("deadletters list", letters);
        foreach (long offset in offsets)
            Check("deadletters show", letters, $"{offset}");
        Check("deadletters retry", letters, PathOf("imported"), "--offset", $"{offsets[0]}", "--from-any-store");
        Check("deadletters delete", letters, "--all");
    }

    private void CheckPacks()
    {
        string pack = PathOf("texts.pack");
        File.WriteAllText(PathOf("one"), "one");
        Check("pack create", pack);
        Check("pack add", pack, PathOf("one"));
        string key = JsonElement.Parse(Check(0, "pack list", pack)).GetProperty("key").GetString()!;
        Check("pack get", pack, key);
        Check("pack stat", pack);
        Check("pack extract", pack, PathOf("extracted"));
        Check("pack verify", pack);
        Check("pack compact", pack);
        string volume = Directory.GetFiles(pack, "*", SearchOption.AllDirectories)
            .First(path => Encoding.Latin1.GetString(File.ReadAllBytes(path)).Contains("one", StringComparison.Ordinal));
        byte[] bytes = File.ReadAllBytes(volume);
        bytes[Encoding.Latin1.GetString(bytes).LastIndexOf("one", StringComparison.Ordinal)] ^= 1;
        File.WriteAllBytes(volume, bytes);
        Check(3, "pack verify", pack);
        Check("pack delete", PathOf("texts.pack"), key);
    }

    /// <summary>Without brokers: what the commands write is these values.</summary>
    private void CheckBridge()
    {
        foreach (string command in new[] { "forward", "fetch" })
        {
            JsonPage.Check(
                $"bridge {command}",
                JsonSerializer.Serialize(new BridgeResult(1, 2, 3, "gone"), ToolJson.Default.BridgeResult),
                _seen, hasVersion: false);
        }
    }

    private string PathOf(string name) => Path.Combine(_temp.Root, name);

    private void Check(string command, params string[] arguments) => Check(0, command, arguments);

    /// <summary>Runs a command and holds each of its values against the page; returns the last one.</summary>
    private string Check(int exitCode, string command, params string[] arguments)
    {
        string text = ToolRun.Of([.. command.Split(' '), .. arguments, "--output", "json"]).Expect(exitCode).Text;
        bool isOfMessages = command is "consume" or "tail";
        string[] values = isOfMessages || command is "pack list" or "top"
            ? text.Split('\n', StringSplitOptions.RemoveEmptyEntries)
            : [text];
        Assert.NotEmpty(values);
        foreach (string value in values)
            JsonPage.Check(command, value, _seen, hasVersion: !isOfMessages);
        return values[^1];
    }
}
