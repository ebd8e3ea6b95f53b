namespace MappedFileQueues.Tests.Crash.Openers;

/// <summary>
/// An opener that kills itself at each step, of a store that it makes and of one that is there. docs/DESIGN.md section 3.
/// </summary>
[Trait("Category", "Slow")]
public sealed class OpenStepTests
{
    [Theory]
    [InlineData("OpenLocked")]
    [InlineData("MetaWritten")]
    [InlineData("MetaRenamed")]
    [InlineData("AttachedAlone")]
    [InlineData("TemporaryMade")]
    [InlineData("TemporaryFlushed")]
    [InlineData("SegmentRenamed")]
    [InlineData("ControlCleared")]
    [InlineData("Recovered")]
    public void Open_FreshStoreKilledAtStep_NextOpenerMakesIt(string step)
    {
        // Tiny segments, so that a group of them is being made.
        using var store = new CrashStore(4096);
        using (PeerAgent child = PeerAgent.Start())
        {
            child.Trap(step, 1);
            child.Send(store.OpenCommand);
            child.ExpectKilled();
        }

        store.ExpectHealthy([]);
        using MappedFileQueue queue = store.Open();
        Assert.Equal(0, queue.GetInfo().Epoch);
    }

    /// <summary>
    /// The log has a dead one's hole in its middle. Everything after it hangs on the opener's knowing that this is the same
    /// boot, also when one before it died with the control page half written.
    /// </summary>
    [Theory]
    [InlineData("OpenLocked")]
    [InlineData("AttachedAlone")]
    [InlineData("ClaimPadded")]
    [InlineData("ControlCleared")]
    [InlineData("Recovered")]
    public void Open_ExistingStoreKilledAtStep_NextOpenerFindsEverything(string step)
    {
        using var store = new CrashStore();
        using (MappedFileQueue first = store.Open())
        {
            CrashStore.Append(first, "before-0", "before-1");
            using PeerAgent claimant = store.StartAttached();
            claimant.Trap("PayloadWritten", 1);
            claimant.Send("append prefix=never size=300");
            claimant.ExpectKilled();
            CrashStore.Append(first, "behind-0", "behind-1");
        }

        using (PeerAgent child = PeerAgent.Start())
        {
            child.Trap(step, 1);
            child.Send(store.OpenCommand);
            child.ExpectKilled();
        }

        store.ExpectHealthy(["before-0", "before-1", "behind-0", "behind-1"]);
    }

    /// <summary>
    /// The look for foreign files comes before the lock: who finds no meta page and then another's fresh store beside it must
    /// not take that for foreign files.
    /// </summary>
    [Fact]
    public void Open_FreshStoreBySixAtOnce_AllGetTheSameStore()
    {
        for (int round = 0; round < 20; round++)
        {
            using var store = new CrashStore(4096);
            MappedFileQueue[] queues = new MappedFileQueue[6];
            Parallel.For(
                0, queues.Length, new ParallelOptions { MaxDegreeOfParallelism = queues.Length }, i => queues[i] = store.Open());
            Assert.Single(queues.Select(queue => queue.GetInfo().StoreId).Distinct());
            foreach (MappedFileQueue queue in queues)
                queue.Dispose();
        }
    }
}
