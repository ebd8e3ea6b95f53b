using System.Globalization;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Crash.Snapshots;

/// <summary>Snapshots whose maker is killed at each step. docs/DESIGN.md section 7.</summary>
[Trait("Category", "Slow")]
public sealed class SnapshotStepTests : IDisposable
{
    private const long SegmentSize = 4096;

    private readonly TempStore _temp = new();
    private readonly CrashStore _store = new(SegmentSize);

    private string Target => Path.Combine(_temp.Root, "snapshot");

    public void Dispose()
    {
        _store.Dispose();
        _temp.Dispose();
    }

    [Theory]
    [InlineData("OpenLocked", false)]
    [InlineData("SnapshotBegun", false)]
    [InlineData("SnapshotLinked", false)]
    [InlineData("CheckpointSlotWritten", false)]
    [InlineData("SnapshotCopied", false)]
    [InlineData("SnapshotRenamed", true)]
    public void Snapshot_KilledAtStep_LeavesNoStoreOrAWholeOneAndTheNextWorks(string step, bool isThere)
    {
        List<string> texts = [.. Enumerable.Range(0, 200).Select(i => string.Create(CultureInfo.InvariantCulture, $"m-{i}"))];
        using MappedFileQueue queue = _store.Open();
        CrashStore.Append(queue, texts);
        queue.OpenConsumer("billing").Dispose();
        using (PeerAgent maker = _store.StartAttached())
        {
            // An opener of the target takes that lock; a snapshot does not come there.
            maker.Trap(step, 1);
            maker.Send(step == "OpenLocked" ? $"open path={Target}" : $"snapshot target={Target}");
            maker.ExpectKilled();
        }

        if (isThere)
        {
            ExpectWhole(texts);
            Assert.Throws<QueueFormatException>(() => queue.Snapshot(Target));
            return;
        }

        Assert.Throws<QueueNotFoundException>(() => StoreInspector.Inspect(Target));
        if (step != "OpenLocked")
        {
            QueueFormatException refused = Assert.Throws<QueueFormatException>(() => OpenTarget(createIfMissing: true));
            Assert.Contains(StoreNames.UnfinishedSnapshot, refused.Message, StringComparison.Ordinal);
        }

        CrashStore.Append(queue, "more");
        queue.DeleteConsumer("billing");
        queue.Snapshot(Target);

        ExpectWhole([.. texts, "more"]);
        Assert.DoesNotContain(StoreInspector.Inspect(Target).Consumers, consumer => consumer.Name == "billing");
        _store.ExpectNoTemporaries();
        queue.Dispose();
        _store.ExpectHealthy([.. texts, "more"]);
    }

    /// <summary>
    /// An opener that waits to make a store in the target got the lock when the maker of the snapshot died. It found no meta page
    /// and made a store around the linked segments: its recovery would have zeroed frames of the source.
    /// </summary>
    [Fact]
    public void Open_MakerDiesWhileOpenerWaits_RefusesAndTheSourceIsWhole()
    {
        List<string> texts = [.. Enumerable.Range(0, 200).Select(i => string.Create(CultureInfo.InvariantCulture, $"m-{i}"))];
        using MappedFileQueue queue = _store.Open();
        CrashStore.Append(queue, texts);
        Directory.CreateDirectory(Target);
        using PeerAgent maker = _store.StartAttached();
        using PeerAgent opener = PeerAgent.Start();
        // It has seen an empty folder, and waits for the lock.
        using (FileStream held = new(Path.Combine(Directory.CreateDirectory(Path.Combine(Target, "locks")).FullName, "open"),
            FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.None))
        {
            opener.Send($"open path={Target} segment={SegmentSize}");
            Eventually.True(() => Directory.Exists(Path.Combine(Target, "commitlog")), "the opener has made its folders");
            opener.Stop();
        }

        maker.Trap("SnapshotLinked", 1);
        maker.Send($"snapshot target={Target}");
        maker.ExpectKilled();
        opener.Continue();

        Assert.Contains("unfinished snapshot", opener.Answer(), StringComparison.Ordinal);
        queue.Snapshot(Target);
        ExpectWhole(texts);
        queue.Dispose();
        _store.ExpectHealthy(texts);
    }

    private MappedFileQueue OpenTarget(bool createIfMissing = false) => new(new MappedFileQueueOptions
    {
        StorePath = Target,
        CreateIfMissing = createIfMissing,
        Durability = DurabilityLevel.PageCache,
    });

    private void ExpectWhole(List<string> texts)
    {
        Assert.False(File.Exists(Path.Combine(Target, StoreNames.UnfinishedSnapshot)));
        using MappedFileQueue copy = OpenTarget();
        Assert.Equal(texts, CrashStore.ReadAll(copy, "look"));
        CrashStore.Append(copy, "own");
        Assert.Equal([.. texts, "own"], CrashStore.ReadAll(copy, "look-again"));
    }
}
