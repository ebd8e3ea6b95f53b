namespace MappedFileQueues.Tests.Crash.Consumers;

/// <summary>
/// A consumer that kills itself in a repair, or in a commit. docs/DESIGN.md section 1: its only change is one compare-and-swap.
/// </summary>
[Trait("Category", "Slow")]
public sealed class RepairStepTests
{
    [Theory]
    [InlineData("RepairProbed", true)]
    [InlineData("RepairDone", true)]
    [InlineData("RepairProbed", false)]
    [InlineData("RepairDone", false)]
    [InlineData("WaiterFlagRaised", true)]
    public void Repair_KilledAtStep_NextReaderGoesOn(string step, bool besideASurvivor)
    {
        using var store = new CrashStore();
        MappedFileQueue survivor = store.Open();
        using var ending = survivor;
        CrashStore.Append(survivor, "before");
        // With a producer of its own the survivor does not take the dead one's slot, so that the claim's death shows by the
        // probe alone.
        MappedFileProducer own = survivor.OpenProducer();
        using (PeerAgent producer = store.StartAttached())
        {
            producer.Trap("PayloadWritten", 1);
            producer.Send("append prefix=never size=300");
            producer.ExpectKilled();
        }

        own.Produce(CrashMessage.Make("behind", 64));
        using (PeerAgent repairer = store.StartAttached())
        {
            repairer.Trap(step, 1);
            repairer.Send("watch name=repairer");
            repairer.ExpectKilled();
        }

        if (!besideASurvivor)
            survivor.Dispose();
        else
            Assert.Equal(["before", "behind"], CrashStore.ReadAll(survivor, "survivor"));
        survivor.Dispose();
        store.ExpectHealthy(["before", "behind"]);
    }

    /// <summary>
    /// Two repairers at one hole: one of them stopped between probe and compare-and-swap finds padding when it continues.
    /// </summary>
    [Fact]
    public void Repair_StoppedAfterItsProbe_FindsTheOthersPadding()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        MappedFileProducer own = survivor.OpenProducer();
        using (PeerAgent producer = store.StartAttached())
        {
            producer.Trap("Claimed", 1);
            producer.Send("append prefix=never size=300");
            producer.ExpectKilled();
        }

        own.Produce(CrashMessage.Make("behind", 64));
        using PeerAgent repairer = store.StartAttached();
        repairer.Trap("RepairProbed", 1, "stop");
        repairer.Send("consume timeout=30000");
        repairer.WaitUntilStopped();
        Assert.Equal(["behind"], CrashStore.ReadAll(survivor, "survivor"));

        repairer.Continue();
        Assert.Equal("ok behind", repairer.Answer());
        Assert.Equal(1, survivor.GetInfo().RepairCount);
    }

    /// <summary>
    /// A commit is one store: killed after it the next consumer of that name continues there, killed before it reads again.
    /// </summary>
    [Fact]
    public void Commit_KilledBehindTheStore_NextConsumerGoesOnThere()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        CrashStore.Append(survivor, "m-0", "m-1", "m-2");
        using (PeerAgent child = store.StartAttached())
        {
            child.Trap("CursorStored", 2);
            child.Send("consume count=3");
            child.ExpectKilled();
        }

        using MappedFileConsumer next = survivor.OpenConsumer("");
        Assert.True(next.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal("m-2", CrashMessage.Read(message));
    }

    [Fact]
    public void Consume_KilledBeforeItsCommit_NextConsumerReadsAgain()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        CrashStore.Append(survivor, "m-0", "m-1");
        using (PeerAgent child = store.StartAttached())
        {
            child.Ask("consume count=1");
            Assert.Equal("m-1", child.Ask("peek"));
            child.Kill();
        }

        using MappedFileConsumer next = survivor.OpenConsumer("");
        Assert.True(next.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal("m-1", CrashMessage.Read(message));
    }
}
