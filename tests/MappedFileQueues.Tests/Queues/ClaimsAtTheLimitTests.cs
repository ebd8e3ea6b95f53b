using System.Buffers;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Queues;

/// <summary>Filling in place where consumers are as far behind as they may be: claims and callbacks wait, or fail.</summary>
public sealed class ClaimsAtTheLimitTests
{
    /// <summary>Two frames of <see cref="Length"/>, and no third.</summary>
    private const int Limit = 1000;

    private const int Length = 400;

    /// <summary>Modes, platforms, and whether a callback fills.</summary>
    public static TheoryData<ProducerMode, bool, bool> Variants
    {
        get
        {
            TheoryData<ProducerMode, bool, bool> variants = [];
            foreach (ProducerMode mode in Enum.GetValues<ProducerMode>())
            {
                foreach (bool portable in new[] { false, true })
                {
                    variants.Add(mode, portable, false);
                    variants.Add(mode, portable, true);
                }
            }

            return variants;
        }
    }

    /// <summary>User code runs under the claim, so it must not run before there is one.</summary>
    [Theory, MemberData(nameof(Variants))]
    public void Wait_Full_ClaimsNothingAndFillsNothingUntilAConsumerCommits(ProducerMode mode, bool portable, bool fills)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        MappedFileProducer producer = queue.Producer;
        Append(producer, fills, 0);
        Append(producer, fills, 1);
        long tail = producer.Offset;
        bool isFilled = false;

        BackgroundCall waiting = BackgroundCall.Start(() => Append(producer, fills, 2, () => isFilled = true));
        WaitUntilWaiting(store, waiting);

        Assert.False(isFilled);
        Assert.Empty(queue.GetInfo().OpenClaims);
        Assert.Equal(tail, queue.GetInfo().TailOffset);
        Assert.Equal(0, Take(consumer));
        waiting.Join();
        Assert.True(isFilled);
        Assert.Equal([1, 2], [Take(consumer), Take(consumer)]);
    }

    [Theory, MemberData(nameof(Variants))]
    public void Throw_Full_IsRefusedAndNothingIsClaimed(ProducerMode mode, bool portable, bool fills)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable, FullMode.Throw);
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        MappedFileProducer producer = queue.Producer;
        Append(producer, fills, 0);
        Append(producer, fills, 1);
        long tail = producer.Offset;

        string message = Assert.Throws<QueueFullException>(
            () => Append(producer, fills, 2, () => Assert.Fail("It is filled."))).Message;

        Assert.Contains("slowest=0", message, StringComparison.Ordinal);
        Assert.Equal(tail, producer.Offset);
        Assert.Empty(queue.GetInfo().OpenClaims);
        Assert.Equal(0, Take(consumer));
        Append(producer, fills, 2);
        Assert.Equal([1, 2], [Take(consumer), Take(consumer)]);
    }

    /// <summary>An open claim takes the room of its message; when it is given up, nobody has to read anything for it.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void TryProduce_RoomIsClaimed_FalseUntilTheClaimIsGivenUp(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        MappedFileProducer producer = queue.Producer;
        byte[] message = Payload.Bytes(Length, 1);
        using (MessageClaim claim = producer.DangerousClaim(2 * Length))
        {
            // An Exclusive producer has one caller, and a thread with an open claim is refused.
            if (mode == ProducerMode.Shared)
                BackgroundCall.Start(() => Assert.False(producer.TryProduce(message))).Join();
            else
                Assert.Throws<InvalidOperationException>(() => producer.TryProduce(message));
        }

        Assert.True(producer.TryProduce(message));
        Assert.True(producer.TryProduce(message));
        Assert.False(producer.TryProduce(message));
        Assert.Equal(1, Take(consumer));
        Assert.True(producer.TryProduce(message));
    }

    /// <summary>It would wait for a consumer that never comes past its own claim.</summary>
    [Theory, MemberData(nameof(Variants))]
    public void Wait_OwnClaimIsOpen_RefusedInsteadOfWaiting(ProducerMode mode, bool portable, bool fills)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        MappedFileProducer producer = queue.Producer;
        Append(producer, fills, 0);
        using (MessageClaim claim = producer.DangerousClaim(Length))
            Assert.Throws<InvalidOperationException>(() => Append(producer, fills, 1));

        Assert.Equal(0, Take(consumer));
        Append(producer, fills, 1);
        Assert.Equal(1, Take(consumer));
    }

    [Theory, MemberData(nameof(Variants))]
    public void Dispose_ACallWaits_EndsItAndNothingIsFilled(ProducerMode mode, bool portable, bool fills)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store, mode, portable);
        queue.OpenConsumer("slow").Dispose();
        MappedFileProducer producer = queue.Producer;
        Append(producer, fills, 0);
        Append(producer, fills, 1);
        BackgroundCall waiting = BackgroundCall.Start(() => Append(producer, fills, 2, () => Assert.Fail("It is filled.")));
        WaitUntilWaiting(store, waiting);

        producer.Dispose();

        Assert.IsType<ObjectDisposedException>(waiting.JoinSilently());
    }

    private static MappedFileQueue Open(TempStore store, ProducerMode mode, bool portable, FullMode full = FullMode.Wait)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 1 << 20,
            ProducerMode = mode,
            Durability = DurabilityLevel.PageCache,
            MaxUnconsumedBytes = Limit,
            FullMode = full,
            ConsumerSpinWaitDuration = TimeSpan.Zero,
        });
    }

    private static void Append(MappedFileProducer producer, bool fills, int number, Action? filled = null)
    {
        SpanAction<byte, int> fill = (span, state) =>
        {
            filled?.Invoke();
            Payload.Bytes(Length, state).CopyTo(span);
        };
        if (fills)
        {
            producer.Produce(Length, number, fill);
            return;
        }

        using MessageClaim claim = producer.DangerousClaim(Length);
        fill(claim.Span, number);
        claim.Publish(Length);
    }

    /// <summary>Reads and commits a message; returns its number.</summary>
    private static int Take(MappedFileConsumer consumer)
    {
        byte[] message = consumer.Consume().ToArray();
        consumer.Commit();
        return Enumerable.Range(0, 10).First(number => message.AsSpan().SequenceEqual(Payload.Bytes(Length, number)));
    }

    private static unsafe void WaitUntilWaiting(TempStore store, BackgroundCall call)
    {
        using var words = new StoreWords(store.StorePath);
        Eventually.True(() => *words.Control.CapacityWaiterFlag != 0 || call.HasEnded, "the call waits for consumers");
        Assert.False(call.HasEnded);
    }
}
