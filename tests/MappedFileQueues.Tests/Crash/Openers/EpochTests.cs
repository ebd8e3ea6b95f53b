namespace MappedFileQueues.Tests.Crash.Openers;

/// <summary>
/// An application that stores (epoch, offset) beside its own data takes a higher epoch for a log that was cut. The epoch rose
/// after kills alone: a word of the control page was stored and not sealed yet, so the page counted as lost.
/// </summary>
[Trait("Category", "Slow")]
public sealed class EpochTests
{
    [Theory]
    [InlineData("LogStartStored", "trim before=8192")]
    [InlineData("ExclusiveMarked", "producer")]
    public void Open_KilledBesideAColdWord_TheEpochStays(string step, string command)
    {
        using var store = new CrashStore(
            segmentSize: 4096, step == "ExclusiveMarked" ? ProducerMode.Exclusive : ProducerMode.Shared);
        string[] all = [.. Enumerable.Range(0, 60).Select(i => $"m-{i}")];
        using (MappedFileQueue queue = store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            foreach (string text in all)
                producer.Produce(CrashMessage.Make(text, 300));
        }

        using (PeerAgent dying = store.StartAttached())
        {
            dying.Trap(step, hit: 1);
            dying.Send(command);
            dying.ExpectKilled();
        }

        using MappedFileQueue again = store.Open();
        Assert.Equal(0, again.GetInfo().Epoch);
        Assert.Equal(all, CrashStore.ReadAll(again, "all"));
    }

    [Fact]
    public void Open_OpenerKilledWhileItRewritesTheControlPage_TheEpochStays()
    {
        using var store = new CrashStore(segmentSize: 4096, ProducerMode.Exclusive);
        using (PeerAgent first = store.StartAttached())
        {
            first.Ask("append prefix=m size=300 count=60");
            first.Kill();
        }

        using (PeerAgent dying = PeerAgent.Start())
        {
            dying.Trap("ControlCleared", hit: 1);
            dying.Send(store.OpenCommand);
            dying.ExpectKilled();
        }

        using MappedFileQueue again = store.Open();
        Assert.Equal(0, again.GetInfo().Epoch);
        Assert.Equal([.. Enumerable.Range(0, 60).Select(i => $"m-{i}")], CrashStore.ReadAll(again, "all"));
    }
}
