using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// Where stepping over damage must not lead: into a batch that nobody published, past a message that is still being written.
/// And what it tells on the way.
/// </summary>
[Trait("Category", "Slow")]
public sealed class SteppingOverTests
{
    private const int FrameLength = 72;

    public enum Where
    {
        Length,
        State,
        Checksum,
    }

    /// <summary>
    /// The padding of a dead producer's batch holds whole frames with right checksums. Its header is damaged: they must not come
    /// to light.
    /// </summary>
    [Theory]
    [InlineData(Where.Length)]
    [InlineData(Where.State)]
    [InlineData(Where.Checksum)]
    public void SkipMessage_PaddingOverADeadBatchIsDamaged_ItsMessagesStayUnread(Where where)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "before");
        using (PeerAgent producer = store.StartAttached())
        {
            producer.Trap("PayloadWritten", 1);
            producer.Send("append what=batch prefix=never");
            producer.ExpectKilled();
        }

        CrashStore.Append(queue, "behind", "last");
        Assert.Equal(["before", "behind", "last"], CrashStore.ReadAll(queue, "repairs"));
        queue.Flush();
        using (var words = new StoreWords(store.Path))
        {
            ulong padding = words.HeaderAt(FrameLength);
            Assert.Equal(FrameState.Padding, FrameHeader.State(padding));
            Assert.True(FrameHeader.Length(padding) > 4 * FrameHeader.Size);
            int bit = where == Where.Length ? 4 : where == Where.State ? 28 : 40;
            words.WriteAt(FrameLength, BitConverter.GetBytes(padding ^ (1ul << bit)));
        }

        foreach (string name in new[] { "one", "two" })
        {
            using MappedFileConsumer consumer = queue.OpenConsumer(
                name, new ConsumerOptions { Corruption = CorruptionPolicy.SkipMessage });
            Assert.Equal(["before", "behind", "last"], ReadOn(consumer));
        }
    }

    /// <summary>
    /// The message after the damage is claimed and not published: others after it are, and must wait for it.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void SkipMessage_ClaimBehindTheDamage_IsWaitedFor(bool isHeaderGone)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        producer.Produce(CrashMessage.Make("damaged", 64));
        using PeerAgent holder = store.StartAttached();
        holder.Send("hold text=held size=64");
        holder.NextLine(line => line == "held");
        producer.Produce(CrashMessage.Make("behind", 64));
        using MappedFileConsumer consumer = Skipping(queue, "c");
        Damage(store, 0, isHeaderGone ? 8 : 0);
        Assert.Empty(ReadOn(consumer));
        Assert.False(consumer.TryConsume(out _, TimeSpan.FromMilliseconds(30)));

        holder.Send("publish");
        Assert.StartsWith("ok", holder.Answer(), StringComparison.Ordinal);
        Assert.Equal(["held", "behind"], ReadOn(consumer));
    }

    /// <summary>
    /// An Exclusive producer's batch is in the log as whole frames before its first header is written.
    /// </summary>
    [Fact]
    public void SkipMessage_UnpublishedExclusiveBatchBehindTheDamage_IsNotRead()
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using MappedFileQueue queue = store.Open(ProducerMode.Shared);
        using (PeerAgent agent = store.StartAttached())
        {
            agent.Ask("append prefix=damaged size=64");
            agent.Trap("PayloadWritten", 1);
            agent.Send("append what=batch prefix=never size=64");
            agent.ExpectKilled();
        }

        Damage(store, 0, 8);
        using MappedFileConsumer consumer = Skipping(queue, "c");
        Assert.Empty(ReadOn(consumer));
        using MappedFileReader reader = MappedFileReader.Open(store.Path, default, CorruptionPolicy.SkipMessage);
        Assert.False(reader.TryRead(out _));
    }

    /// <summary>Behind the last message nothing is certain: the consumer waits there, and continues with the next one.</summary>
    [Theory]
    [InlineData(0)]
    [InlineData(8)]
    public async Task SkipMessage_LastMessageIsDamaged_WaitsForTheNext(int headerBytes)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        producer.Produce(CrashMessage.Make("damaged", 64));
        Damage(store, 0, headerBytes);
        using MappedFileConsumer consumer = Skipping(queue, "c");
        ValueTask<ReadOnlyMemory<byte>> pending = consumer.ConsumeAsync(
            new CancellationTokenSource(Eventually.DefaultDeadline).Token);
        Assert.False(pending.IsCompleted);
        producer.Produce(CrashMessage.Make("next", 64));

        // Without a change of the thread: another one would begin at the tail hint, before the damage, which stops producers.
        Eventually.True(() => pending.IsCompleted, "the next message has come");
        Assert.Equal("next", CrashMessage.Read((await pending).Span));
        consumer.Commit();
        producer.Produce(CrashMessage.Make("third", 64));
        Assert.Equal("third", CrashMessage.Read(consumer.Consume(new CancellationTokenSource(Eventually.DefaultDeadline).Token)));
    }

    /// <summary>
    /// A spinning consumer at damage verified the damaged message at each look, 64 times before it looked at its time-out: a wait
    /// of a millisecond took seconds with large messages.
    /// </summary>
    [Fact]
    public void SkipMessage_LastMessageIsLargeAndDamaged_SpinningWaitEndsInTime()
    {
        const int Length = 4 * 1024 * 1024;
        using var folder = new TempStore();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = folder.StorePath,
            Durability = DurabilityLevel.PageCache,
            ConsumerSpinWaitDuration = Timeout.InfiniteTimeSpan,
        });
        queue.Producer.Produce(new byte[Length]);
        using (var words = new StoreWords(folder.StorePath))
            words.WriteAt(Length / 2, 0xFF);
        using MappedFileConsumer consumer = Skipping(queue, "c");
        TimeSpan look = TimeSpan.MaxValue;
        TimeSpan wait = TimeSpan.MaxValue;
        // A look before the spin, one in it, and one or two after it. A busy machine stretches each differently, but not always.
        for (int i = 0; i < 3 || (wait >= 20 * look && i < 300); i++)
        {
            look = Shorter(look, Measure(TimeSpan.Zero));
            wait = Shorter(wait, Measure(TimeSpan.FromMilliseconds(1)));
        }

        Assert.True(wait < 20 * look, $"A look takes {look}, a wait {wait}.");

        TimeSpan Measure(TimeSpan timeout)
        {
            long began = Stopwatch.GetTimestamp();
            Assert.False(consumer.TryConsume(out _, timeout));
            return Stopwatch.GetElapsedTime(began);
        }

        static TimeSpan Shorter(TimeSpan a, TimeSpan b) => a < b ? a : b;
    }

    [Fact]
    public void CorruptionSkipped_TellsWhatWasSteppedOver_OnceAConsumer()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "a", "b", "c", "d");
        Damage(store, FrameLength, 0);
        List<(object? Sender, CorruptionSkippedEventArgs Skipped)> told = [];
        queue.CorruptionSkipped += (sender, skipped) => told.Add((sender, skipped));
        using (MappedFileConsumer consumer = Skipping(queue, "one"))
        {
            Assert.Equal(["a", "c", "d"], ReadOn(consumer));
            Assert.Empty(ReadOn(consumer));
        }

        (object? sender, CorruptionSkippedEventArgs event1) = Assert.Single(told);
        Assert.Same(queue, sender);
        Assert.Equal("one", event1.ConsumerName);
        Assert.Equal(StoreNames.Segment(0), event1.File);
        Assert.Equal(FrameLength, event1.Offset);
        Assert.Equal(2 * FrameLength, event1.NextOffset);
        Assert.Equal(FrameLength, event1.SkippedLength);
        Assert.Equal(FrameLength, event1.Error.Offset);
        using MappedFileConsumer thrower = queue.OpenConsumer("two");
        thrower.Consume();
        thrower.Commit();
        Assert.Throws<QueueCorruptException>(() => thrower.Consume());
        Assert.Single(told);
    }

    /// <summary>A handler is the user's code: it may throw, use the consumer, or end it.</summary>
    [Fact]
    public void CorruptionSkipped_HandlerThrowsCommitsOrDisposes_NothingIsLostAndNothingHangs()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "a", "b", "c");
        Damage(store, 0, 0);
        Action handler = () => throw new InvalidOperationException("mine");
        queue.CorruptionSkipped += (_, _) => handler();
        using (MappedFileConsumer consumer = Skipping(queue, "throws"))
        {
            Assert.Equal("mine", Assert.Throws<InvalidOperationException>(() => consumer.Consume()).Message);
            Assert.Equal(["b", "c"], ReadOn(consumer));
        }

        using (MappedFileConsumer consumer = Skipping(queue, "commits"))
        {
            handler = consumer.Commit;
            Assert.Equal("b", CrashMessage.Read(consumer.Consume()));
            Assert.Equal(FrameLength, consumer.CommittedOffset);
        }

        MappedFileConsumer ending = Skipping(queue, "disposes");
        handler = ending.Dispose;
        Assert.Throws<ObjectDisposedException>(() => ending.Consume());
    }

    /// <summary>
    /// The handler ends the queue inside of a wait, and the wait's token is cancelled after it: the callback was still
    /// registered, and stored into the control page, which was no longer mapped.
    /// </summary>
    [Fact]
    public void CorruptionSkipped_HandlerDisposesTheQueueThenItsTokenIsCancelled_CallEnds()
    {
        using var folder = new TempStore();
        var wakes = new WakeCounter(CurrentPlatform.Services);
        CurrentPlatform.Services = wakes;
        var queue = new MappedFileQueue<long>(
            new MappedFileQueueOptions { StorePath = folder.StorePath, Durability = DurabilityLevel.PageCache });
        MappedFileProducer<long> producer = queue.OpenProducer();
        producer.Produce(1);
        queue.Flush();
        MappedFileConsumer<long> consumer = queue.OpenConsumer(
            "c", new ConsumerOptions { Corruption = CorruptionPolicy.SkipMessage, DurableOnly = true });
        consumer.Consume(out _);
        consumer.Commit();
        using var cancellation = new CancellationTokenSource();
        int wakesAfter = -1;
        queue.CorruptionSkipped += (_, _) =>
        {
            queue.Dispose();
            int before = wakes.Count;
            cancellation.Cancel();
            wakesAfter = wakes.Count - before;
        };
        Exception? thrown = null;
        var waiting = new Thread(() => thrown = Record.Exception(() => consumer.Consume(out _, cancellation.Token)));
        waiting.Start();
        // Until it sleeps; a call that comes later has nothing to show.
        Thread.Sleep(300);
        long damaged = producer.Produce(2);
        producer.Produce(3);
        using (var words = new StoreWords(folder.StorePath))
            words.WriteAt(damaged + FrameHeader.Size, 0xFF);

        // The handler may end the queue in the middle of this.
        _ = Record.Exception(() => queue.Flush());
        Assert.True(waiting.Join(Eventually.DefaultDeadline));
        Assert.IsType<ObjectDisposedException>(thrown);
        Assert.Equal(0, wakesAfter);
    }

    private static MappedFileConsumer Skipping(MappedFileQueue queue, string name) =>
        queue.OpenConsumer(name, new ConsumerOptions { Corruption = CorruptionPolicy.SkipMessage });

    /// <summary>The header of a frame, or only a byte of its payload.</summary>
    private static void Damage(CrashStore store, long offset, int headerBytes)
    {
        using var words = new StoreWords(store.Path);
        if (headerBytes > 0)
            words.WriteAt(offset, Enumerable.Repeat((byte)0xFF, headerBytes).ToArray());
        else
            words.WriteAt(offset + FrameHeader.Size + 20, 0xAB, 0xCD);
    }

    private static List<string> ReadOn(MappedFileConsumer consumer)
    {
        List<string> texts = [];
        while (consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            texts.Add(CrashMessage.Read(message));
            consumer.Commit();
        }

        return texts;
    }

    private sealed unsafe class WakeCounter(OperatingSystemServices real) : ForwardingServices(real)
    {
        private int _count;

        public int Count => Volatile.Read(ref _count);

        public override void WakeWord(uint* word, int countMax = int.MaxValue)
        {
            Interlocked.Increment(ref _count);
            base.WakeWord(word, countMax);
        }

        protected override HeldDirectory Wrap(HeldDirectory directory) => directory;
    }
}
