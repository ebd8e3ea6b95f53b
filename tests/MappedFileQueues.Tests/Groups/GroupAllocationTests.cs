using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Groups;

/// <summary>Taking and acknowledging allocates nothing, once a member has worked before.</summary>
public sealed class GroupAllocationTests : IDisposable
{
    private const int Rounds = 200;

    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    [Fact]
    public void Structs_SinglesAndBatches_AllocateNothing()
    {
        using var queue = new MappedFileQueue<Tick>(Options());
        using MappedFileGroupMember<Tick> member = queue.OpenGroupMember("workers");
        var ticks = new Tick[48];
        long[] offsets = new long[48];
        for (int i = 0; i < 4 * Rounds * 50; i++)
            queue.Producer.Produce(Tick.Make(0, i));
        Assert.Equal(0, MeasureSecond(() =>
        {
            member.Consume(out Tick tick);
            member.Acknowledge();
            int count = member.ConsumeBatch(ticks, offsets);
            member.Acknowledge(offsets.AsSpan(0, count));
        }));
    }

    [Fact]
    public void Messages_SinglesAndBatches_AllocateNothing()
    {
        using var queue = new MappedFileQueue(Options());
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        byte[] bytes = new byte[64];
        for (int i = 0; i < 4 * Rounds * 50; i++)
            queue.Producer.Produce(bytes);
        Assert.Equal(0, MeasureSecond(() =>
        {
            _ = member.Consume();
            member.Acknowledge();
            using GroupBatch batch = member.ConsumeBatch(48);
            foreach (ReadOnlySpan<byte> message in batch)
                member.Acknowledge(member.MessageOffset);
        }));
    }

    private MappedFileQueueOptions Options() => new()
    {
        StorePath = _store.StorePath,
        Durability = DurabilityLevel.PageCache,
        SegmentSize = 64 * 1024 * 1024,
    };

    private static long MeasureSecond(Action work)
    {
        for (int i = 0; i < 2 * Rounds; i++)
            work();
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < Rounds; i++)
            work();
        return GC.GetAllocatedBytesForCurrentThread() - before;
    }
}
