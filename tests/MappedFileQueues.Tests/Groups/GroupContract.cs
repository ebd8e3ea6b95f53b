using System.Runtime.CompilerServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Groups;

/// <summary>What groups promise, whatever the kind of queue and the platform.</summary>
public abstract class GroupContract : IDisposable
{
    private readonly QueueKind _kind;
    private readonly TempStore _store;
    private readonly MappedFileQueueOptions _options;
    private readonly List<IDisposable> _open = [];

    private protected GroupContract(QueueKind kind, bool portable)
    {
        PlatformScope.Use(portable);
        _kind = kind;
        _store = TempStore.InMemory();
        _options = new MappedFileQueueOptions { StorePath = _store.StorePath, SegmentSize = 64 * 1024 };
    }

    private static CancellationToken Deadline => new CancellationTokenSource(Eventually.DefaultDeadline).Token;

    public void Dispose()
    {
        CloseAll();
        _store.Dispose();
        GC.SuppressFinalize(this);
    }

    [Fact]
    public void Consume_TwoMembers_EachMessageGoesToOne()
    {
        GroupQueue queue = Open();
        using Member one = queue.OpenMember();
        using Member two = Open().OpenMember();
        queue.ProduceMany(100);

        List<long> numbers = [];
        for (int i = 0; i < 50; i++)
        {
            numbers.Add(one.Consume(Deadline));
            one.Acknowledge();
            numbers.Add(two.Consume(Deadline));
            two.Acknowledge();
        }

        Assert.Equal(Enumerable.Range(0, 100).Select(i => (long)i), numbers);
        Assert.False(one.TryConsume(out _));
        Assert.False(two.TryConsume(out _));
        Assert.Equal(0, one.UnacknowledgedCount + two.UnacknowledgedCount);
    }

    [Fact]
    public void ConsumeBatch_TwoMembers_GetWholeRunsInOrder()
    {
        GroupQueue queue = Open();
        using Member one = queue.OpenMember();
        using Member two = Open().OpenMember();
        List<long> offsets = queue.ProduceMany(200);

        List<(long Number, long Offset)> first = one.ConsumeBatch(64);
        List<(long Number, long Offset)> second = two.ConsumeBatch(64);
        Assert.Equal(Enumerable.Range(0, 64).Select(i => ((long)i, offsets[i])), first);
        Assert.Equal(Enumerable.Range(64, 64).Select(i => ((long)i, offsets[i])), second);
        Assert.Equal(64, one.UnacknowledgedCount);
        one.Acknowledge();
        two.Acknowledge([.. second.Select(message => message.Offset).Reverse()]);
        Assert.Equal(0, one.UnacknowledgedCount + two.UnacknowledgedCount);
        Assert.Equal(Enumerable.Range(128, 72).Select(i => (long)i), one.Drain());
    }

    [Fact]
    public void Acknowledge_AnyOrder_OnlyTheRestComesBack()
    {
        GroupQueue queue = Open();
        queue.ProduceMany(40);
        using (Member first = queue.OpenMember())
        {
            List<(long Number, long Offset)> batch = first.ConsumeBatch(40);
            Assert.Equal(40, batch.Count);
            first.Acknowledge([.. batch.Where(message => message.Number % 3 != 0).Select(message => message.Offset)]);
            Assert.Equal(14, first.UnacknowledgedCount);
        }

        using Member second = Open().OpenMember();
        List<long> back = [];
        while (second.TryConsume(out long number))
        {
            // Given back in an orderly way: that is no delivery.
            Assert.Equal(1, second.DeliveryCount);
            back.Add(number);
            second.Acknowledge();
        }

        Assert.Equal(Enumerable.Range(0, 14).Select(i => i * 3L), back);
    }

