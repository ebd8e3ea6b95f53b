using System.Buffers;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Queues;

namespace MappedFileQueues.Tests.Log.Appending;

/// <summary>Batches whose messages lie in memory of the user's own making: its code runs while the batch is written.</summary>
public sealed class BatchMemoryTests
{
    public static TheoryData<ProducerMode, bool> Variants => MessageLengthTests.Variants;

    /// <summary>
    /// The memory's code produced on the same producer. That moved the producer's place, the batch failed to publish there, and
    /// its claim stayed in everybody's way. It meets an open claim now, as any other code under one.
    /// </summary>
    [Theory, MemberData(nameof(Variants))]
    public void ProduceBatch_MemoryProducesOnTheSameProducer_IsRefusedAndTheBatchGoesOn(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MappedFileProducer producer = queue.Producer;
        int refused = 0;
        using var memory = new CallingMemory(() =>
        {
            Assert.Throws<InvalidOperationException>(() => producer.Produce([9]));
            Assert.Throws<InvalidOperationException>(() => producer.ProduceBatch([new byte[] { 9 }]));
            Assert.Throws<InvalidOperationException>(() => queue.Flush());
            refused++;
        });

        producer.Produce([1]);
        producer.ProduceBatch([new byte[] { 2 }, memory.Memory, new byte[] { 4 }]);
        producer.Produce([5]);

        Assert.Equal(1, refused);
        Assert.Equal([[1], [2], [3], [4], [5]], ReadAll(queue));
        Assert.Empty(queue.GetInfo().OpenClaims);
    }

    /// <summary>The same, and what the producer says goes through to the caller: nothing of the batch is seen.</summary>
    [Theory, MemberData(nameof(Variants))]
    public void ProduceBatch_MemoryLetsTheRefusalThrough_NothingIsSeenAndTheNextWorks(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        MappedFileProducer producer = queue.Producer;
        using var memory = new CallingMemory(() => producer.Produce([9]));

        Assert.Throws<InvalidOperationException>(() => producer.ProduceBatch([new byte[] { 2 }, memory.Memory]));
        producer.Produce([5]);

        Assert.Equal([[5]], ReadAll(queue));
        Assert.Empty(queue.GetInfo().OpenClaims);
    }

    /// <summary>
    /// A list that changed while it was appended filled its claim too early, and counted as whole: a message was missing, and
    /// the frame before it said that the batch continues.
    /// </summary>
    [Theory, MemberData(nameof(Variants))]
    public void ProduceBatch_ListFillsItsClaimTooEarly_Refused(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        ReadOnlyMemory<byte>[] messages = new ReadOnlyMemory<byte>[3];
        // Frames of 16, 16 and 16 bytes were claimed; then the second has 32.
        using var memory = new CallingMemory(() => messages[1] = new byte[24]);
        messages[0] = memory.Memory;
        messages[1] = new byte[8];
        messages[2] = new byte[8];

        Assert.Throws<InvalidOperationException>(() => queue.Producer.ProduceBatch(messages));
        queue.Producer.Produce([5]);

        Assert.Equal([[5]], ReadAll(queue));
    }

    private static List<byte[]> ReadAll(MappedFileQueue queue)
    {
        List<byte[]> read = [];
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            read.Add(message.ToArray());
            queue.Consumer.Commit();
        }

        return read;
    }

    private static MappedFileQueue Open(TempStore store, ProducerMode mode, bool portable)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueue(new() { StorePath = store.StorePath, ProducerMode = mode, SegmentSize = 4096 });
    }

    /// <summary>One byte, 3; whoever looks at it runs a call first.</summary>
    private sealed class CallingMemory(Action call) : MemoryManager<byte>
    {
        public override Span<byte> GetSpan()
        {
            call();
            return new byte[] { 3 };
        }

        public override Memory<byte> Memory => CreateMemory(1);

        public override MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }
}
