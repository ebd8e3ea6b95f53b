using System.Buffers;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>
/// docs/DESIGN.md section 1, Append Exclusive: what a dead one wrote beyond the tail looks like headers here, and must be
/// zero before anybody appends, whatever the next producer's mode and whoever is attached.
/// </summary>
[Trait("Category", "Slow")]
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

    /// <summary>
    /// The frames of a batch that nobody published may be on the disk when its producer dies. Zeros over them that were only in
    /// memory, and a message that ended where one of them began, brought it back after a power loss that spared that message's
    /// page alone: the zeros are on the disk before anybody appends, also when somebody else wrote them and died before the sync.
    /// </summary>
    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    public void OpenProducer_BehindADeadBatch_ZerosAreOnDiskFirst(bool besideASurvivor, bool zeroedBefore)
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        var disk = new FaultyDisk();
        MappedFileQueue? survivor = besideASurvivor ? store.Open(ProducerMode.Shared) : null;
        long tail = Die(store, "batch", "BatchInnerWritten");
        using var words = new StoreWords(store.Path);
        if (zeroedBefore)
            words.WriteAt(tail, new byte[60_000]);
        bool isOnDisk = false;
        disk.Before = (call, name) => isOnDisk |= call == DiskCall.Synced && name == StoreNames.Segment(0)
            && words.BytesAt(tail, 60_000).AsSpan().IndexOfAnyExcept((byte)0) < 0;

        using MappedFileQueue queue = survivor ?? store.Open(ProducerMode.Shared);
        using MappedFileProducer producer = queue.OpenProducer();

        Assert.True(isOnDisk);
        disk.Before = null;
    }

    /// <summary>The same for a batch whose own producer continues, because a message's memory threw.</summary>
    [Fact]
    public void ProduceBatch_MemoryThrows_ItsFramesAreZeroOnDiskBeforeTheNextAppend()
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        var disk = new FaultyDisk();
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        using var words = new StoreWords(store.Path);
        bool isOnDisk = false;
        disk.Before = (call, name) => isOnDisk |= call == DiskCall.Synced && name == StoreNames.Segment(0)
            && words.BytesAt(0, 60_000).AsSpan().IndexOfAnyExcept((byte)0) < 0;
        using IMemoryOwner<byte> memory = new ThrowingMemory();

        Assert.Throws<TimeoutException>(() => producer.ProduceBatch([new byte[1000], new byte[1000], memory.Memory]));

        Assert.True(isOnDisk);
        disk.Before = null;
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
        // Nobody can say what the page knew of the log's end.
        Assert.InRange(queue.GetInfo().Epoch, 1, long.MaxValue);
        Assert.False(Directory.Exists(Path.Combine(store.Path, "salvage")));
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

    /// <summary>A message of 1,000 bytes that throws when it is looked at.</summary>
    private sealed class ThrowingMemory : MemoryManager<byte>
    {
        public override Memory<byte> Memory => CreateMemory(1000);

        public override Span<byte> GetSpan() => throw new TimeoutException("the message's own");

        public override MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }
}
