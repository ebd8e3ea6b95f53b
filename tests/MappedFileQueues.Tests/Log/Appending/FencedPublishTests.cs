using System.Runtime.CompilerServices;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Appending;

/// <summary>
/// An Exclusive producer whose waiters cannot fence it publishes by an exchange. The fast path does not; it is kept closed by
/// the bound, which a batch that threw once left open: the next publish could miss a consumer on its way to sleep, for up to
/// 100 ms.
/// </summary>
public sealed class FencedPublishTests
{
    [Fact]
    public void Append_WaitersCannotFence_FastPathStaysClosed()
    {
        PlatformScope.Use(portable: true);
        using TempStore store = new();
        using var queue = new MappedFileQueue(
            new() { StorePath = store.StorePath, ProducerMode = ProducerMode.Exclusive, SegmentSize = 4096 });
        MappedFileProducer producer = queue.Producer;
        AssertClosed(producer);
        producer.Produce([1]);
        AssertClosed(producer);
        Assert.Throws<InvalidOperationException>(() => producer.ProduceBatch(new ThrowingList().Messages));
        AssertClosed(producer);
        producer.ProduceBatch([new byte[] { 2 }, new byte[] { 3 }]);
        producer.DangerousClaim(8).Dispose();
        AssertClosed(producer);
        producer.Produce([4]);
        AssertClosed(producer);
    }

    private static unsafe void AssertClosed(MappedFileProducer producer)
    {
        ExclusiveAppender appender = AppenderOf(producer)!;
        Assert.True(LaneOf(appender).Bound == null, "The fast path has a bound, and publishes without a fence.");
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_exclusive")]
    private static extern ref ExclusiveAppender? AppenderOf(MappedFileProducer producer);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_lane")]
    private static extern ref AppendLane LaneOf(ExclusiveAppender appender);

    /// <summary>A message whose memory throws.</summary>
    private sealed class ThrowingList : System.Buffers.MemoryManager<byte>
    {
        public ReadOnlyMemory<byte>[] Messages => [new byte[] { 1 }, CreateMemory(1)];

        public override Span<byte> GetSpan() => throw new InvalidOperationException();

        public override System.Buffers.MemoryHandle Pin(int elementIndex = 0) => throw new NotSupportedException();

        public override void Unpin()
        {
        }

        protected override void Dispose(bool disposing)
        {
        }
    }
}
