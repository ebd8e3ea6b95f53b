using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Engine;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tests.Crash.Consumers;

/// <summary>
/// docs/DESIGN.md section 8, "Back-pressure": producers that wait, and consumers that wake them, in processes that die at any
/// step. Where a child waits, it sleeps without end until it is woken, so a lost wake-up is a hang and not a delay.
/// </summary>
[Trait("Category", "Slow")]
public sealed class BackPressureRuleTests
{
    /// <summary>Two frames of <see cref="Size"/>, and no third.</summary>
    private const int Limit = 1000;

    private const int Size = 400;

    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Commit_NoTimeOutToFallBackOn_EveryCommitMakesRoom(ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        using MappedFileQueue queue = store.Open();
        // Opened before any producer says that it may wait.
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        using PeerAgent producer = StartProducer(store);
        const int count = 300;
        producer.Send($"append prefix=m size={Size} count={count}");
        for (int i = 0; i < count; i++)
        {
            Assert.Equal($"m-{i}", CrashMessage.Read(consumer.Consume()));
            Assert.InRange(producer.AckedCount, 0, i + 2);
            consumer.Commit();
            if (i + 2 < count)
                producer.NextLine(line => line == $"acked {i + 2}");
        }

        producer.Answer();
    }

    [Theory]
    [InlineData("CursorStored")]
    [InlineData("SequenceRaised")]
    [InlineData("SleepersWoken")]
    public void Commit_ConsumerKilledAtStep_TheNextCommitWakes(string step)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileConsumer other = queue.OpenConsumer("other");
        using PeerAgent dying = store.StartAttached();
        dying.Ask("consumer name=dying");
        using PeerAgent producer = StartProducer(store);
        producer.Send($"append prefix=m size={Size} count=3");
        producer.NextLine(line => line == "acked 1");
        Take(other, 2);
        WaitUntilFlagged(store);

        dying.Trap(step, 1);
        dying.Send("consume count=1");
        dying.ExpectKilled();
        // The same offset once more: any commit looks.
        other.Commit();

