using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>
/// A producer's AdjustOffset beside others, stopped and killed at each of its steps. docs/DESIGN.md section 7.
/// </summary>
[Collection(ProcessCollection.Name)]
[Trait("Category", "Slow")]
public sealed class OriginStepTests
{
    private const long SegmentSize = 1 << 20;
    private const long Origin = (10 * SegmentSize) + 640;

    /// <summary>
    /// The old first segment became padding before low water was raised. Another producer walked over it into the next segment,
    /// its message was appended, even flushed, and then its segment was removed as one of those before the new start.
    /// </summary>
    [Theory]
    [InlineData("OriginRaised")]
    [InlineData("OriginPadded")]
    [InlineData("OriginCheckpointed")]
    public void AdjustOffset_StoppedAtStepWhileAnotherAppends_MessageStays(string step)
    {
        using var store = new CrashStore(SegmentSize);
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        using PeerAgent child = store.StartAttached();
        child.Ask("producer");
        child.Trap(step, 1, "stop");
        child.Send($"adjust offset={Origin}");
        child.WaitUntilStopped();

        BackgroundCall append = BackgroundCall.Start(() => producer.Produce(CrashMessage.Make("beside", 64)));
        Eventually.True(() => append.HasEnded || append.IsWaiting, "the append has ended, or waits for the other");
        if (append.HasEnded)
            queue.Flush();
        child.Continue();
        append.Join();
        child.Answer();

        Assert.Equal(["beside"], store.Peek());
        producer.Produce(CrashMessage.Make("later", 64));
        Assert.Equal(["beside", "later"], CrashStore.ReadAll(queue, "all"));
    }

    /// <summary>
    /// Whoever was attached, or came later, went round for ever between the hint, which lay below low water, and low water.
    /// </summary>
    [Theory]
    [InlineData("OriginRaised")]
    [InlineData("OriginPadded")]
    [InlineData("OriginCheckpointed")]
    public void AdjustOffset_KilledBesideAnother_TheOtherGoesOn(string step)
    {
        using var store = new CrashStore(SegmentSize);
        using (MappedFileQueue queue = store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            KillInAdjust(store, step);
            BackgroundCall.Start(() => producer.Produce(CrashMessage.Make("one", 64))).Join();
            using MappedFileQueue second = store.Open();
            CrashStore.Append(second, "two");
            Assert.Equal(["one", "two"], CrashStore.ReadAll(second, "all"));
            queue.Flush();
        }

        store.ExpectHealthy(["one", "two"]);
    }

    [Theory]
    [InlineData("OriginRaised", ProducerMode.Shared)]
    [InlineData("OriginPadded", ProducerMode.Shared)]
    [InlineData("OriginCheckpointed", ProducerMode.Shared)]
    [InlineData("OriginRaised", ProducerMode.Exclusive)]
    [InlineData("OriginPadded", ProducerMode.Exclusive)]
    [InlineData("OriginCheckpointed", ProducerMode.Exclusive)]
    public void AdjustOffset_KilledAlone_NextOpenerGoesOn(string step, ProducerMode mode)
    {
        using var store = new CrashStore(SegmentSize, mode);
        KillInAdjust(store, step);
        BackgroundCall.Start(() => store.ExpectHealthy([])).Join();
    }

    /// <summary>A consumer that begins in the middle of it must not begin where the log may not come for a long time.</summary>
    [Fact]
    public void OpenConsumer_BesideAnAdjustThatFails_BeginsAtTheLogsBeginning()
    {
        using var store = new CrashStore(SegmentSize);
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        producer.Prepare(4096);
        using PeerAgent child = store.StartAttached();
        child.Ask("producer");
        child.Trap("OriginRaised", 1, "stop");
        child.Send($"adjust offset={Origin}");
        child.WaitUntilStopped();
        MappedFileConsumer? consumer = null;
        BackgroundCall opening = BackgroundCall.Start(() => consumer = queue.OpenConsumer("c"));
        Eventually.True(() => opening.HasEnded || opening.IsWaiting, "the consumer is open, or waits for the other");

        child.Kill();
        opening.Join();
        producer.Produce(CrashMessage.Make("first", 64));
        Assert.True(consumer!.TryConsume(out ReadOnlySpan<byte> message, Eventually.DefaultDeadline));
        Assert.Equal("first", CrashMessage.Read(message));
    }

    /// <summary>
    /// The old segments were removed, and their padding left unsynced, without a flush of the directory: a cut could bring the
    /// first one back, empty, and consumers began there and waited for ever.
    /// </summary>
    [Fact]
    public void AdjustOffset_OldSegments_AreGoneForGood()
    {
        var disk = new FaultyDisk();
        using var store = new CrashStore(SegmentSize);
        List<string> calls = [];
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        disk.Before = (call, name) =>
        {
            lock (calls)
                calls.Add($"{call} {name}");
        };

        producer.AdjustOffset(Origin);

        disk.Before = null;
        const string old = "commitlog/00000000000000000000.log";
        int synced = calls.IndexOf($"Sync {old}");
        int written = calls.IndexOf("Write offset/producer.checkpoint");
        int deleted = calls.IndexOf($"Deleted {old}");
        Assert.True(synced >= 0 && synced < written && written < deleted, string.Join('\n', calls));
        Assert.True(calls.LastIndexOf("SyncEntries commitlog") > deleted, string.Join('\n', calls));
    }

    /// <summary>
    /// The new segment lies far ahead, and the word that says which names are on disk was raised over it. When the move was taken
    /// back, all the segments that were made before it later counted as flushed: a power cut could take one, with messages that
    /// `Flush()` had returned for.
    /// </summary>
    [Fact]
    public void AdjustOffset_TakenBack_NamesOfLaterSegmentsAreFlushed()
    {
        var disk = new FaultyDisk();
        using var store = new CrashStore(SegmentSize);
        List<string> calls = [];
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        KillInAdjust(store, "OriginRaised");
        disk.Before = (call, name) =>
        {
            lock (calls)
                calls.Add($"{call} {name}");
        };

        while (producer.Produce(new byte[60_000]) < SegmentSize)
        {
        }

        queue.Flush();
        disk.Before = null;
        int named = calls.IndexOf("Rename commitlog/00000000000001048576.log");
        Assert.True(named >= 0 && calls.IndexOf("SyncEntries commitlog", named) > named, string.Join('\n', calls));
    }

    private static void KillInAdjust(CrashStore store, string step)
    {
        using PeerAgent child = store.StartAttached();
        child.Ask("producer");
        child.Trap(step, 1);
        child.Send($"adjust offset={Origin}");
        child.ExpectKilled();
    }
}
