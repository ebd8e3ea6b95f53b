namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// docs/PROTOCOL.md section 1, Append Exclusive: what a dead one wrote beyond the tail looks like headers here, and must be
/// zero before anybody appends, whatever the next producer's mode and whoever is attached.
/// </summary>
[Collection(CrashCollection.Name)]
public sealed class ExclusiveDirtTests
{
    [Theory]
    [InlineData(ProducerMode.Shared, true, "single", "PayloadWritten")]
    [InlineData(ProducerMode.Shared, false, "single", "PayloadWritten")]
    [InlineData(ProducerMode.Exclusive, true, "single", "PayloadWritten")]
    [InlineData(ProducerMode.Exclusive, false, "single", "NextHeaderZeroed")]
    [InlineData(ProducerMode.Shared, true, "batch", "BatchInnerWritten")]
    [InlineData(ProducerMode.Shared, false, "claim", "PayloadWritten")]
    public void Append_BehindADeadExclusiveProducer_NoGhosts(ProducerMode next, bool besideASurvivor, string what, string step)
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        MappedFileQueue? survivor = besideASurvivor ? store.Open(next) : null;
        long tail = Die(store, what, step);
        survivor ??= store.Open(next);
        using MappedFileQueue ending = survivor;
        using MappedFileProducer producer = survivor.OpenProducer();

        using (var words = new StoreWords(store.Path))
            Assert.True(words.BytesAt(tail, 60_000).AsSpan().IndexOfAnyExcept((byte)0) < 0, "all is zero beyond the tail");
        List<string> expected = [];
        for (int i = 0; i < 50; i++)
        {
            expected.Add($"short-{i}");
            producer.Produce(CrashMessage.Make($"short-{i}", 0));
            Assert.Equal(expected, store.Peek());
        }

        producer.Dispose();
        Assert.Equal(expected, CrashStore.ReadAll(survivor, "survivor"));
    }

    /// <summary>A control page that cannot be believed says nothing about dirt: then there may be some.</summary>
    [Fact]
    public void Open_ColdBlockDamaged_ExclusiveAtWorkCountsAsSet()
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        long tail = Die(store, "single", "PayloadWritten");
        byte[] control = new byte[4096];
        using (FileStream file = File.Open(Path.Combine(store.Path, "control"), FileMode.Open))
            file.Write(control);

        using MappedFileQueue queue = store.Open(ProducerMode.Shared);
        using (var words = new StoreWords(store.Path))
            Assert.True(words.BytesAt(tail, 60_000).AsSpan().IndexOfAnyExcept((byte)0) < 0, "all is zero beyond the tail");
        CrashStore.Append(queue, "short");
        Assert.Equal(["short"], CrashStore.ReadAll(queue, "all"));
        Assert.Equal(0, queue.GetInfo().Epoch);
    }

    /// <summary>A claim that is published shorter than it was leaves its rest; an orderly end zeroes that.</summary>
    [Fact]
    public void Dispose_AbandonedClaim_LeavesZeros()
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using MappedFileQueue queue = store.Open();
        using (MappedFileProducer producer = queue.OpenProducer())
        {
            MessageClaim claim = producer.DangerousClaim(5000);
            claim.Span.Fill(0x55);
            claim.Dispose();
            producer.Produce(CrashMessage.Make("m", 64));
        }

        using var words = new StoreWords(store.Path);
        Assert.True(words.BytesAt(72, 8000).AsSpan().IndexOfAnyExcept((byte)0) < 0, "all is zero beyond the tail");
    }

    /// <summary>A large append that dies before it is published; returns the tail. The bytes beyond it are not zero.</summary>
    private static long Die(CrashStore store, string what, string step)
    {
        using PeerAgent child = store.StartAttached();
        child.Trap(step, 1);
        child.Send($"append what={what} prefix=never size=10000");
        child.ExpectKilled();
        using var words = new StoreWords(store.Path);
        Assert.True(words.BytesAt(0, 60_000).AsSpan().IndexOfAnyExcept((byte)0) >= 0, "the dead one left dirt");
        Assert.Empty(store.Peek());
        return 0;
    }
}
