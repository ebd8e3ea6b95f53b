using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>Consumers that see nothing before it is on disk.</summary>
public sealed class DurableOnlyTests
{
    private static readonly ConsumerOptions s_durable = new() { DurableOnly = true };

    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void TryConsume_NotFlushed_SeesNothingAndThenAll(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue<Tick> queue = Open(store, mode, portable);
        using MappedFileConsumer<Tick> durable = queue.OpenConsumer("durable", s_durable);
        using MappedFileConsumer<Tick> eager = queue.OpenConsumer("eager");
        int seen = 0;
        // Over several segments of 4 KiB, and with batches.
        for (int round = 0; round < 40; round++)
        {
            for (int i = 0; i < 7; i++)
                queue.Producer.Produce(Tick.Make(0, (10 * round) + i));
            queue.Producer.ProduceBatch([Tick.Make(0, (10 * round) + 7), Tick.Make(0, (10 * round) + 8)]);
            // A segment that is full is flushed in the background, and what it holds is seen then: once in some thirty runs of
            // all tests, at a load of twenty.
            Assert.True(!durable.TryConsume(out _) || durable.Offset < queue.ConfirmedOffset);
            Assert.True(eager.TryConsume(out _));
            eager.SeekToEnd();
            queue.Flush();
            for (int i = 0; i < 9; i++, seen++)
            {
                Assert.True(durable.TryConsume(out Tick tick));
                Assert.Equal((10 * round) + i, tick.Verify());
                durable.Commit();
            }

            Assert.False(durable.TryConsume(out _));
            Assert.True(durable.Offset <= queue.ConfirmedOffset);
        }

        Assert.Equal(360, seen);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Consume_Waiting_IsWokenByTheFlushOfAnotherQueue(bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue<Tick> queue = Open(store, ProducerMode.Shared, portable);
        using MappedFileQueue<Tick> other = Open(store, ProducerMode.Shared, portable);
        using MappedFileConsumer<Tick> durable = queue.OpenConsumer("durable", s_durable);
        for (int i = 0; i < 20; i++)
        {
            long got = -1;
            BackgroundCall call = BackgroundCall.Start(() =>
            {
                durable.Consume(out Tick tick);
                durable.Commit();
                got = tick.Verify();
            });
            other.Producer.Produce(Tick.Make(0, i));
            Eventually.True(() => HasWaiter(store) || call.HasEnded, "the consumer sleeps");
            Assert.Equal(-1, got);
            other.Flush();
            call.Join();
            Assert.Equal(i, got);
        }
    }

    [Fact]
    public async Task ConsumeAsync_Waiting_CompletesWithTheFlush()
    {
        using TempStore store = new();
        await using MappedFileQueue<Tick> queue = Open(store, ProducerMode.Shared, portable: false);
        using MappedFileConsumer<Tick> durable = await queue.OpenConsumerAsync("durable", s_durable);
        queue.Producer.Produce(Tick.Make(0, 5));
        ValueTask<Tick> call = durable.ConsumeAsync();
        Assert.False(call.IsCompleted);
        queue.Flush();
        Assert.Equal(5, (await call).Verify());
        using var source = new CancellationTokenSource();
        durable.Commit();
        Task<bool> cancelled = durable.WaitToConsumeAsync(source.Token).AsTask();
        await source.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled);
    }

    [Fact]
    public void Messages_DurableOnly_WorksInPlaceAndEndsWithDispose()
    {
        using TempStore store = new();
        var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            Durability = DurabilityLevel.PageCache,
        });
        MappedFileConsumer durable = queue.OpenConsumer("", s_durable);
        queue.Producer.Produce("one"u8);
        Assert.False(durable.TryConsume(out _));
        queue.Flush();
        Assert.Equal("one"u8, durable.Consume());
        durable.Commit();
        BackgroundCall call = BackgroundCall.Start(() => durable.Consume());
        Eventually.True(() => HasWaiter(store), "the consumer sleeps");
        queue.Dispose();
        Assert.IsType<ObjectDisposedException>(call.JoinSilently());
    }

    [Fact]
    public void Consume_LevelInterval_ComesWithinTheInterval()
    {
        PlatformScope.Use(portable: false);
        using TempStore store = new();
        using var queue = new MappedFileQueue<Tick>(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            FlushInterval = TimeSpan.FromMilliseconds(30),
        });
        using MappedFileConsumer<Tick> durable = queue.OpenConsumer("durable", s_durable);
        for (int i = 0; i < 5; i++)
        {
            queue.Producer.Produce(Tick.Make(0, i));
            Assert.True(durable.TryConsume(out Tick tick, Eventually.DefaultDeadline));
            Assert.Equal(i, tick.Verify());
            durable.Commit();
        }
    }

    /// <summary>Whether somebody has said that he goes to sleep until a flush.</summary>
    private static bool HasWaiter(TempStore store)
    {
        using FileStream control = new(store.PathOf(StoreNames.Control), FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
        control.Position = ControlLayout.FlushWaiterFlagAt;
        Span<byte> word = stackalloc byte[8];
        control.ReadExactly(word);
        return word.ContainsAnyExcept((byte)0);
    }

    private static MappedFileQueue<Tick> Open(TempStore store, ProducerMode mode, bool portable)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueue<Tick>(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 4096,
            ProducerMode = mode,
            Durability = DurabilityLevel.PageCache,
        });
    }
}
