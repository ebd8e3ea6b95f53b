using System.Buffers;
using System.Buffers.Binary;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>No path allocates for a message, rolls not counted: the segments here are large enough for all of them.</summary>
[Trait("Category", "Slow")]
public sealed class AllocationTests
{
    private const int Messages = 5_000;

    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void Structs_EveryPath_AllocatesNothing(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue<Tick>(Options(store, mode, portable));
        MappedFileProducer<Tick> producer = queue.Producer;
        MappedFileConsumer<Tick> consumer = queue.Consumer;
        Tick tick = Tick.Make(1, 2);
        Tick[] batch = [tick, tick, tick, tick];
        var taken = new Tick[4];
        AssertNothing("produce, consume, commit", () =>
        {
            producer.Produce(ref tick);
            consumer.Consume(out _);
            consumer.Commit();
        });
        AssertNothing("batches", () =>
        {
            producer.ProduceBatch(batch);
            consumer.ConsumeBatch(taken);
            consumer.Commit();
        });
        AssertNothing("peek, advance, try", () =>
        {
            producer.TryProduce(tick);
            _ = consumer.Peek().Number;
            consumer.Advance();
            consumer.Commit();
            consumer.TryConsume(out _);
        });
        AssertNothing("asynchronous calls that need not wait", () =>
        {
            _ = producer.ProduceAsync(tick).Result;
            Assert.True(consumer.WaitToConsumeAsync().IsCompletedSuccessfully);
            _ = consumer.ConsumeAsync().Result;
            consumer.Commit();
        });
        AssertNothing("waits in vain", () => consumer.TryConsume(out _, TimeSpan.FromMicroseconds(5)), rounds: 50);
    }

    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void Messages_EveryPath_AllocatesNothing(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(Options(store, mode, portable));
        MappedFileProducer producer = queue.Producer;
        MappedFileConsumer consumer = queue.Consumer;
        byte[] message = Payload.Bytes(70, 1);
        ReadOnlyMemory<byte>[] batch = [message, message, message];
        var serializer = new NumberSerializer();
        long seen = 0;
        AssertNothing("produce, consume, commit", () =>
        {
            producer.Produce(message);
            consumer.Consume();
            consumer.Commit();
        });
        AssertNothing("batches", () =>
        {
            producer.ProduceBatch(batch);
            foreach (ReadOnlySpan<byte> read in consumer.ConsumeBatch())
                seen += read.Length;
            consumer.Commit();
        });
        AssertNothing("claims and filling in place", () =>
        {
            using MessageClaim claim = producer.DangerousClaim(30);
            claim.Publish(20);
            producer.Produce(10, 5, static (span, state) => span.Fill((byte)state));
            consumer.TryConsume(out _);
            consumer.Commit();
            consumer.TryConsume(out _);
            consumer.Commit();
        });
        AssertNothing("serializers", () =>
        {
            producer.Produce(77L, serializer);
            seen += consumer.Consume(serializer);
            consumer.Commit();
            _ = producer.ProduceAsync(77L, serializer).Result;
            seen += consumer.Consume(serializer);
            consumer.Commit();
        });
        ReadOnlySequence<byte> pieces = Pieces.Join(
            message.AsMemory(0, 3), ReadOnlyMemory<byte>.Empty, message.AsMemory(3, 40), message.AsMemory(43));
        AssertNothing("pieces", () =>
        {
            producer.Produce(pieces);
            producer.ProduceJoined(batch);
            producer.ProduceJoined(message, message.AsSpan(1), message.AsSpan(2));
            _ = producer.ProduceBatchAsync(batch).Result;
            for (int i = 0; i < 3 + batch.Length; i++)
                consumer.TryConsume(out _);
            consumer.SeekToEnd();
        });
        AssertNothing("asynchronous loop", () =>
        {
            _ = producer.ProduceAsync(message).Result;
            Assert.True(consumer.WaitToConsumeAsync().IsCompletedSuccessfully);
            consumer.TryConsume(out _);
            consumer.Commit();
        });
        Assert.True(seen > Messages);
    }

    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Group_EveryPath_AllocatesNothing(ProducerMode mode)
    {
        using TempStore store = TempStore.InMemory();
        MappedFileQueueOptions options = Options(store, mode, portable: false);
        options.Durability = DurabilityLevel.Group;
        options.FlushInterval = TimeSpan.FromHours(1);
        using var queue = new MappedFileQueue<Tick>(options);
        MappedFileProducer<Tick> producer = queue.Producer;
        Tick tick = Tick.Make(1, 2);
        Tick[] batch = [tick, tick, tick, tick];
        AssertNothing("group", () => producer.Produce(ref tick));
        AssertNothing("batches", () => producer.ProduceBatch(batch));
        AssertNothing("options", () => producer.Produce(in tick, new ProduceOptions { Timeout = TimeSpan.FromMinutes(1) }));
        AssertNothing("asynchronous", () =>
        {
            // Taken out of the pool of sources and given back; the wait itself is not the append's.
            ValueTask<long> call = producer.ProduceAsync(tick);
            while (!call.IsCompleted)
                Thread.Yield();
            _ = call.Result;
        });
        AssertNothing("force flush", () => queue.Flush());
    }

    internal static void AssertNothing(string path, Action round, int rounds = Messages)
    {
        for (int i = 0; i < 40; i++)
            round();
        // The jit may allocate on this thread when it compiles a method anew: a second run has that after it.
        long least = long.MaxValue;
        for (int run = 0; run < 5 && least > 0; run++)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            for (int i = 0; i < rounds / 5; i++)
                round();
            least = Math.Min(least, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        Assert.True(least == 0, $"{path}: {least} bytes in {rounds / 5} rounds");
    }

    private static MappedFileQueueOptions Options(TempStore store, ProducerMode mode, bool portable)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 16 << 20, ProducerMode = mode };
    }

    private sealed class NumberSerializer : IBufferedMessageSerializer<long>, IMessageDeserializer<long>
    {
        public ReadOnlySpan<byte> Serialize(long message) => throw new NotSupportedException();

        public void Serialize(long message, IBufferWriter<byte> destination)
        {
            BinaryPrimitives.WriteInt64LittleEndian(destination.GetSpan(8), message);
            destination.Advance(8);
        }

        public long Deserialize(ReadOnlySpan<byte> buffer) => BinaryPrimitives.ReadInt64LittleEndian(buffer);
    }
}
