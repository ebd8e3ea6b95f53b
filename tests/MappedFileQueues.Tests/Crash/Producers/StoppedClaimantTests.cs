namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>
/// docs/DESIGN.md section 1: a producer that only stands still (SIGSTOP, a debugger) is waited for, never robbed; when it is
/// killed instead, its claim becomes padding.
/// </summary>
[Trait("Category", "Slow")]
public sealed class StoppedClaimantTests
{
    /// <summary>
    /// Long against the 2 ms after which a waiting consumer probes a claim again; a passing test waits that long once.
    /// </summary>
    private static readonly TimeSpan s_watch = TimeSpan.FromMilliseconds(200);

    /// <summary>
    /// What is appended, step and how often it is reached, how many units were appended before it, what becomes of the child.
    /// </summary>
    public static TheoryData<string, string, int, int, bool> Steps => new()
    {
        { "single", "Claimed", 1, 0, true },
        { "single", "PayloadWritten", 2, 1, true },
        { "batch", "BatchInnerWritten", 2, 0, true },
        { "claim", "Claimed", 1, 0, true },
        { "single", "Claimed", 2, 1, false },
        { "batch", "BatchInnerWritten", 6, 1, false },
        { "claim", "PayloadWritten", 1, 0, false },
    };

    [Theory]
    [MemberData(nameof(Steps))]
    public void Append_StoppedInClaim_IsWaitedForNeverRobbed(string what, string step, int hit, int unitsBefore, bool goesOn)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = store.StartAttached();
        child.Trap(step, hit, "stop");
        child.Send($"append what={what} prefix=c count=3 size=200");
        child.WaitUntilStopped();

        CrashStore.Append(survivor, "behind-0", "behind-1");
        List<string> before = UnitsOf(what, unitsBefore);
        using MappedFileConsumer consumer = survivor.OpenConsumer("survivor");
        foreach (string expected in before)
            Assert.Equal(expected, ReadNext(consumer));
        Assert.False(consumer.TryConsume(out _, s_watch), "a living producer's claim stands here");
        Assert.Equal(before, store.Peek());
        MappedFileClaimInfo claim = Assert.Single(survivor.GetInfo().OpenClaims);
        Assert.Equal(child.Id, claim.ProcessId);
        using (MappedFileQueue second = store.Open())
            Assert.Equal(before, CrashStore.ReadAll(second, "second"));

        if (!goesOn)
        {
            child.Kill();
            Assert.Equal("behind-0", ReadNext(consumer));
            Assert.Equal("behind-1", ReadNext(consumer));
            consumer.Dispose();
            survivor.Dispose();
            store.ExpectHealthy([.. before, "behind-0", "behind-1"]);
            return;
        }

        child.Continue();
        Assert.Equal("ok", child.Answer());
        List<string> all = UnitsOf(what, 3);
        all.InsertRange(UnitsOf(what, unitsBefore + 1).Count, ["behind-0", "behind-1"]);
        foreach (string expected in all[before.Count..])
            Assert.Equal(expected, ReadNext(consumer));
        Assert.Equal(all, store.Peek());
    }

    /// <summary>The lock of an Exclusive producer that stands still is held, and who asks hears by whom.</summary>
    [Theory]
    [InlineData("PayloadWritten")]
    [InlineData("NextHeaderZeroed")]
    public void Append_ExclusiveStopped_OthersAreRefusedByName(string step)
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using PeerAgent child = store.StartAttached();
        child.Trap(step, 2, "stop");
        child.Send("append prefix=c count=3 size=200");
        child.WaitUntilStopped();

        using MappedFileQueue survivor = store.Open(ProducerMode.Shared);
        var refused = Assert.Throws<QueueInUseException>(() => survivor.OpenProducer());
        Assert.Contains($"pid {child.Id}", refused.Message, StringComparison.Ordinal);
        Assert.Equal(["c-0"], CrashStore.ReadAll(survivor, "reads"));

        child.Continue();
        Assert.Equal("ok", child.Answer());
        Assert.Equal(["c-0", "c-1", "c-2"], CrashStore.ReadAll(survivor, "reads-again"));
    }

    private static string ReadNext(MappedFileConsumer consumer)
    {
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message, Eventually.DefaultDeadline), "a message comes");
        string text = CrashMessage.Read(message);
        consumer.Commit();
        return text;
    }

    private static List<string> UnitsOf(string what, int count) =>
        [.. Enumerable.Range(0, count).SelectMany(i => what == "batch" ? CrashUnits.OfBatch($"c-{i}") : [$"c-{i}"])];
}
