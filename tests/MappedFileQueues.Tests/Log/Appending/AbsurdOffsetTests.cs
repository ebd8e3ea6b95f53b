using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Appending;

/// <summary>
/// Offsets near the end of what a log, and what 63 bits, can say. A check left room for three segments and none for the longest
/// padding, whose loop then continued below zero: AccessViolationException.
/// </summary>
public sealed class AbsurdOffsetTests : IDisposable
{
    private readonly TempStore _temp = new();

    public static TheoryData<long> Offsets =>
    [
        long.MaxValue - 7, long.MaxValue & ~4095L, long.MaxValue - (1L << 28) - 7, (long.MaxValue - (1L << 28)) & ~4095L,
        (long.MaxValue - (3L << 28) - 4096) & ~((1L << 28) - 1), LogLimits.OffsetMax & ~7L,
    ];

    public void Dispose() => _temp.Dispose();

    [Theory]
    [MemberData(nameof(Offsets))]
    public void EveryCall_AbsurdOffset_ThrowsWhatItSays(long offset)
    {
        foreach (CorruptionPolicy policy in Enum.GetValues<CorruptionPolicy>())
        {
            using MappedFileQueue queue = Open(policy);
            using MappedFileConsumer consumer = queue.OpenConsumer($"{policy}");
            queue.Producer.Produce([1]);
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> _));
            Assert.Throws<OffsetOutOfRangeException>(() => consumer.AdjustOffset(offset));
            Assert.Throws<OffsetOutOfRangeException>(() => consumer.Commit(offset));
            Assert.Throws<OffsetOutOfRangeException>(() => queue.OpenConsumer("at", QueueStart.FromOffset(offset)));
            Assert.Throws<OffsetOutOfRangeException>(() => queue.OpenReader(QueueStart.FromOffset(offset)));
            using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath, default, policy);
            Assert.Throws<OffsetOutOfRangeException>(() => reader.Seek(QueueStart.FromOffset(offset)));
            Assert.Throws<OffsetOutOfRangeException>(
                () => MappedFileReader.Open(_temp.StorePath, QueueStart.FromOffset(offset), policy));
            Assert.Throws<ArgumentOutOfRangeException>(() => queue.Producer.Prepare(long.MaxValue));
            consumer.Commit();
        }
    }

    /// <summary>The end of the segment there was computed as a negative number, and the next append never ended.</summary>
    [Theory]
    [InlineData(4096)]
    [InlineData(1L << 28)]
    [InlineData(1L << 30)]
    public void Append_NearTheEnd_Works(long segmentSize)
    {
        Open(CorruptionPolicy.Throw, segmentSize).Dispose();
        long start = LogLimits.OffsetMax / segmentSize * segmentSize;
        LaterLog.Begin(_temp.StorePath, start);
        using MappedFileQueue queue = Open(CorruptionPolicy.Throw, segmentSize);
        long first = queue.Producer.Produce([1]);
        Assert.Equal(start, first);
        queue.Flush();
        using MappedFileConsumer consumer = queue.OpenConsumer("c", QueueStart.FromOffset(first));
        Assert.Equal(1, consumer.Consume()[0]);
        consumer.Commit();
        MappedFileQueueInfo info = queue.GetInfo();
        Assert.Equal(info.TailOffset, info.ConfirmedOffset);
        Assert.Equal(info.TailOffset, StoreInspector.Inspect(_temp.StorePath).TailOffset);
    }

    /// <summary>Names of files have no checksum, and the bits of a cursor let one in 1,024 pass.</summary>
    [Fact]
    public void Open_FilesThatSayAbsurdOffsets_AreRefusedOrPassedBy()
    {
        using (MappedFileQueue queue = Open(CorruptionPolicy.Throw))
        {
            queue.Producer.Produce([1]);
            queue.OpenConsumer("c").Dispose();
        }

        File.WriteAllBytes(_temp.PathOf("commitlog", "09223372036854771712.log"), new byte[4096]);
        foreach (long offset in Offsets.Select(row => row.Data).Where(offset => offset < CursorWord.OffsetEnd))
        {
            byte[] cursor = new byte[CursorWord.FileLength];
            BitConverter.TryWriteBytes(cursor, CursorWord.From(offset));
            File.WriteAllBytes(_temp.PathOf("offset", "consumers", "c.cursor"), cursor);
            foreach (CorruptionPolicy policy in Enum.GetValues<CorruptionPolicy>())
            {
                using MappedFileQueue queue = Open(policy);
                Assert.Throws<QueueCorruptException>(() => queue.OpenConsumer("c"));
                Assert.Equal(0, queue.GetInfo().Epoch);
                Assert.Equal(offset, Assert.Single(queue.GetInfo().Consumers).Offset);
            }
        }
    }

    private MappedFileQueue Open(CorruptionPolicy policy, long segmentSize = 4096) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = segmentSize,
        Corruption = policy,
        Durability = DurabilityLevel.PageCache,
    });
}
