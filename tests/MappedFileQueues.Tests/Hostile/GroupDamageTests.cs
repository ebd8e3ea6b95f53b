using MappedFileQueues.Format.Groups;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>A group whose log is damaged: what its members are told, and how they come past it.</summary>
public sealed class GroupDamageTests : IDisposable
{
    private const int Count = 10;

    private readonly TempStore _store = new();
    private readonly MappedFileQueueOptions _options;
    private readonly List<long> _offsets = [];

    public GroupDamageTests() => _options = new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        SegmentSize = 64 * 1024,
        Durability = DurabilityLevel.PageCache,
    };

    public void Dispose() => _store.Dispose();

    [Fact]
    public void DamagedMessage_Throw_StaysInHandAndIsSteppedOver()
    {
        using MappedFileQueue queue = Make(damagePayloadOf: 3);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        List<long> seen = [];
        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => ReadBatch(member, seen));
        Assert.Equal((_offsets[3], _offsets[3]), (error.Offset, member.MessageOffset));
        Assert.Equal([0, 1, 2], seen);
        Assert.Equal(4, member.UnacknowledgedCount);
        member.Acknowledge();
        Assert.Equal([4, 5, 6, 7, 8, 9], Drain(member));
        Assert.False(member.TryConsume(out _));
    }

    [Fact]
    public void DamagedMessage_ThrowAndReject_ComesAgain()
    {
        using MappedFileQueue queue = Make(damagePayloadOf: 0);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        Assert.Throws<QueueCorruptException>(() => member.TryConsume(out _));
        member.Reject(_offsets[0]);
        Assert.Throws<QueueCorruptException>(() => member.TryConsume(out _));
        Assert.Equal((_offsets[0], 2), (member.MessageOffset, member.DeliveryCount));
        member.Acknowledge(_offsets[0]);
        Assert.Equal([1, 2, 3, 4, 5, 6, 7, 8, 9], Drain(member));
    }

    /// <summary>From a letter the damaged bytes would come back under a checksum that is right.</summary>
    [Fact]
    public void DamagedMessage_ToTheLetters_IsRefusedAndStaysInHand()
    {
        using MappedFileQueue queue = Make(damagePayloadOf: 0);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        Assert.Throws<QueueCorruptException>(() => member.TryConsume(out _));
        QueueCorruptException error = Assert.Throws<QueueCorruptException>(
            () => member.Reject(_offsets[0], deadLetter: true, reason: "It cannot be read."));
        Assert.Equal((_offsets[0], 1), (error.Offset, member.UnacknowledgedCount));
        Assert.False(Directory.Exists(_store.StorePath + "-dead-letters"));
        member.Acknowledge(_offsets[0]);
        Assert.Equal([1, 2, 3, 4, 5, 6, 7, 8, 9], Drain(member));
    }

    [Fact]
    public void DamagedStruct_InABatch_TheOthersAreGivenBack()
    {
        using var queue = new MappedFileQueue<Tick>(_options);
        for (int i = 0; i < Count; i++)
            _offsets.Add(queue.Producer.Produce(Tick.Make(0, i)));
        FlipPayload(3);
        using MappedFileGroupMember<Tick> member = queue.OpenGroupMember("workers");
        var ticks = new Tick[Count];
        long[] offsets = new long[Count];
        Assert.Throws<QueueCorruptException>(() => member.ConsumeBatch(ticks, offsets));
        Assert.Equal(0, member.UnacknowledgedCount);
        List<long> numbers = [];
        while (numbers.Count < Count - 1)
        {
            try
            {
                member.Consume(out Tick tick);
                numbers.Add(tick.Verify());
            }
            catch (QueueCorruptException error)
            {
                Assert.Equal(_offsets[3], error.Offset);
            }

            Assert.Equal(1, member.DeliveryCount);
            member.Acknowledge();
        }

        Assert.Equal([0, 1, 2, 4, 5, 6, 7, 8, 9], numbers);
        Assert.Equal(0, member.UnacknowledgedCount);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Damage_SkipMessage_IsToldOnceAndEnded(bool header)
    {
        using MappedFileQueue queue = Make(header ? -1 : 3, header ? 3 : -1);
        List<(string Name, long Offset)> told = [];
        using MappedFileGroupMember member = queue.OpenGroupMember(
            "workers", new GroupOptions { Corruption = CorruptionPolicy.SkipMessage });
        queue.CorruptionSkipped += (_, skipped) =>
        {
            told.Add((skipped.ConsumerName, skipped.Offset));
            // A handler may use the member.
            Assert.InRange(member.UnacknowledgedCount, 0, Count);
        };
        List<long> seen = [];
        ReadBatch(member, seen);
        member.Acknowledge();
        seen.AddRange(Drain(member));
        Assert.Equal([0, 1, 2, 4, 5, 6, 7, 8, 9], seen);
        Assert.Equal([("workers", _offsets[3])], told);
        Assert.Equal(0, member.UnacknowledgedCount);
        Assert.Equal(queue.GetInfo().Groups[0].NextOffset, queue.GetInfo().Groups[0].FloorOffset);
    }

    [Fact]
    public void DamagedHeader_Throw_WhatIsBeforeItIsHandedOut()
    {
        using MappedFileQueue queue = Make(damageHeaderOf: 3);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        List<long> seen = [];
        Assert.Throws<QueueCorruptException>(() => ReadBatch(member, seen, countMax: 4, thenOneMore: true));
        Assert.Equal([0, 1, 2], seen);
        member.Acknowledge();
        Assert.Throws<QueueCorruptException>(() => member.TryConsume(out _));
        Assert.Equal(0, member.UnacknowledgedCount);
    }

    /// <summary>A range that was handed out whole is damaged when its owner is gone: which bit means what is not known.</summary>
    [Fact]
    public void DamagedHeader_InWhatADeadMemberHeld_TheRestComesBackWhole()
    {
        using MappedFileQueue queue = Make();
        MappedFileGroupMember dead = queue.OpenGroupMember("workers");
        List<long> seen = [];
        ReadBatch(dead, seen);
        dead.Acknowledge([_offsets[0], _offsets[6]]);
        using (var engine = new MappedFileQueues.Engine.StoreEngine(
            _options, MappedFileQueues.Format.StoreKind.Messages, 0, 0))
        {
            FlipHeader(3);
            Assert.Throws<QueueCorruptException>(() => engine.FenceGroupMember("workers", dead.Slot));
        }

        using MappedFileGroupMember member = queue.OpenGroupMember(
            "workers", new GroupOptions { Corruption = CorruptionPolicy.SkipMessage });
        List<long> all = [];
        Eventually.True(
            () =>
            {
                all.AddRange(Drain(member));
                return all.Count >= Count - 1;
            },
            "what can be read comes back");
        Assert.Equal([0, 1, 2, 4, 5, 6, 7, 8, 9], all.Order());
        Assert.Throws<GroupMemberFencedException>(() => dead.Acknowledge(_offsets[1]));
        dead.Dispose();
    }

    /// <summary>Its head is whole, and no member could work with what follows.</summary>
    [Fact]
    public void DamagedTable_OpenedAlone_IsMadeAnewOfItsCopy()
    {
        using (MappedFileQueue queue = Make())
        using (MappedFileGroupMember member = queue.OpenGroupMember("workers"))
        {
            ReadBatch(member, [], countMax: 4);
            member.Acknowledge();
        }

        using (FileStream file = File.OpenWrite(_store.PathOf("offset", "groups", "workers.group")))
        {
            file.Position = GroupLayout.NextAt;
            file.Write([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        }

        using MappedFileQueue again = new(_options);
        using MappedFileGroupMember next = again.OpenGroupMember("workers");
        Assert.Equal([4, 5, 6, 7, 8, 9], Drain(next));
    }

    [Fact]
    public void Dispose_SpanOfAnotherThread_StaysReadable()
    {
        using MappedFileQueue queue = Make();
        MappedFileGroupMember member = queue.OpenGroupMember("workers");
        ReadOnlySpan<byte> message = member.Consume();
        var other = new Thread(member.Dispose);
        other.Start();
        other.Join();
        Assert.Equal(0, Payload.Verify(message).Number);
        Assert.Throws<ObjectDisposedException>(() => member.TryConsume(out _));
        Assert.Throws<ObjectDisposedException>(member.Acknowledge);
        Assert.Throws<ObjectDisposedException>(member.Flush);
        member.Dispose();
    }

    [Fact]
    public void Dispose_WhileConsumeWaits_EndsIt()
    {
        using var queue = new MappedFileQueue(_options);
        MappedFileGroupMember member = queue.OpenGroupMember("workers");
        var call = BackgroundCall.Start(() => member.Consume());
        AwaitWaiter();
        queue.Dispose();
        Assert.IsType<ObjectDisposedException>(call.JoinSilently());
    }

    [Fact]
    public void DurableOnly_SeesWhatIsFlushedAndIsWokenByFlushes()
    {
        using MappedFileQueue queue = Make();
        using MappedFileGroupMember member = queue.OpenGroupMember("workers", new GroupOptions { DurableOnly = true });
        Assert.False(member.TryConsume(out _));
        long number = -1;
        var call = BackgroundCall.Start(() => number = Payload.Verify(member.Consume()).Number);
        queue.Flush();
        call.Join();
        Assert.Equal(0, number);
        member.Acknowledge();
        Assert.Equal([1, 2, 3, 4, 5, 6, 7, 8, 9], Drain(member));
    }

    [Fact]
    public void Consume_TwoThreadsAtOnce_OneIsRefused()
    {
        using var queue = new MappedFileQueue(_options);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        var call = BackgroundCall.Start(() => member.Consume());
        AwaitWaiter();
        Eventually.True(() => Record.Exception(() => member.TryConsume(out _)) is InvalidOperationException, "it is refused");
        queue.Producer.Produce(Payload.Make(0, 1));
        call.Join();
        Assert.Equal(1, member.UnacknowledgedCount);
    }

    private MappedFileQueue Make(int damagePayloadOf = -1, int damageHeaderOf = -1)
    {
        var queue = new MappedFileQueue(_options);
        for (int i = 0; i < Count; i++)
            _offsets.Add(queue.Producer.Produce(Payload.Make(0, i)));
        // Beyond the damage the log goes on, as far as walkers know.
        using (var words = new StoreWords(_store.StorePath))
            RaiseTailHint(words, _offsets[^1]);
        if (damagePayloadOf >= 0)
            FlipPayload(damagePayloadOf);
        if (damageHeaderOf >= 0)
            FlipHeader(damageHeaderOf);
        return queue;
    }

    private void AwaitWaiter()
    {
        using var words = new StoreWords(_store.StorePath);
        Eventually.True(() => words.WaiterFlag != 0, "it waits");
    }

    private static unsafe void RaiseTailHint(StoreWords words, long offset) =>
        MappedFileQueues.Memory.SharedWord.RaiseTo(words.Control.TailHint, offset);

    private void FlipPayload(int index)
    {
        using var words = new StoreWords(_store.StorePath);
        words.WriteAt(_offsets[index] + 10, (byte)(words.BytesAt(_offsets[index] + 10, 1)[0] ^ 0x55));
    }

    /// <summary>A state that no frame has.</summary>
    private void FlipHeader(int index)
    {
        using var words = new StoreWords(_store.StorePath);
        words.WriteAt(_offsets[index] + 3, (byte)(words.BytesAt(_offsets[index] + 3, 1)[0] | 0x70));
    }

    private static void ReadBatch(
        MappedFileGroupMember member, List<long> seen, int countMax = Count, bool thenOneMore = false)
    {
        using (GroupBatch batch = member.ConsumeBatch(countMax))
        {
            foreach (ReadOnlySpan<byte> message in batch)
                seen.Add(Payload.Verify(message).Number);
        }

        if (thenOneMore)
            member.TryConsume(out _);
    }

    private static List<long> Drain(MappedFileGroupMember member)
    {
        List<long> numbers = [];
        while (member.TryConsume(out ReadOnlySpan<byte> message))
        {
            numbers.Add(Payload.Verify(message).Number);
            member.Acknowledge();
        }

        return numbers;
    }
}