        producer.NextLine(line => line == "acked 2");
        producer.Answer();
    }

    /// <summary>No commit follows that of the dead one: the producer looks again by itself, a second later at most.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Commit_ConsumerKilledBeforeItsWakeAndNoOtherFollows_TheProducerFindsTheRoom(bool isAsync)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = store.Path,
            SegmentSize = 1 << 20,
            MaxUnconsumedBytes = Limit,
            Durability = DurabilityLevel.PageCache,
        });
        using PeerAgent dying = store.StartAttached();
        dying.Ask("consumer name=dying");
        MappedFileProducer producer = queue.Producer;
        for (int i = 0; i < 2; i++)
            producer.Produce(CrashMessage.Make($"m-{i}", Size));
        byte[] last = CrashMessage.Make("m-2", Size);
        Task<long> waiting = isAsync
            ? producer.ProduceAsync(last).AsTask()
            : Task.Factory.StartNew(() => producer.Produce(last), TaskCreationOptions.LongRunning);
        WaitUntilFlagged(store);

        dying.Trap("CursorStored", 1);
        dying.Send("consume count=1");
        dying.ExpectKilled();
        long began = Stopwatch.GetTimestamp();
        await waiting.WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);

        // One second, and what a busy machine adds.
        Assert.InRange(Stopwatch.GetElapsedTime(began), TimeSpan.Zero, TimeSpan.FromSeconds(20));
    }

    [Fact]
    public void Wait_ProducerKilledWithItsFlagRaised_OthersAreWokenAndTheFlagGoes()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        using PeerAgent living = StartProducer(store);
        using (PeerAgent dying = StartProducer(store))
        {
            dying.Trap("WaiterFlagRaised", 1);
            dying.Send($"append prefix=d size={Size} count=3");
            dying.ExpectKilled();
        }

        Take(consumer, 1);
        using (var words = new StoreWords(store.Path))
            Assert.Equal(0u, RoomFlag(words));
        living.Ask($"append prefix=l size={Size}");
        living.Send($"append prefix=l size={Size}");
        WaitUntilFlagged(store);
        Take(consumer, 1);
        living.Answer();
        Assert.Equal(["d-1", "l-0", "l-0"], [.. store.Peek().Skip(1)]);
    }

    /// <summary>The consumers before it have not seen the word for certain; the next producer finishes what it began.</summary>
    [Fact]
    public void Announce_ProducerKilledBehindTheWord_TheNextOneFinishes()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        using (PeerAgent dying = store.StartAttached(unread: Limit))
        {
            dying.Trap("WaitAnnounced", 1);
            dying.Send("producer");
            dying.ExpectKilled();
        }

        using var words = new StoreWords(store.Path);
        Assert.Equal(1u, MayWait(words));
        using PeerAgent producer = StartProducer(store);
        producer.Ask("producer");
        Assert.Equal(2u, MayWait(words));
        producer.Send($"append prefix=m size={Size} count=3");
        WaitUntilFlagged(store);
        Take(consumer, 1);
        producer.Answer();
    }

    /// <summary>That is the promise: nothing is lost for it. Deleting it, or resetting it, ends the wait.</summary>
    [Fact]
    public void Wait_ConsumerIsDead_ItCountsUntilItIsDeleted()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using (PeerAgent dead = store.StartAttached())
        {
            dead.Ask("consumer name=dead");
            dead.Kill();
        }

        using PeerAgent producer = StartProducer(store);
        producer.Send($"append prefix=m size={Size} count=3");
        producer.NextLine(line => line == "acked 1");
        WaitUntilFlagged(store);
        Assert.Equal(2, producer.AckedCount);
        Assert.True(queue.DeleteConsumer("dead"));
        producer.Answer();
        Assert.Equal(3, producer.AckedCount);
    }

    /// <summary>Nobody wakes then: the producer lists the consumers again by itself.</summary>
    [Fact]
    public void Wait_DeleterKilledBehindTheRemoval_TheProducerFindsOut()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        queue.OpenConsumer("gone").Dispose();
        using PeerAgent producer = store.StartAttached(unread: Limit);
        producer.Send($"append prefix=m size={Size} count=3");
        producer.NextLine(line => line == "acked 1");
        WaitUntilFlagged(store);
        using PeerAgent deleter = store.StartAttached();
        deleter.Trap("CursorDeleted", 1);
        deleter.Send("delete name=gone");
        deleter.ExpectKilled();

        producer.Answer();
        Assert.Equal(3, producer.AckedCount);
    }

    /// <summary>A claim after the slowest cursor counts; padding does not, and no consumer would commit it.</summary>
    [Theory]
    [InlineData("abandon")]
    [InlineData("leave")]
    [InlineData(null)]
    public void Wait_ClaimBehindTheSlowestCursorEnds_ThereIsRoom(string? end)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        queue.OpenConsumer("slow").Dispose();
        using PeerAgent claimant = store.StartAttached();
        claimant.Send($"hold text=never size={Size}");
        claimant.NextLine(line => line == "held");
        using PeerAgent producer = StartProducer(store);
        producer.Send($"append prefix=m size={Size} count=2");
        producer.NextLine(line => line == "acked 0");
        WaitUntilFlagged(store);

        if (end is null)
            claimant.Kill();
        else
            claimant.Send(end);
        if (end == "leave")
            claimant.Send("close");
        producer.Answer();
        Assert.Equal(["m-0", "m-1"], store.Peek());
    }

    /// <summary>
    /// A stopped producer (SIGSTOP, a debugger) that waits holds no lock, no claim and no room: others continue as if it were not
    /// there, and it does when it runs again.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Wait_AProducerIsStopped_OthersAreWokenAndItGoesOnWhenItRunsAgain(bool isStoppedInTheWait)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        using PeerAgent stopped = StartProducer(store);
        using PeerAgent living = StartProducer(store);
        living.Ask($"append prefix=l size={Size} count=2");
        // Between the flag and its second look, or asleep.
        if (!isStoppedInTheWait)
            stopped.Trap("WaiterFlagRaised", 1, "stop");
        stopped.Send($"append prefix=s size={Size}");
        WaitUntilFlagged(store);
        if (isStoppedInTheWait)
            stopped.Stop();
        stopped.WaitUntilStopped();
        living.Send($"append prefix=l size={Size} first=2 count=8");

        // Room for one message at a time; the living one gets each of them, and nobody takes any for the stopped one.
        for (int i = 2; i < 10; i++)
        {
            Take(consumer, 1);
            living.NextLine(line => line == $"acked {i}");
        }

        living.Answer();
        Assert.Equal(0, stopped.AckedCount);
        stopped.Continue();
        Take(consumer, 1);
        stopped.Answer();
        Assert.Equal(1, stopped.AckedCount);
        Assert.Equal([.. Enumerable.Range(0, 10).Select(i => $"l-{i}"), "s-0"], store.Peek());
    }

    /// <summary>
    /// An operator fences a member in the middle of a reject, and another one acknowledges the message. The record that the
    /// fenced one was filling is nothing any more, and holds nothing back, however long it is stopped.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Reject_MemberFencedInIt_HoldsNoProducerBack(bool isKilled)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileGroupMember member = queue.OpenGroupMember("workers", new GroupOptions { DeliveriesMax = 0 });
        using PeerAgent fenced = store.StartAttached();
        int slot = int.Parse(fenced.Ask("member"), CultureInfo.InvariantCulture);
        using PeerAgent producer = StartProducer(store);
        producer.Ask($"append prefix=m size={Size} count=2");
        Assert.Equal("m-0:1 m-1:1", fenced.Ask("take count=2"));
        fenced.Trap("GroupSingleWhole", 1, "stop");
        fenced.Send("reject text=m-0");
        fenced.WaitUntilStopped();
        // Until then the messages hold the producer back.
        producer.Send($"append prefix=m size={Size} first=2");
        WaitUntilFlagged(store);
        using (StoreEngine engine = store.OpenEngine())
            Assert.Equal(1, engine.FenceGroupMember("workers", slot));
        for (int i = 0; i < 2; i++)
        {
            Assert.True(member.TryConsume(out _, TimeSpan.FromSeconds(30)));
            member.Acknowledge();
        }

        Assert.StartsWith("ok", producer.Answer(), StringComparison.Ordinal);
        if (isKilled)
        {
            fenced.Kill();
        }
        else
        {
            fenced.Continue();
            Assert.StartsWith("error GroupMemberFencedException", fenced.Answer(), StringComparison.Ordinal);
        }

        producer.Ask($"append prefix=m size={Size} first=3");
        for (int i = 2; i < 4; i++)
        {
            Assert.True(member.TryConsume(out _, TimeSpan.FromSeconds(30)));
            member.Acknowledge();
        }
    }

    private static PeerAgent StartProducer(CrashStore store) => PeerAgent.StartAt(producer =>
    {
        producer.Ask("sleepmax ms=3600000");
        producer.Ask($"{store.OpenCommand} unread={Limit}");
    });

    private static void Take(MappedFileConsumer consumer, int count)
    {
        for (int i = 0; i < count; i++)
        {
            consumer.Consume();
            consumer.Commit();
        }
    }

    private static void WaitUntilFlagged(CrashStore store)
    {
        using var words = new StoreWords(store.Path);
        Eventually.True(() => RoomFlag(words) != 0, "a producer waits for consumers");
    }

    private static unsafe ulong RoomFlag(StoreWords words) => SharedWord.ReadAcquire(words.Control.CapacityWaiterFlag);

    private static unsafe ulong MayWait(StoreWords words) => SharedWord.ReadAcquire(words.Control.ProducersMayWait);
}
