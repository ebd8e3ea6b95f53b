using MappedFileQueues.Engine;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Groups;

/// <summary>Batches that a member shows one by one, in place.</summary>
public sealed class GroupBatchTests : IDisposable
{
    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    [Fact]
    public void Default_HasNothing()
    {
        int count = 0;
        foreach (ReadOnlySpan<byte> _ in default(GroupBatch))
            count++;
        Assert.Equal(0, count);
    }

    /// <summary>The headers of a message before the batch are not those of one in it.</summary>
    [Fact]
    public void HeadersInPlace_NoMessageYet_AreNone()
    {
        using MappedFileQueue queue = new(new() { StorePath = _store.StorePath, Durability = DurabilityLevel.PageCache });
        ProduceOptions options = new() { Headers = new MessageHeaders { Key = new byte[] { 7 } } };
        queue.Producer.Produce("one"u8, options);
        queue.Producer.Produce("two"u8, options);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        Assert.Equal(3, member.Consume().Length);
        using GroupBatch batch = member.ConsumeBatch();
        GroupBatch copy = batch;
        Assert.True(copy.HeadersInPlace.IsEmpty);
        Assert.True(copy.MoveNext());
        Assert.Equal([7], copy.HeadersInPlace.Key.ToArray());
        Assert.True(default(GroupBatch).HeadersInPlace.IsEmpty);
    }

    /// <summary>What an operator has taken away is another member's by then.</summary>
    [Fact]
    public void ConsumeBatch_FencedOnTheWay_ShowsNothingThatOthersHave()
    {
        MappedFileQueueOptions options = new() { StorePath = _store.StorePath, Durability = DurabilityLevel.PageCache };
        using MappedFileQueue queue = new(options);
        for (int i = 0; i < 5; i++)
            queue.Producer.Produce(BitConverter.GetBytes(i));
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        List<int> shown = [];
        using (GroupBatch batch = member.ConsumeBatch(10))
        {
            foreach (ReadOnlySpan<byte> message in batch)
            {
                shown.Add(BitConverter.ToInt32(message));
                if (shown.Count > 1)
                    continue;
                using (StoreEngine operating = new(options, StoreKind.Messages, 0, 0))
                    Assert.Equal(1, operating.FenceGroupMember("workers", member.Slot));
                Assert.Throws<GroupMemberFencedException>(() => member.Acknowledge(member.MessageOffset));
            }
        }

        Assert.Equal([0], shown);
        Assert.Equal(0, member.UnacknowledgedCount);
        using MappedFileGroupMember other = queue.OpenGroupMember("workers");
        for (int i = 0; i < 5; i++)
        {
            Assert.True(other.TryConsume(out ReadOnlySpan<byte> message));
            Assert.Equal(i, BitConverter.ToInt32(message));
        }
    }

    /// <summary>The next call ends a batch: what was not shown by then goes to others, and nothing is in hand unknown.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void ConsumeBatch_AnotherCallOnTheWay_EndsAndGivesTheRestBack(bool acknowledges)
    {
        MappedFileQueueOptions options = new() { StorePath = _store.StorePath, Durability = DurabilityLevel.PageCache };
        using MappedFileQueue queue = new(options);
        for (int i = 0; i < 40; i++)
            queue.Producer.Produce(BitConverter.GetBytes(i));
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        List<int> shown = [];
        // A range holds 32 messages: with all of them acknowledged, it serves again for the other call.
        int last = acknowledges ? 32 : 3;
        using (GroupBatch batch = member.ConsumeBatch(50))
        {
            foreach (ReadOnlySpan<byte> message in batch)
            {
                shown.Add(BitConverter.ToInt32(message));
                if (acknowledges)
                    member.Acknowledge(member.MessageOffset);
                if (shown.Count == last)
                    Assert.Equal(32, BitConverter.ToInt32(member.Consume()));
            }
        }

        Assert.Equal(Enumerable.Range(0, last), shown);
        Assert.Equal(acknowledges ? 1 : last + 1, member.UnacknowledgedCount);
        using MappedFileGroupMember other = queue.OpenGroupMember("workers");
        int next = acknowledges ? 33 : last;
        while (other.TryConsume(out ReadOnlySpan<byte> message))
        {
            Assert.Equal(next, BitConverter.ToInt32(message));
            next = next == 31 ? 33 : next + 1;
        }

        Assert.Equal(40, next);
    }

    /// <summary>
    /// A batch takes several leases at once, and its walk expects the length of the message before: others are in between, the
    /// segments end, and not all may be in hand.
    /// </summary>
    [Fact]
    public void ConsumeBatch_LongBatchesOfFewLengths_GiveEachMessageAtItsOffset()
    {
        const int count = 2_000;
        MappedFileQueueOptions options = new()
        {
            StorePath = _store.StorePath,
            Durability = DurabilityLevel.PageCache,
            SegmentSize = 16 * 1024,
        };
        using MappedFileQueue<long> queue = new(options);
        ProduceOptions withKey = new() { Headers = new MessageHeaders { Key = new byte[] { 7 } } };
        for (long i = 0; i < count; i++)
        {
            if (i % 97 == 0)
                queue.Producer.Produce(i, withKey);
            else if (i % 10 == 0 && i % 97 < 90)
                queue.Producer.ProduceBatch([i, ++i, ++i, ++i]);
            else
                queue.Producer.Produce(i);
        }

        List<long> offsets = [];
        using (MappedFileConsumer<long> consumer = queue.OpenConsumer("all"))
        {
            while (consumer.TryConsume(out long message))
            {
                Assert.Equal(offsets.Count, message);
                offsets.Add(consumer.MessageOffset);
                consumer.Commit();
            }
        }

        using MappedFileGroupMember<long> member = queue.OpenGroupMember("workers", new() { UnacknowledgedMax = 200 });
        using MappedFileGroupMember<long> other = queue.OpenGroupMember("workers");
        long[] batch = new long[300];
        long[] places = new long[300];
        int next = 0;
        for (int length = 1; next < count; length = (length * 7) % 300)
        {
            MappedFileGroupMember<long> turn = length % 3 == 0 ? other : member;
            int taken = turn.ConsumeBatch(batch.AsSpan(0, length), places);
            Assert.Equal(Math.Min(Math.Min(length, count - next), turn == member ? 200 : length), taken);
            Assert.Equal(offsets.Slice(next, taken), places[..taken]);
            for (int i = 0; i < taken; i++)
                Assert.Equal(next++, batch[i]);
            turn.Acknowledge();
        }
    }
}
