using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>Messages of every length, up to the largest that fits and one byte more, in each mode on each platform.</summary>
[Trait("Category", "Slow")]
public sealed class MessageLengthTests
{
    public static TheoryData<ProducerMode, bool> Variants => new()
    {
        { ProducerMode.Shared, false },
        { ProducerMode.Exclusive, false },
        { ProducerMode.Shared, true },
        { ProducerMode.Exclusive, true },
    };

    [Theory, MemberData(nameof(Variants))]
    public void Produce_EveryLengthFrom0To1100_ComesBackUnchanged(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable, 4096);
        for (int length = 0; length <= 1100; length++)
            queue.Producer.Produce(Payload.Bytes(length, length));

        for (int length = 0; length <= 1100; length++)
        {
            Assert.Equal(Payload.Bytes(length, length), queue.Consumer.Consume());
            queue.Consumer.Commit();
        }

        Assert.False(queue.Consumer.TryConsume(out _));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Produce_OneMebibyte_ComesBackUnchanged(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable, 4 << 20);
        for (int i = 0; i < 9; i++)
            queue.Producer.Produce(Payload.Bytes((1 << 20) + i, i));

        for (int i = 0; i < 9; i++)
        {
            Assert.Equal(Payload.Bytes((1 << 20) + i, i), queue.Consumer.Consume());
            queue.Consumer.Commit();
        }
    }

    [Theory, MemberData(nameof(Variants))]
    public void Produce_ExactlyTheLargestAndOneLarger_FitsAndIsRefused(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable, 64 * 1024);
        int limit = queue.Producer.MessageLengthMax;
        Assert.Equal((64 * 1024) - 8, limit);
        byte[] largest = Payload.Bytes(limit, 3);
        foreach (bool atTheStart in new[] { true, false })
        {
            if (!atTheStart)
                queue.Producer.Produce([1, 2, 3]);
            long tail = queue.Producer.Offset;
            byte[] tooLarge = Payload.Bytes(limit + 1, 4);

            var error = Assert.Throws<ArgumentOutOfRangeException>(() => queue.Producer.Produce(tooLarge));
            Assert.Contains($"limit={limit}", error.Message, StringComparison.Ordinal);
            Assert.Throws<ArgumentOutOfRangeException>(() => queue.Producer.DangerousClaim(limit + 1));
            Assert.Throws<ArgumentOutOfRangeException>(() => queue.Producer.Produce(int.MaxValue, 0, (_, _) => { }));
            Assert.Equal(tail, queue.Producer.Offset);
            queue.Producer.Produce(largest);
        }

        queue.Producer.Produce([9]);
        List<byte[]> read = [];
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            read.Add(message.ToArray());
            queue.Consumer.Commit();
        }

        Assert.Equal([largest, [1, 2, 3], largest, [9]], read);
    }

    [Theory, MemberData(nameof(Variants))]
    public void ProduceBatch_ExactlyASegmentAndOneMore_FitsAndIsRefused(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable, 4096);
        ReadOnlyMemory<byte>[] full = [.. Enumerable.Range(0, 16).Select(i => (ReadOnlyMemory<byte>)Payload.Bytes(248, i))];
        ReadOnlyMemory<byte>[] tooLong = [.. full[..15], Payload.Bytes(249, 0)];

        queue.Producer.Produce([1]);
        long tail = queue.Producer.Offset;
        Assert.Throws<ArgumentOutOfRangeException>(() => queue.Producer.ProduceBatch(tooLong));
        Assert.Equal(tail, queue.Producer.Offset);
        Assert.Equal(4096, queue.Producer.ProduceBatch(full));
        queue.Producer.Produce([2]);

        int count = 0;
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            if (count is > 0 and < 17)
                Assert.Equal(full[count - 1].ToArray(), message);
            count++;
            queue.Consumer.Commit();
        }

        Assert.Equal(18, count);
    }

    [Theory, MemberData(nameof(Variants))]
    public void Produce_ThousandsOfRolls_NothingLost(ProducerMode mode, bool portable)
    {
        using TempStore store = TempStore.InMemory();
        using MappedFileQueue queue = Open(store, mode, portable, 4096);
        const int count = 2000;
        byte[] message = Payload.Bytes(2100, 1);
        for (int i = 0; i < count; i++)
        {
            BitConverter.TryWriteBytes(message, i);
            queue.Producer.Produce(message);
            ReadOnlySpan<byte> read = queue.Consumer.Consume();
            Assert.Equal(2100, read.Length);
            Assert.Equal(i, BitConverter.ToInt32(read));
            queue.Consumer.Commit();
        }

        Assert.True(queue.Producer.Offset > (count - 1) * 4096L);
    }

    [Fact]
    public void Produce_SegmentOfSeveralGibibytes_FewMessagesAtBothEnds()
    {
        using TempStore store = new();
        const long segment = 5L << 30;
        using MappedFileQueue queue = Open(store, ProducerMode.Shared, portable: false, segment);
        queue.Producer.Produce([1]);

        using TempStore other = new();
        Open(other, ProducerMode.Exclusive, portable: false, segment).Dispose();
        LaterLog.Begin(other.StorePath, 3 * segment);
        using MappedFileQueue late = Open(other, ProducerMode.Exclusive, portable: false, segment);
        Assert.Equal(3 * segment, late.Producer.Produce([2]));
        Assert.Equal([2], late.Consumer.Consume().ToArray());
        Assert.Equal([1], queue.Consumer.Consume().ToArray());
        Assert.True(queue.GetInfo().BytesOnDisk < 64 << 20);
    }

    private static MappedFileQueue Open(TempStore store, ProducerMode mode, bool portable, long segmentSize)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            ProducerMode = mode,
            SegmentSize = segmentSize,
        });
    }
}
