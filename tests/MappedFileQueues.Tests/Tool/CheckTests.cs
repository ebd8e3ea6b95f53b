using System.Diagnostics;
using System.Text.Json;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Files;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq check`: one line for a monitoring system, and its exit codes.</summary>
[Trait("Category", "Slow")]
public sealed class CheckTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A service whose folder was replaced by a new release was told on standard error alone, where a monitoring system does not
    /// read.
    /// </summary>
    [Fact]
    public void Check_FolderOfTheProcessIsGone_IsUnknown()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Windows removes no folder in which a process works.");
        const string Script = "cd \"$(mktemp -d)\" && rmdir \"$PWD\" && exec dotnet exec \"$0\" check \"$@\"";

        ToolRun run = ToolRun.Start(new ProcessStartInfo("bash", ["-c", Script, Repository.ToolPath, "relative"]), []);

        run.Expect(3);
        string line = Assert.Single(run.Lines);
        Assert.StartsWith("UNKNOWN: ", line, StringComparison.Ordinal);
        Assert.Contains("the folder in which this process works: path=relative", line, StringComparison.Ordinal);
    }

    [Fact]
    public void Check_Lag_IsHeldAgainstBothLimits()
    {
        Produce();
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit", "--count", "4").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "audit", "--commit").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);

        string ok = Line(0, "--max-lag", "384");
        Assert.StartsWith("OK: store: 384 bytes behind at most (billing) | lag=384B", ok, StringComparison.Ordinal);
        Assert.StartsWith("OK: store: 0 bytes", Line(0, "--max-lag", "1", "--consumer", "audit"), StringComparison.Ordinal);
        Assert.StartsWith("WARNING: ", Line(1, "--warn-lag", "383", "--max-lag", "384"), StringComparison.Ordinal);
        string critical = Line(2, "--warn-lag", "1", "--max-lag", "383");
        Assert.StartsWith("CRITICAL: store: consumer billing is 384 bytes behind", critical, StringComparison.Ordinal);
        Assert.Contains("no consumer ledger", Line(2, "--consumer", "ledger"), StringComparison.Ordinal);
        Assert.Contains("of the disk free", Line(2, "--min-free", "8000000G"), StringComparison.Ordinal);

        JsonElement json = JsonDocument.Parse(Run(2, "--max-lag", "1", "--output", "json").Output).RootElement;
        Assert.Equal("Critical", json.GetProperty("status").GetString());
        json = Assert.Single(json.GetProperty("stores").EnumerateArray());
        Assert.Equal("billing", json.GetProperty("laggingConsumer").GetString());
        Assert.Equal(384, json.GetProperty("lag").GetInt64());
        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
    }

    /// <summary>
    /// What flushes have noted counts, not the time of a file that was restored a minute ago; a consumer that has read everything
    /// has no age.
    /// </summary>
    [Fact]
    public void Check_Age_OfWhatIsUnreadOnly()
    {
        using (MappedFileQueue queue = Open(new ManualTime(DateTimeOffset.UtcNow.AddHours(-2))))
        {
            queue.Producer.Produce([1]);
            queue.Producer.Produce([2]);
            queue.Flush();
        }

        ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit", "--count", "1").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "audit", "--commit").Expect(0);
        foreach (string segment in Directory.GetFiles(_temp.PathOf("commitlog")))
            File.SetLastWriteTimeUtc(segment, DateTime.UtcNow.AddMinutes(-1));

        Line(0, "--max-age", "3h");
        Assert.Contains("consumer billing", Line(2, "--max-age", "1h"), StringComparison.Ordinal);
        Assert.Contains("consumer billing", Line(2, "--max-lag-time", "1h"), StringComparison.Ordinal);
        Assert.StartsWith("WARNING: ", Line(1, "--warn-age", "1h", "--max-age", "3h"), StringComparison.Ordinal);
        Line(0, "--max-age", "1h", "--consumer", "audit");
    }

    /// <summary>A group counts as a consumer does, at the first message that is not done; `mfq top` shows it too.</summary>
    [Fact]
    public void Check_Group_CountsFromItsFloor()
    {
        using (MappedFileQueue queue = Open(new ManualTime(DateTimeOffset.UtcNow.AddHours(-2))))
        {
            for (int i = 0; i < 10; i++)
                queue.Producer.Produce(new byte[56]);
            queue.Flush();
            using MappedFileGroupMember member = queue.OpenGroupMember("workers");
            long[] offsets = [.. Enumerable.Range(0, 6).Select(_ => Take(member))];
            member.Acknowledge(offsets[0]);
            member.Acknowledge(offsets[5]);
        }

        ToolRun.Of("consume", _temp.StorePath, "--consumer", "audit", "--commit").Expect(0);

        Assert.Contains(" 576 bytes behind at most (group/workers)", Line(0, "--max-lag", "576"), StringComparison.Ordinal);
        Assert.Contains("group workers is 576 bytes behind", Line(2, "--max-lag", "575"), StringComparison.Ordinal);
        Assert.Contains("group workers has not read", Line(2, "--max-lag-time", "1h"), StringComparison.Ordinal);
        Line(2, "--max-lag", "1", "--consumer", "group/workers");
        Line(0, "--max-lag", "1", "--max-lag-time", "1h", "--consumer", "audit");
        Assert.Contains("no group players", Line(2, "--consumer", "group/players"), StringComparison.Ordinal);
        string error = ToolRun.Of("check", _temp.StorePath, "--consumer", "group/").Expect(3).Error;
        Assert.Contains("--consumer", error, StringComparison.Ordinal);
        Assert.Matches(@" 576 .* group/workers .* 7,2\d\d s ", ToolRun.Of("top", _temp.Root, "--once").Expect(0).Text);

        static long Take(MappedFileGroupMember member)
        {
            member.Consume();
            return member.MessageOffset;
        }
    }

    /// <summary>
    /// A group whose files were damaged refused its members and held retention back, and the check said that all is well: it
    /// looked at the cursors of consumers alone.
    /// </summary>
    [Fact]
    public void Check_GroupIsDamaged_IsCritical()
    {
        Produce();
        using (MappedFileQueue queue = Open(TimeProvider.System))
            queue.OpenGroupMember("workers").Dispose();
        string file = _temp.PathOf("offset/groups/workers.group");
        byte[] bytes = File.ReadAllBytes(file);
        bytes[0] ^= 1;
        File.WriteAllBytes(file, bytes);

        Assert.StartsWith("CRITICAL: store: ", Line(2), StringComparison.Ordinal);
        Assert.Contains("workers.group", Line(2), StringComparison.Ordinal);
    }

    /// <summary>
    /// A consumer that crashes in a loop was never reported: each start of a program, and each append, made the segment's time
    /// new, and the age began anew.
    /// </summary>
    [Fact]
    public void Check_AgeOfAMessageInTheNewestSegment_DoesNotBeginAnew()
    {
        var clock = new ManualTime(DateTimeOffset.UtcNow.AddHours(-3));
        using (MappedFileQueue queue = Open(clock))
        {
            queue.OpenConsumer("billing", QueueStart.Earliest).Dispose();
            queue.Producer.Produce([1]);
            queue.Flush();
            queue.OpenConsumer("audit", QueueStart.Latest).Dispose();
        }

        clock.Advance(TimeSpan.FromHours(3));
        using (MappedFileQueue queue = Open(clock))
        {
            queue.OpenConsumer("billing").Dispose();
            queue.Producer.Produce([2]);
            queue.Flush();
        }

        Assert.Contains("consumer billing has not read", Line(2, "--max-age", "170m"), StringComparison.Ordinal);
        Line(0, "--max-age", "1h", "--consumer", "audit");
    }

    private MappedFileQueue Open(TimeProvider clock) =>
        new(new MappedFileQueueOptions { StorePath = _temp.StorePath, TimeProvider = clock });

    [Fact]
    public void Check_NoStoreOrWrongUsage_IsUnknown()
    {
        Assert.StartsWith("UNKNOWN: There is no store", Line(3), StringComparison.Ordinal);
        ToolRun usage = ToolRun.Of("check", _temp.StorePath, "--max-lag", "much").Expect(3);
        Assert.Empty(usage.Text);
        Assert.Contains("--max-lag", usage.Error, StringComparison.Ordinal);
        usage = ToolRun.Of("check", _temp.StorePath, "--max-claim", "infinite").Expect(3);
        Assert.Contains("--max-claim", usage.Error, StringComparison.Ordinal);
    }

    /// <summary>A check that cannot report says that it does not know; 1 would be a warning.</summary>
    [Fact]
    public void Check_ItsOutputCannotBeWritten_IsUnknown()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "/dev/full is Linux's.");
        Produce();
        const string Script = "exec dotnet exec \"$0\" check \"$1\" >/dev/full";

        ToolRun.Start(
            new System.Diagnostics.ProcessStartInfo("bash", ["-c", Script, Repository.ToolPath, _temp.StorePath]), []).Expect(3);
    }

    [Fact]
    public void Check_Poisoned_IsCritical()
    {
        Produce();
        File.WriteAllText(_temp.PathOf("poison"), "");

        Assert.Contains("a flush failed", Line(2), StringComparison.Ordinal);
    }

    /// <summary>A producer that stands still in a claim: it is named, and the check does not hang with it.</summary>
    [Fact]
    public void Check_ClaimInTheWay_IsCriticalAndNamesTheProcess()
    {
        using var store = new CrashStore();
        using PeerAgent child = store.StartAttached();
        child.Trap("Claimed", 1, "stop");
        child.Send("append what=single prefix=c count=3 size=200");
        child.WaitUntilStopped();

        string line = ToolRun.Of("check", store.Path, "--max-claim", "50ms").Expect(2).Text;

        Assert.Contains($"pid {child.Id}", line, StringComparison.Ordinal);
        Assert.Contains("mfq fence", line, StringComparison.Ordinal);
    }

    /// <summary>A machine with twenty stores needed twenty checks, and a new store was checked by none.</summary>
    [Fact]
    public void Check_SeveralStoresAndFolders_TheWorstDecidesAndEachIsNamed()
    {
        Produce();
        string folder = Path.Combine(_temp.Root, "more");
        string bad = Path.Combine(folder, "deep", "bad");
        string good = Path.Combine(folder, "good");
        foreach (string path in new[] { bad, good })
            ToolRun.Of("produce", path, "--messages", "1").Expect(0);
        File.WriteAllText(Path.Combine(bad, "poison"), "");
        string nowhere = Path.Combine(_temp.Root, "nowhere");

        string[] lines = ToolRun.Of("check", _temp.StorePath, folder, nowhere).Expect(2).Lines;
        Assert.StartsWith(
            "CRITICAL: 4 stores: 1 CRITICAL (bad), 1 UNKNOWN (nowhere), 2 OK | bad.lag=0B ", lines[0], StringComparison.Ordinal);
        Assert.Contains(" good.lag=0B ", lines[0], StringComparison.Ordinal);
        Assert.StartsWith("CRITICAL: bad: a flush failed", lines[1], StringComparison.Ordinal);
        Assert.StartsWith("UNKNOWN: nowhere: There is no store", lines[2], StringComparison.Ordinal);
        Assert.Equal(["OK: good: no consumers", "OK: store: no consumers"], lines[3..].Order());
        Assert.All(lines[1..], line => Assert.DoesNotContain('|', line));

        Assert.Equal(3, ToolRun.Of("check", _temp.StorePath, good, nowhere).Expect(3).Lines.Length - 1);
        Assert.Equal(
            ["OK: 2 stores: 2 OK ", "OK: good: no consumers", "OK: store: no consumers"],
            ToolRun.Of("check", good, _temp.StorePath, good).Expect(0).Lines.Select(line => line.Split('|')[0]).Order());
        // Two stores of one name are told apart by their paths.
        string same = Path.Combine(folder, "deep", "good");
        ToolRun.Of("produce", same, "--messages", "1").Expect(0);
        Assert.Contains($"OK: {same}: no consumers", ToolRun.Of("check", good, same).Expect(0).Lines);
    }

    private void Produce() => ToolRun.Of("produce", _temp.StorePath, "--messages", "10", "--size", "56").Expect(0);

    private string Line(int exitCode, params string[] options)
    {
        ToolRun run = Run(exitCode, options);
        Assert.Empty(run.Error);
        return Assert.Single(run.Lines);
    }

    private ToolRun Run(int exitCode, params string[] options) =>
        ToolRun.Of(["check", _temp.StorePath, .. options]).Expect(exitCode);
}
