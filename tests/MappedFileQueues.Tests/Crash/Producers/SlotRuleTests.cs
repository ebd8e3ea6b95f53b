using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>docs/DESIGN.md section 1, slots: who may own a claim, and when an owner counts as dead.</summary>
[Trait("Category", "Slow")]
public sealed class SlotRuleTests
{
    /// <summary>
    /// The taker of a dead one's slot raises its generation. Without that the slot's lock, held again, would keep the dead
    /// one's hole alive for ever.
    /// </summary>
    [Fact]
    public void Slot_TakenOverFromTheDead_HoleOfTheDeadBecomesPadding()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        long hole = LeaveHole(store);
        Assert.Empty(survivor.GetInfo().OpenClaims);

        using MappedFileProducer producer = survivor.OpenProducer();
        using MessageClaim own = producer.DangerousClaim(8);
        Assert.Contains(survivor.GetInfo().OpenClaims, claim => claim.Slot == 0 && claim.Offset != hole);
        own.Dispose();
        producer.Produce(CrashMessage.Make("behind", 64));

        Assert.Equal(["behind"], CrashStore.ReadAll(survivor, "survivor"));
        using var words = new StoreWords(store.Path);
        Assert.Equal(FrameState.Padding, words.StateAt(hole));
    }

    [Fact]
    public void Slot_GenerationAtItsMaximum_IsRetiredUntilSomebodyIsAlone()
    {
        using var store = new CrashStore();
        using (MappedFileQueue queue = store.Open())
        {
            CrashStore.Append(queue, "m-0");
            using var words = new StoreWords(store.Path);
            words.SetGeneration(0, SlotLayout.GenerationMax);

            using MappedFileProducer producer = queue.OpenProducer();
            using MessageClaim claim = producer.DangerousClaim(8);
            Assert.Equal(1, Assert.Single(queue.GetInfo().OpenClaims).Slot);
            Assert.Equal(SlotLayout.GenerationMax, words.GenerationOf(0));
        }

        using MappedFileQueue alone = store.Open();
        using var after = new StoreWords(store.Path);
        Assert.Equal(0u, after.GenerationOf(0));
        CrashStore.Append(alone, "m-1");
        Assert.Equal(1u, after.GenerationOf(0));
        Assert.Equal(["m-0", "m-1"], CrashStore.ReadAll(alone, "all"));
    }

    /// <summary>
    /// A probe that fails for want of descriptors means "unknown": it is thrown, and the claim stays, dead or not.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Probe_NoDescriptorsLeft_ClaimIsLeftAlone(bool ownerIsDead)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using MappedFileProducer producer = survivor.OpenProducer();
        producer.Produce(CrashMessage.Make("before", 64));
        long hole = producer.Offset;
        using PeerAgent claimant = store.StartAttached();
        claimant.Send("hold text=late size=200");
        claimant.NextLine(line => line == "held");
        producer.Produce(CrashMessage.Make("behind", 64));
        using PeerAgent reader = store.StartAttached();
        Assert.Equal("before", reader.Ask("consume count=2 timeout=50"));
        if (ownerIsDead)
            claimant.Kill();

        reader.Ask("limit files=3");
        string error = reader.AskForError("consume timeout=5000");
        Assert.StartsWith("QueueDiskException", error, StringComparison.Ordinal);
        using (var words = new StoreWords(store.Path))
            Assert.Equal(FrameState.Claimed, words.StateAt(hole));

        if (!ownerIsDead)
        {
            claimant.Ask("publish");
            Assert.Equal(["before", "late", "behind"], CrashStore.ReadAll(survivor, "survivor"));
            return;
        }

        Assert.Equal(["before", "behind"], CrashStore.ReadAll(survivor, "survivor"));
    }

    /// <summary>An owner that was taken for dead and comes back: its publish fails, and nothing of its message is seen.</summary>
    [Theory]
    [InlineData("publish")]
    [InlineData("abandon")]
    public void Publish_AfterTheClaimWasTakenAway_ThrowsAndNothingIsSeen(string end)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using MappedFileProducer producer = survivor.OpenProducer();
        using PeerAgent claimant = store.StartAttached();
        claimant.Send("hold text=fenced size=200");
        claimant.NextLine(line => line == "held");
        producer.Produce(CrashMessage.Make("behind", 64));

        using (var words = new StoreWords(store.Path))
            words.SetGeneration(1, words.GenerationOf(1) + 1);
        Assert.Equal(["behind"], CrashStore.ReadAll(survivor, "survivor"));

        if (end == "publish")
            Assert.StartsWith("ProducerFencedException", claimant.AskForError("publish"), StringComparison.Ordinal);
        else
            claimant.Ask("abandon");
        Assert.Equal(["behind"], CrashStore.ReadAll(survivor, "again"));
        Assert.Equal(["behind"], store.Peek());
    }

    /// <summary>A dead one's hole: the offset of its claim.</summary>
    private static long LeaveHole(CrashStore store)
    {
        using PeerAgent child = store.StartAttached();
        using MappedFileReader reader = MappedFileReader.Open(store.Path);
        long hole = reader.GetInfo().TailOffset;
        child.Trap("PayloadWritten", 1);
        child.Send("append prefix=never size=300");
        child.ExpectKilled();
        return hole;
    }
}