    [Fact]
    public void Acknowledge_NotInHand_ThrowsAndDoesNothing()
    {
        GroupQueue queue = Open();
        using Member member = queue.OpenMember();
        List<long> offsets = queue.ProduceMany(3);
        Assert.Equal(0, member.Consume(Deadline));
        Assert.Throws<ArgumentException>(() => member.Acknowledge(offsets[0], offsets[2]));
        Assert.Equal(1, member.UnacknowledgedCount);
        member.Acknowledge(offsets[0]);
        Assert.Throws<ArgumentException>(() => member.Acknowledge(offsets[0]));
        Assert.Throws<ArgumentException>(() => member.Reject(offsets[0]));
        member.Acknowledge();
    }

    [Fact]
    public void Reject_Message_ComesBackAloneAndCounts()
    {
        GroupQueue queue = Open();
        using Member member = queue.OpenMember();
        List<long> offsets = queue.ProduceMany(10);
        List<(long Number, long Offset)> batch = member.ConsumeBatch(10);
        Assert.Equal((10, 1), (batch.Count, member.DeliveryCount));
        member.Reject(offsets[4]);
        member.Reject(offsets[2]);
        member.Acknowledge();
        queue.ProduceMany(5, from: 10);

        // The lowest one first, each alone, before what is new.
        Assert.Equal([(2, offsets[2])], member.ConsumeBatch(10));
        Assert.Equal(2, member.DeliveryCount);
        member.Reject(offsets[2]);
        Assert.Equal([(2, offsets[2])], member.ConsumeBatch(10));
        Assert.Equal(3, member.DeliveryCount);
        member.Acknowledge();
        Assert.Equal(4, member.Consume(Deadline));
        Assert.Equal((2, offsets[4]), (member.DeliveryCount, member.MessageOffset));
        member.Acknowledge();
        Assert.Equal(Enumerable.Range(10, 5).Select(i => (long)i), member.Drain());
    }

    [Fact]
    public void Reject_WithDelay_OthersGoOnAndItComesWhenItIsDue()
    {
        GroupQueue queue = Open();
        using Member member = queue.OpenMember();
        List<long> offsets = queue.ProduceMany(3);
        Assert.Equal(0, member.Consume(Deadline));
        // So long that a thread that is held up does not find it due among the others.
        TimeSpan delay = TimeSpan.FromSeconds(5);
        // Before the call, where the delay begins: a thread that was held up after it measured 12 ms less.
        var watch = System.Diagnostics.Stopwatch.StartNew();
        member.Reject(offsets[0], delay);
        Assert.Equal([1, 2], member.Drain());
        Assert.Equal(0, member.Await());
        Assert.True(watch.ElapsedMilliseconds >= delay.TotalMilliseconds - 10, $"{watch.ElapsedMilliseconds} ms");
        Assert.Equal(2, member.DeliveryCount);
        Assert.Throws<ArgumentOutOfRangeException>(() => member.Reject(offsets[0], TimeSpan.FromDays(31)));
        Assert.Throws<ArgumentOutOfRangeException>(() => member.Reject(offsets[0], TimeSpan.FromTicks(-1)));
        member.Acknowledge();
    }

    [Fact]
    public void Consume_Waits_WakesForAppendAndForReturn()
    {
        GroupQueue queue = Open();
        using Member holder = queue.OpenMember();
        using Member waiter = Open().OpenMember();
        long got = -1;
        var call = BackgroundCall.Start(() => got = waiter.Consume(Deadline));
        queue.Produce(7);
        call.Join();
        Assert.Equal(7, got);
        waiter.Acknowledge();
        queue.Produce(8);
        Assert.Equal(8, holder.Consume(Deadline));
        call = BackgroundCall.Start(() => got = waiter.Consume(Deadline));
        holder.Reject(holder.MessageOffset);
        call.Join();
        Assert.Equal(8, got);
        waiter.Acknowledge();
    }

