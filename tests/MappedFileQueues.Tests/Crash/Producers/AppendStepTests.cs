namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>
/// A producer that kills itself after each step of an append. docs/DESIGN.md section 1: what was published stays, what was not
/// leaves nothing that anybody reads, half a batch is none, and whoever comes after finds locks free and can continue.
/// </summary>
[Trait("Category", "Slow")]
public sealed class AppendStepTests
{
    private const string Shared = nameof(ProducerMode.Shared);
    private const string Exclusive = nameof(ProducerMode.Exclusive);

    /// <summary>
    /// Mode, what is appended, step and how often it is reached before the end, whether the last unit is in the log then.
    /// </summary>
    public static TheoryData<string, string, string, int, bool> Steps => new()
    {
        { Shared, "single", "Claimed", 1, false },
        { Shared, "single", "Claimed", 3, false },
        { Shared, "single", "PayloadWritten", 3, false },
        { Shared, "single", "Published", 3, true },
        { Shared, "batch", "Claimed", 2, false },
        { Shared, "batch", "BatchInnerWritten", 5, false },
        { Shared, "batch", "BatchInnerWritten", 7, false },
        { Shared, "batch", "PayloadWritten", 2, false },
        { Shared, "batch", "Published", 2, true },
        { Shared, "claim", "Claimed", 2, false },
        { Shared, "claim", "PayloadWritten", 2, false },
        { Shared, "claim", "Published", 2, true },
        { Shared, "single", "SegmentEntered", 1, false },
        { Exclusive, "single", "PayloadWritten", 1, false },
        { Exclusive, "single", "PayloadWritten", 3, false },
        { Exclusive, "single", "NextHeaderZeroed", 3, false },
        { Exclusive, "single", "Published", 3, true },
        { Exclusive, "batch", "BatchInnerWritten", 5, false },
        { Exclusive, "batch", "BatchInnerWritten", 7, false },
        { Exclusive, "batch", "PayloadWritten", 2, false },
        { Exclusive, "batch", "NextHeaderZeroed", 2, false },
        { Exclusive, "batch", "Published", 2, true },
        { Exclusive, "claim", "PayloadWritten", 2, false },
        { Exclusive, "claim", "Published", 2, true },
        { Exclusive, "single", "ExclusiveMarked", 1, false },
        { Exclusive, "single", "SlotTaken", 1, false },
    };

    /// <summary>Steps that a publisher takes only when somebody sleeps.</summary>
    public static TheoryData<string, string, string, int, bool> WakeSteps => new()
    {
        { Shared, "single", "SequenceRaised", 1, true },
        { Shared, "single", "SleepersWoken", 1, true },
        { Shared, "batch", "SequenceRaised", 1, true },
        { Exclusive, "single", "SequenceRaised", 1, true },
        { Exclusive, "batch", "SleepersWoken", 1, true },
    };

    [Theory]
    [MemberData(nameof(Steps))]
    [MemberData(nameof(WakeSteps))]
    public void Append_KilledAtStepBesideASurvivor_SurvivorGoesOn(string mode, string what, string step, int hit, bool isThere)
    {
        using var store = new CrashStore(mode: Enum.Parse<ProducerMode>(mode));
        using MappedFileQueue survivor = store.Open();
        CrashStore.Append(survivor, "before-0", "before-1");
        using var collecting = new CollectingConsumer(survivor, "survivor");
        collecting.Expect(["before-0", "before-1"]);

        List<string> expected = DieAt(store, what, step, hit, isThere);
        CrashStore.Append(survivor, "after-0", "after-1");
        expected.AddRange(["after-0", "after-1"]);

        collecting.Expect(expected);
        using (MappedFileQueue second = store.Open())
            Assert.Equal(expected, CrashStore.ReadAll(second, "second"));
        collecting.Dispose();
        survivor.Dispose();
        store.ExpectHealthy(expected);
    }

    [Theory]
    [MemberData(nameof(Steps))]
    public void Append_KilledAtStepAlone_NextOpenerGoesOn(string mode, string what, string step, int hit, bool isThere)
    {
        using var store = new CrashStore(mode: Enum.Parse<ProducerMode>(mode));
        using (MappedFileQueue first = store.Open())
            CrashStore.Append(first, "before-0", "before-1");

        store.ExpectHealthy(DieAt(store, what, step, hit, isThere));
    }

    /// <summary>Lets a child append until it dies; returns what must be in the log then.</summary>
    private static List<string> DieAt(CrashStore store, string what, string step, int hit, bool isThere)
    {
        List<string> expected = ["before-0", "before-1"];
        using PeerAgent child = store.StartAttached();
        child.Trap(step, hit);
        child.Send($"append what={what} prefix=c count=5 size=100");
        child.ExpectKilled();

        int count = child.AckedCount + (isThere ? 1 : 0);
        for (int i = 0; i < count; i++)
            expected.AddRange(what == "batch" ? CrashUnits.OfBatch($"c-{i}") : [$"c-{i}"]);
        Assert.Equal(expected, store.Peek());
        return expected;
    }
}
