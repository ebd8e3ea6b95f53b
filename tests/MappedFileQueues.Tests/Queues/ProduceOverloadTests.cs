using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>Every way to write a Produce call compiles without a warning (warnings are errors here) and does the same.</summary>
public sealed class ProduceOverloadTests
{
    [Fact]
    public void Produce_EveryOverload_AppendsTheMessage()
    {
        using TempStore store = new();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 };
        using var queue = new MappedFileQueue<Tick>(options);
        MappedFileProducer<Tick> producer = queue.Producer;
        Tick tick = Tick.Make(1, 1);
        producer.Produce(ref tick);
        producer.Produce(in tick);
        producer.Produce(tick);
        producer.Produce(Tick.Make(1, 1));
        producer.Produce(new Tick { Producer = tick.Producer, Filler = tick.Filler, Number = tick.Number, Check = tick.Check });
        producer.Produce(tick, default);
        producer.Produce(in tick, new ProduceOptions());
        producer.TryProduce(tick);
        producer.ProduceBatch([tick, tick]);
        ((IMappedFileProducer<Tick>)producer).Produce(ref tick);

        for (int i = 0; i < 11; i++)
        {
            ref readonly Tick seen = ref queue.Consumer.Peek();
            Assert.Equal(tick, seen);
            queue.Consumer.Commit();
        }

        Assert.False(queue.Consumer.TryConsume(out _));
    }

    /// <summary>A batch of nothing took any options, where it was asynchronous.</summary>
    [Fact]
    public async Task ProduceBatchAsync_Nothing_ChecksItsOptions()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue<Tick>(new MappedFileQueueOptions { StorePath = store.StorePath });
        MappedFileProducer<Tick> producer = queue.Producer;

        Assert.Equal(0, await producer.ProduceBatchAsync(default));
        await Assert.ThrowsAsync<TaskCanceledException>(
            async () => await producer.ProduceBatchAsync(default, new CancellationToken(canceled: true)));
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(
            async () => await producer.ProduceBatchAsync(default, new ProduceOptions { Durability = (DurabilityLevel)99 }));
    }

    [Fact]
    public void Open_StructWithNullableFields_SameTypeOpensOtherIsRefused()
    {
        // Such a field once broke the heap: a nullable value is boxed as its bare value, which is shorter.
        using TempStore store = new();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 };
        using (var queue = new MappedFileQueue<WithNullables>(options))
        {
            queue.Producer.Produce(new WithNullables { First = 1, Second = null, Third = Guid.Empty, Last = 9 });
            queue.Consumer.Consume(out WithNullables message);
            Assert.Equal((1L, null, Guid.Empty, 9), (message.First, message.Second, message.Third, message.Last));
        }

        using (var queue = new MappedFileQueue<WithNullables>(options))
            Assert.Equal(9, queue.Consumer.Peek().Last);
        Assert.Throws<QueueFormatException>(() => new MappedFileQueue<WithOtherNullables>(options));
    }

    private struct WithNullables
    {
        public long? First;
        public decimal? Second;
        public Guid? Third;
        public int Last;
    }

    private record struct WithOtherNullables(double? First, decimal? Second, Guid? Third, int Last);
}
