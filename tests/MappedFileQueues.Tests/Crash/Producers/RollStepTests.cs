namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>A producer that kills itself at the steps of a roll. docs/DESIGN.md section 2.</summary>
[Trait("Category", "Slow")]
public sealed class RollStepTests
{
    private const string Shared = nameof(ProducerMode.Shared);
    private const string Exclusive = nameof(ProducerMode.Exclusive);

    /// <summary>Mode, segment length, step, how often it is reached before.</summary>
    public static TheoryData<string, int, string, int> Steps => new()
    {
        { Shared, 4096, "RestPadded", 1 },
        { Shared, 4096, "RestPadded", 3 },
        { Shared, 4096, "SegmentEntered", 2 },
        { Shared, 4096, "SegmentEntered", 40 },
        { Shared, 4096, "TemporaryMade", 1 },
        { Shared, 4096, "TemporaryFlushed", 1 },
        { Shared, 4096, "SegmentRenamed", 1 },
        { Shared, 65536, "TemporaryMade", 2 },
        { Shared, 65536, "TemporaryFlushed", 2 },
        { Shared, 65536, "SegmentRenamed", 2 },
        { Shared, 65536, "RestPadded", 2 },
        { Exclusive, 4096, "RestPadded", 3 },
        { Exclusive, 4096, "SegmentEntered", 2 },
        { Exclusive, 65536, "TemporaryMade", 1 },
        { Exclusive, 65536, "SegmentRenamed", 1 },
    };

    [Theory]
    [MemberData(nameof(Steps))]
    public void Roll_KilledAtStep_NothingIsLostAndNoTemporaryStays(string mode, int segment, string step, int hit)
    {
        using var store = new CrashStore(segment, Enum.Parse<ProducerMode>(mode));
        using MappedFileQueue survivor = store.Open();
        using var collecting = new CollectingConsumer(survivor, "survivor");

        List<string> expected = DieAt(store, step, hit, segment);
        CrashStore.Append(survivor, Enumerable.Range(0, 60).Select(i => $"after-{i}"));
        expected.AddRange(Enumerable.Range(0, 60).Select(i => $"after-{i}"));

        collecting.Expect(expected);
        using (MappedFileQueue second = store.Open())
        {
            // The maker's slot is free, or held under a later generation: its temporary files go, whoever is attached.
            store.ExpectNoTemporaries();
            Assert.Equal(expected, CrashStore.ReadAll(second, "second"));
        }

        collecting.Dispose();
        survivor.Dispose();
        store.ExpectHealthy(expected);
    }

    [Theory]
    [InlineData("TemporaryMade")]
    [InlineData("SegmentRenamed")]
    [InlineData("RestPadded")]
    [InlineData("SegmentEntered")]
    public void Roll_KilledAtStepAlone_NextOpenerGoesOn(string step)
    {
        using var store = new CrashStore(4096);
        using (MappedFileQueue first = store.Open())
            CrashStore.Append(first, "before");

        store.ExpectHealthy(["before", .. DieAt(store, step, 2, 4096, before: 1)]);
    }

    private static List<string> DieAt(CrashStore store, string step, int hit, int segment, int before = 0)
    {
        using PeerAgent child = store.StartAttached();
        child.Trap(step, hit);
        child.Send($"append prefix=c count=100000 size={segment / 20}");
        child.ExpectKilled();

        List<string> expected = [.. Enumerable.Range(0, child.AckedCount).Select(i => $"c-{i}")];
        List<string> found = store.Peek()[before..];
        // The segment may have been made by the child's preparing thread while the other one was anywhere.
        if (found.Count > expected.Count)
            expected.Add($"c-{expected.Count}");
        Assert.Equal(expected, found);
        return expected;
    }
}