    [Fact]
    public async Task ConsumeAsync_Waits_WakesForAppendReturnAndEnd()
    {
        GroupQueue queue = Open();
        using Member holder = queue.OpenMember();
        Member waiter = Open().OpenMember();
        ValueTask<long> first = waiter.ConsumeAsync(Deadline);
        queue.Produce(1);
        Assert.Equal(1, await first);
        waiter.Acknowledge();
        queue.Produce(2);
        Assert.Equal(2, holder.Consume(Deadline));
        ValueTask<long> second = waiter.ConsumeAsync(Deadline);
        Assert.Throws<InvalidOperationException>(() => waiter.TryConsume(out _));
        holder.Reject(holder.MessageOffset, TimeSpan.FromMilliseconds(20));
        Assert.Equal(2, await second);
        Assert.Equal(2, waiter.DeliveryCount);
        // Nobody holds anything: only the due wakes it.
        waiter.Reject(waiter.MessageOffset, TimeSpan.FromMilliseconds(300));
        Assert.Equal(2, await waiter.ConsumeAsync(Deadline));
        Assert.Equal(3, waiter.DeliveryCount);
        waiter.Acknowledge();
        ValueTask<bool> third = waiter.WaitToConsumeAsync(Deadline);
        queue.Produce(3);
        Assert.True(await third);
        Assert.Equal([3], waiter.Drain());
        ValueTask<long> last = waiter.ConsumeAsync(Deadline);
        waiter.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(async () => await last);
        using var cancelled = new CancellationTokenSource();
        ValueTask<long> ended = holder.ConsumeAsync(cancelled.Token);
        await cancelled.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => await ended);
    }

    /// <summary>
    /// A returned message that another member has in hand left the hint that one is due. Whoever waited without a thread looked
    /// again and again, as long as that one worked: two threads, without a pause.
    /// </summary>
    [Fact]
    public async Task WaitToConsumeAsync_ReturnedMessageIsInAnothersHand_Sleeps()
    {
        GroupQueue queue = Open();
        using Member holder = queue.OpenMember();
        using Member waiter = Open().OpenMember();
        queue.Produce(1);
        Assert.Equal(1, holder.Consume(Deadline));
        holder.Reject(holder.MessageOffset);
        Assert.Equal(1, holder.Consume(Deadline));

        ValueTask<bool> waits = waiter.WaitToConsumeAsync(Deadline);

        Eventually.Equal(
            GroupLayout.NoneDue, () => GroupTables.Look(_store.StorePath, static table => table.EarliestDue));
        queue.Produce(2);
        Assert.True(await waits);
        Assert.Equal([2], waiter.Drain());
    }

    [Fact]
    public void Consume_SegmentsRoll_FindsAllInOrder()
    {
        _options.SegmentSize = 4096;
        GroupQueue queue = Open();
        using Member one = queue.OpenMember();
        using Member two = Open().OpenMember();
        List<long> numbers = [];
        for (int round = 0; round < 20; round++)
        {
            queue.ProduceMany(100, from: round * 100);
            for (int i = 0; i < 3; i++)
            {
                numbers.AddRange(one.ConsumeBatch(25).Select(message => message.Number));
                one.Acknowledge();
                numbers.AddRange(two.ConsumeBatch(8).Select(message => message.Number));
                two.Acknowledge();
            }

            numbers.AddRange(one.Drain());
        }

        Assert.Equal(Enumerable.Range(0, 2000).Select(i => (long)i), numbers);
    }

    [Fact]
    public void UnacknowledgedMax_Reached_ConsumeThrows()
    {
        GroupQueue queue = Open();
        queue.ProduceMany(20);
        using Member member = queue.OpenMember(options: new GroupOptions { UnacknowledgedMax = 5 });
        Assert.Equal(5, member.ConsumeBatch(10).Count);
        Assert.Throws<InvalidOperationException>(() => member.TryConsume(out _));
        member.Acknowledge();
        Assert.Equal(5, member.ConsumeBatch(10).Count);
    }

    [Fact]
    public void OpenGroupMember_WrongNameOrOption_NamesIt()
    {
        GroupQueue queue = Open();
        Assert.Throws<ArgumentException>(() => queue.OpenMember(""));
        Assert.Throws<ArgumentException>(() => queue.OpenMember("a/b"));
        Assert.Throws<ArgumentException>(() => queue.OpenMember(new string('a', 101)));
        Assert.Equal(nameof(GroupOptions.DeliveriesMax), Assert.Throws<ArgumentOutOfRangeException>(
            () => queue.OpenMember(options: new GroupOptions { DeliveriesMax = 63 })).ParamName);
        Assert.Equal(nameof(GroupOptions.UnacknowledgedMax), Assert.Throws<ArgumentOutOfRangeException>(
            () => queue.OpenMember(options: new GroupOptions { UnacknowledgedMax = 4097 })).ParamName);
        Assert.Throws<NotSupportedException>(() => queue.OpenMember(options: new GroupOptions { KeyShards = 4 }));
        Assert.False(queue.DeleteGroup("workers"));
    }

    [Fact]
    public void OpenGroupMember_Start_CountsForANewGroup()
    {
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(5);
        using Member latest = queue.OpenMember("latest", new GroupOptions { Start = QueueStart.Latest });
        using Member exact = queue.OpenMember("exact", new GroupOptions { Start = QueueStart.FromOffset(offsets[3]) });
        using Member again = queue.OpenMember("EXACT", new GroupOptions { Start = QueueStart.Earliest });
        queue.Produce(5);
        Assert.Equal([5], latest.Drain());
        Assert.Equal([3, 4, 5], again.Drain());
        Assert.Throws<OffsetOutOfRangeException>(
            () => queue.OpenMember("bad", new GroupOptions { Start = QueueStart.FromOffset(offsets[3] + 8) }));
    }

    [Fact]
    public void ResetAndDelete_Group_NeedNoMembers()
    {
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(5);
        using (Member member = queue.OpenMember())
        {
            Assert.Equal(3, member.ConsumeBatch(3).Count);
            member.Acknowledge();
            Assert.Throws<QueueInUseException>(() => queue.ResetGroup("workers", QueueStart.Earliest));
            Assert.Throws<QueueInUseException>(() => queue.DeleteGroup("workers"));
        }

        queue.ResetGroup("Workers", QueueStart.FromOffset(offsets[1]));
        using (Member member = queue.OpenMember())
            Assert.Equal([1, 2, 3, 4], member.Drain());
        Assert.True(queue.DeleteGroup("workers"));
        Assert.False(queue.DeleteGroup("workers"));
        using (Member member = queue.OpenMember())
            Assert.Equal([0, 1, 2, 3, 4], member.Drain());
    }

    [Fact]
    public void Reopened_WithMessagesOut_TheyComeBack()
    {
        GroupQueue queue = Open();
        queue.ProduceMany(100);
        using (Member member = queue.OpenMember())
        {
            List<(long Number, long Offset)> batch = member.ConsumeBatch(40);
            member.Acknowledge([.. batch.Take(10).Select(message => message.Offset)]);
            member.Reject(batch[20].Offset, TimeSpan.FromHours(1));
        }

        CloseAll();
        queue = Open();
        using Member after = queue.OpenMember();
        List<long> numbers = after.Drain();
        Assert.Equal(Enumerable.Range(10, 90).Where(i => i != 20).Select(i => (long)i), numbers);
    }

    [Fact]
    public void ManyMembers_InThreads_EachMessageOnce()
    {
        const int Count = 20_000;
        GroupQueue queue = Open();
        int[] seen = new int[Count];
        int total = 0;
        Task[] tasks = [.. Enumerable.Range(0, 4).Select(index => Task.Factory.StartNew(() =>
        {
            GroupQueue own = Open();
            using Member member = own.OpenMember();
            var random = new Random(index);
            while (Volatile.Read(ref total) < Count)
            {
                if (!member.TryConsume(out long number, TimeSpan.FromMilliseconds(20)))
                    continue;
                Note(number);
                member.Acknowledge();
                List<(long Number, long Offset)> batch = member.ConsumeBatch(random.Next(1, 70));
                foreach ((long Number, long Offset) message in batch)
                {
                    if (random.Next(50) == 0)
                    {
                        member.Reject(message.Offset);
                        continue;
                    }

                    Note(message.Number);
                    member.Acknowledge(message.Offset);
                }
            }
        }, TaskCreationOptions.LongRunning))];
        queue.ProduceMany(Count);
        // Those that wait for a batch when the last message has gone to another.
        Eventually.True(
            () => Volatile.Read(ref total) >= Count && queue.Produce(Count) > 0 && Task.WaitAll(tasks, 10), "all is taken");
        Assert.All(seen, count => Assert.Equal(1, count));

        void Note(long number)
        {
            if (number == Count)
                return;
            Interlocked.Increment(ref seen[number]);
            Interlocked.Increment(ref total);
        }
    }

    [Fact]
    public void Deliveries_MoreThanMax_MoveToTheDeadLetters()
    {
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(64);
        using Member member = queue.OpenMember(options: new GroupOptions { DeliveriesMax = 2 });
        Assert.Equal(64, member.ConsumeBatch(64).Count);
        member.Reject(offsets[9]);
        member.Acknowledge();
        Assert.Equal(9, member.Consume(Deadline));
        member.Reject(offsets[9]);
        Assert.False(member.TryConsume(out _));
        queue.Produce(64);
        Assert.Equal(64, member.Consume(Deadline));
        member.Reject(member.MessageOffset, deadLetter: true, reason: "no such order");
        Assert.Equal(0, member.UnacknowledgedCount);
        member.Dispose();

        using var letters = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _store.StorePath + "-dead-letters" });
        using MappedFileConsumer consumer = letters.OpenConsumer("test");
        DeadLetter first = Next(consumer);
        Assert.Equal((offsets[9], "workers", 2, "DeliveriesMax", "store"),
            (first.Offset, first.Consumer, first.Attempts, first.ErrorType, first.Queue));
        DeadLetter second = Next(consumer);
        Assert.Equal((1, "Rejected", "no such order"), (second.Attempts, second.ErrorType, second.Error));
        Assert.False(consumer.TryConsume(out _));
    }

    [Fact]
    public void DeadLetters_CannotBeWritten_OthersGoOn()
    {
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(3);
        // The queue's own store takes no letters.
        using Member member = queue.OpenMember(
            options: new GroupOptions { DeliveriesMax = 1, DeadLetterPath = _store.StorePath });
        Assert.Equal(0, member.Consume(Deadline));
        Assert.Throws<InvalidOperationException>(() => member.Reject(offsets[0], deadLetter: true));
        Assert.Equal(1, member.UnacknowledgedCount);
        member.Reject(offsets[0]);
        Assert.Throws<InvalidOperationException>(() => member.TryConsume(out _));
        Assert.Equal(0, member.UnacknowledgedCount);
        Assert.Equal([1, 2], member.Drain());
        // Nobody was given it that time. It counted, and the letter told of more deliveries than there may be.
        List<int> deliveries = GroupTables.Look(_store.StorePath, static table =>
        {
            List<int> found = [];
            foreach ((_, LeaseState state) in table.Singles)
                found.Add(state.Kind == LeaseKind.Waiting ? state.Deliveries : 0);
            return found;
        });
        Assert.Equal([1], deliveries);
    }

    [Fact]
    public void Delayed_AllSingles_TrafficGoesOnAndOneMoreIsRefused()
    {
        GroupQueue queue = Open();
        using Member member = queue.OpenMember();
        queue.ProduceMany(8193);
        for (int i = 0; i < 8192; i++)
        {
            Assert.Equal(i, member.Consume(Deadline));
            member.Reject(member.MessageOffset, TimeSpan.FromHours(1));
        }

        Assert.Equal(8192, member.Consume(Deadline));
        Assert.Throws<QueueFullException>(() => member.Reject(member.MessageOffset));
        member.Acknowledge();
        queue.ProduceMany(100, from: 9000);
        Assert.Equal(Enumerable.Range(9000, 100).Select(i => (long)i), member.Drain());
    }

    [Fact]
    public void Fenced_Member_IsToldAndGoesOn()
    {
        GroupQueue queue = Open();
        using Member hung = queue.OpenMember();
        using Member other = Open().OpenMember();
        queue.ProduceMany(10);
        List<(long Number, long Offset)> batch = hung.ConsumeBatch(4);
        hung.Acknowledge(batch[0].Offset);
        Assert.Equal(1, FenceSlot(hung.Slot));
        Assert.Equal(1, other.Await());
        Assert.Equal(2, other.DeliveryCount);
        Assert.Throws<GroupMemberFencedException>(() => hung.Acknowledge(batch[1].Offset, batch[2].Offset));
        Assert.Equal(0, hung.UnacknowledgedCount);
        other.Acknowledge();
        Assert.Equal(2, hung.Consume(Deadline));
        hung.Acknowledge();
        Assert.Equal([3, 4, 5, 6, 7, 8, 9], other.Drain());
    }

    /// <summary>
    /// A member that was fenced gave back what another one had given back meanwhile, with a delay. The call was refused, but its
    /// due had been written before, under a tag that counts no more, over the other's: the message came at once.
    /// </summary>
    [Fact]
    public void Reject_MemberWasFenced_LeavesTheDelayOfTheNextHolder()
    {
        GroupQueue queue = Open();
        using Member hung = queue.OpenMember();
        using Member other = Open().OpenMember();
        queue.Produce(7);
        Assert.Equal(7, hung.Consume(Deadline));
        hung.Reject(hung.MessageOffset);
        Assert.Equal(7, hung.Consume(Deadline));
        long offset = hung.MessageOffset;
        Assert.Equal(1, FenceSlot(hung.Slot));
        Assert.Equal(7, other.Await());
        other.Reject(offset, TimeSpan.FromHours(1));

        Assert.Throws<GroupMemberFencedException>(() => hung.Reject(offset));

        Assert.False(other.TryConsume(out _));
        Assert.False(hung.TryConsume(out _));
    }

    /// <summary>
    /// A message that had come back and was removed meanwhile made the batch end with no message at all, though it waits for one.
    /// </summary>
    [Fact]
    public void ConsumeBatch_TheReturnedMessageIsRemoved_TakesTheNextOnes()
    {
        _options.SegmentSize = 4096;
        GroupQueue queue = Open();
        queue.Produce(0);
        using (Member before = queue.OpenMember())
        {
            Assert.Equal(0, before.Consume(Deadline));
            before.Reject(before.MessageOffset);
        }

        queue.ProduceMany(500, from: 1);
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });
        Assert.True(queue.Trim(8192) > 0);
        using Member member = queue.OpenMember(options: new GroupOptions { OnOutOfRange = OutOfRangePolicy.Earliest });

        List<(long Number, long Offset)> batch = member.ConsumeBatch(10);

        Assert.Equal(10, batch.Count);
        Assert.True(batch[0].Offset >= queue.GetInfo().LogStart, "what was removed is finished");
    }

    [Theory]
    [InlineData(OutOfRangePolicy.Throw)]
    [InlineData(OutOfRangePolicy.Earliest)]
    [InlineData(OutOfRangePolicy.Latest)]
    public void Open_NewGroupAtARemovedOffset_DoesWhatOnOutOfRangeSays(OutOfRangePolicy policy)
    {
        _options.SegmentSize = 4096;
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(500);
        Assert.True(queue.Trim(8192) > 0);
        var options = new GroupOptions { Start = QueueStart.FromOffset(offsets[3]), OnOutOfRange = policy };
        if (policy == OutOfRangePolicy.Throw)
        {
            Assert.Throws<OffsetOutOfRangeException>(() => queue.OpenMember(options: options).Dispose());
            return;
        }

        using Member member = queue.OpenMember(options: options);
        List<long> rest = member.Drain();

        long logStart = queue.GetInfo().LogStart;
        int kept = offsets.FindAll(offset => offset >= logStart).Count;
        Assert.Equal(policy == OutOfRangePolicy.Earliest ? Enumerable.Range(500 - kept, kept).Select(i => (long)i) : [], rest);
        queue.Produce(500);
        Assert.Equal(500, member.Consume(Deadline));
    }

    /// <summary>The status told the time of day by the system's clock, members by that of the options.</summary>
    [Fact]
    public void NextDue_OwnTimeProvider_IsToldByIt()
    {
        var time = new ClockAhead();
        _options.TimeProvider = time;
        GroupQueue queue = Open();
        queue.Produce(1);
        using Member member = queue.OpenMember();
        member.Consume(Deadline);
        member.Reject(member.MessageOffset, TimeSpan.FromHours(1));

        DateTimeOffset due = Assert.Single(queue.GetInfo().Groups).NextDue!.Value;
        Assert.InRange(due, time.GetUtcNow() + TimeSpan.FromMinutes(55), time.GetUtcNow() + TimeSpan.FromMinutes(60));
    }

    private sealed class ClockAhead : TimeProvider
    {
        public override DateTimeOffset GetUtcNow() => base.GetUtcNow() + TimeSpan.FromDays(10);
    }

    [Fact]
    public void Trim_OverAGroup_KeepsWhatIsNotDone()
    {
        _options.SegmentSize = 4096;
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(500);
        using Member member = queue.OpenMember();
        List<(long Number, long Offset)> batch = member.ConsumeBatch(32);
        Assert.Equal(Enumerable.Range(32, 468).Select(i => (long)i), member.Drain());
        // One message holds back all.
        member.Acknowledge([.. batch.Skip(1).Select(message => message.Offset)]);
        Assert.Equal(0, queue.Trim(long.MaxValue));
        MappedFileGroupInfo info = Assert.Single(queue.GetInfo().Groups);
        Assert.Equal(("workers", 0, 1, 0), (info.Name, info.FloorOffset, info.OutCount, info.ReturnedCount));
        Assert.Equal(queue.GetInfo().PublishedOffset, info.NextOffset);
        Assert.Equal((member.Slot, Environment.ProcessId, true, 1), (
            info.Members[0].Slot, info.Members[0].ProcessId, info.Members[0].IsAlive, info.Members[0].HeldCount));
        member.Reject(batch[0].Offset, TimeSpan.FromHours(1));
        Assert.Equal(0, queue.Trim(long.MaxValue));
        info = Assert.Single(queue.GetInfo().Groups);
        Assert.Equal((0, 1, 1), (info.OutCount, info.ReturnedCount, info.GivenBackCount));
        Assert.True(info.NextDue > DateTimeOffset.UtcNow + TimeSpan.FromMinutes(59));
        member.Dispose();

        queue.ResetGroup("workers", QueueStart.FromOffset(offsets[400]));
        long start = queue.Trim(long.MaxValue);
        Assert.InRange(start, 4096, offsets[400]);
        using Member again = queue.OpenMember();
        Assert.Equal(Enumerable.Range(400, 100).Select(i => (long)i), again.Drain());
        Assert.Equal(queue.GetInfo().PublishedOffset / 4096 * 4096, queue.Trim(long.MaxValue));
    }

    [Fact]
    public void Retention_DropsAGroup_ItGoesOnAsItsOptionSays()
    {
        _options.SegmentSize = 4096;
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(100);
        using Member slow = queue.OpenMember("slow");
        List<(long Number, long Offset)> batch = slow.ConsumeBatch(5);
        slow.Reject(batch[4].Offset);
        offsets.AddRange(queue.ProduceMany(400, from: 100));
        queue.SetRetention(new RetentionOptions { MaxBytes = 8192, KeepUnconsumed = false });
        Eventually.True(() => queue.GetInfo().LogStart > offsets[100], "retention removes");
        long logStart = queue.GetInfo().LogStart;

        // A removed segment that is mapped can be read, but nothing of it is handed out any more.
        Assert.Throws<OffsetOutOfRangeException>(() =>
        {
            while (slow.TryConsume(out long number))
                Assert.Equal(4, number);
        });
        // What is in hand and removed is finished, and can be ended.
        slow.Acknowledge([.. batch.Take(4).Select(message => message.Offset)]);
        using Member earliest = queue.OpenMember("slow", new GroupOptions { OnOutOfRange = OutOfRangePolicy.Earliest });
        List<long> rest = earliest.Drain();
        Assert.Equal(offsets.FindAll(offset => offset >= logStart).Count, rest.Count);
        Assert.Equal(499, rest[^1]);
    }

    [Fact]
    public void Snapshot_WithMessagesOut_TheyAreOutInTheCopy()
    {
        GroupQueue queue = Open();
        queue.ProduceMany(50);
        using Member member = queue.OpenMember();
        List<(long Number, long Offset)> batch = member.ConsumeBatch(20);
        member.Acknowledge([.. batch.Take(5).Select(message => message.Offset)]);
        member.Reject(batch[7].Offset);
        string target = Path.Combine(_store.Root, "copy");
        queue.Snapshot(target);
        member.Acknowledge();

        using GroupQueue copy = GroupQueue.Open(
            _kind, new MappedFileQueueOptions { StorePath = target, SegmentSize = _options.SegmentSize });
        using Member other = copy.OpenMember();
        Assert.Equal(Enumerable.Range(5, 45).Select(i => (long)i), other.Drain().Order());
    }

    [Fact]
    public void MaxUnconsumedBytes_ProducerWaits_ForTheGroup()
    {
        _options.MaxUnconsumedBytes = 4096;
        GroupQueue queue = Open();
        using Member member = queue.OpenMember();
        int produced = 0;
        var producer = BackgroundCall.Start(() =>
        {
            for (; produced < 1000; produced++)
                queue.Produce(produced);
        });
        List<long> numbers = [];
        while (numbers.Count < 1000)
        {
            Assert.True(queue.GetInfo().Groups[0].Lag <= 4096 + 256);
            numbers.AddRange(member.ConsumeBatch(16).Select(message => message.Number));
            member.Acknowledge();
        }

        producer.Join();
        Assert.Equal(Enumerable.Range(0, 1000).Select(i => (long)i), numbers);
    }

    [Fact]
    public void Flush_SavedCopy_FollowsTheInterval()
    {
        _options.FlushInterval = TimeSpan.FromMilliseconds(20);
        GroupQueue queue = Open();
        List<long> offsets = queue.ProduceMany(3);
        using Member member = queue.OpenMember();
        Assert.Equal(3, member.ConsumeBatch(3).Count);
        member.Acknowledge(offsets[0], offsets[1]);
        Eventually.True(() => Saved() is { } saved && saved.NextEnd > offsets[2] && saved.Leases is [{ Done: 3 }], "it is saved");
        member.Acknowledge();
        member.Flush();
        Assert.Empty(Saved()!.Leases);
    }

    private SavedGroup? Saved()
    {
        try
        {
            return SavedGroup.Parse(
                File.ReadAllBytes(_store.PathOf("offset", "groups", "workers.saved")), StoreMeta.Parse(
                    File.ReadAllBytes(_store.PathOf("queue.meta")), "").StoreId);
        }
        catch (FileNotFoundException)
        {
            return null;
        }
    }

    private int FenceSlot(int slot)
    {
        using StoreEngine engine = _kind == QueueKind.Struct
            ? new StoreEngine(_options, StoreKind.Struct, Unsafe.SizeOf<Tick>(), StructLayoutFingerprint.Of<Tick>())
            : new StoreEngine(_options, StoreKind.Messages, 0, 0);
        return engine.FenceGroupMember("workers", slot);
    }

    private static DeadLetter Next(MappedFileConsumer consumer)
    {
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
        var letter = DeadLetter.Parse(message);
        consumer.Commit();
        return letter;
    }

    private GroupQueue Open()
    {
        GroupQueue queue = GroupQueue.Open(_kind, _options);
        lock (_open)
            _open.Add(queue);
        return queue;
    }

    private void CloseAll()
    {
        lock (_open)
        {
            foreach (IDisposable queue in _open)
                queue.Dispose();
            _open.Clear();
        }
    }
}

public sealed class MessageGroupContract() : GroupContract(QueueKind.Message, portable: false);

public sealed class StructGroupContract() : GroupContract(QueueKind.Struct, portable: false);

[Trait("Category", "Slow")]
public sealed class PortableMessageGroupContract() : GroupContract(QueueKind.Message, portable: true);

[Trait("Category", "Slow")]
public sealed class PortableStructGroupContract() : GroupContract(QueueKind.Struct, portable: true);
