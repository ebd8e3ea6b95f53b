// Only what 1.x offered, as its users wrote it; MappedFileQueues.Stream's users change the `using` line.
using System.Text;
using System.Text.Json;
using MappedFileQueues;

namespace MappedFileQueues.Tests.Compatibility;

/// <summary>
/// Programs of 1.x that must continue compiling and working. Nothing in this file may be changed to please a later version,
/// except `struct` to `unmanaged` in generic code, and the offset that a producer may be adjusted to: only that where it is.
/// </summary>
public sealed class VersionOneCode
{
    [Fact]
    public void Structs_CreateProduceConsumeCommit()
    {
        using TempStore store = new();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 };
        using (var queue = MappedFileQueue.Create<Quote>(options))
        {
            var producer = queue.Producer;
            for (var i = 1; i <= 1000; i++)
            {
                var quote = new Quote { Id = i, Price = i * 0.5 };
                producer.Produce(ref quote);
            }

            var consumer = queue.Consumer;
            for (var i = 1; i <= 500; i++)
            {
                consumer.Consume(out var quote);
                Assert.Equal(i, quote.Id);
                Assert.Equal(i * 0.5, quote.Price);
                consumer.Commit();
            }
        }

        using (var queue = new MappedFileQueue<Quote>(options))
        {
            long offset = queue.Consumer.Offset;
            Assert.True(offset > 0 && offset < queue.Producer.Offset);
            queue.Consumer.Consume(out Quote quote);
            Assert.Equal(501, quote.Id);
            queue.Consumer.AdjustOffset(offset);
            queue.Consumer.Consume(out quote);
            Assert.Equal(501, quote.Id);
            queue.Consumer.Commit();
        }
    }

    [Fact]
    public void Structs_AdjustOffsetToWhereItIs()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue<Quote>(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 65536,
            ConsumerRetryInterval = TimeSpan.FromMilliseconds(100),
            ConsumerSpinWaitDuration = TimeSpan.FromMilliseconds(1),
            ProducerForceFlushIntervalCount = 1000,
        });
        queue.Producer.AdjustOffset(queue.Producer.Offset);
        Assert.Equal(0, queue.Producer.Offset);
        queue.Consumer.AdjustOffset(0);
        var sent = new Quote { Id = 1 };
        queue.Producer.Produce(ref sent);
        queue.Consumer.Consume(out var received);
        Assert.Equal(1, received.Id);
        queue.Consumer.Commit();
        Assert.True(queue.Producer.ConfirmedOffset <= queue.Producer.Offset);
    }

    [Fact]
    public void Structs_InterfacesAndFakes()
    {
        using TempStore store = new();
        using var queue = MappedFileQueue.Create<Quote>(new MappedFileQueueOptions { StorePath = store.StorePath });
        IMappedFileProducer<Quote> producer = queue.Producer;
        IMappedFileConsumer<Quote> consumer = queue.Consumer;
        Assert.Equal(7, PassOn(producer, consumer, 7));
        var fake = new FakeQuotes();
        Assert.Equal(8, PassOn(fake, fake, 8));
        Assert.Equal(9, PassOnGeneric<Quote>(queue.Producer, queue.Consumer, new Quote { Id = 9 }).Id);
    }

    [Fact]
    public void Messages_BytesSerializersAndFakes()
    {
        using TempStore store = new();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath };
        using var queue = MappedFileQueue.Create(options);
        IMappedFileProducer producer = queue.Producer;
        IMappedFileConsumer consumer = queue.Consumer;
        producer.Produce("hello"u8);
        producer.Produce(Encoding.UTF8.GetBytes("world"));
        producer.Produce(new Person("Ada", 36), new JsonSerializerOf<Person>());
        queue.Producer.Produce(new Person("Alan", 41), new JsonSerializerOf<Person>());

        ReadOnlySpan<byte> first = consumer.Consume();
        Assert.Equal("hello", Encoding.UTF8.GetString(first));
        consumer.Commit();
        long offset = consumer.Offset;
        Assert.Equal("world", Encoding.UTF8.GetString(consumer.Consume()));
        consumer.Commit();
        consumer.AdjustOffset(offset);
        Assert.Equal("world", Encoding.UTF8.GetString(consumer.Consume()));
        consumer.Commit();
        Assert.Equal(new Person("Ada", 36), consumer.Consume(new JsonSerializerOf<Person>()));
        consumer.Commit();
        Person alan = queue.Consumer.Consume(new JsonSerializerOf<Person>());
        Assert.Equal("Alan", alan.Name);
        queue.Consumer.Commit();
        Assert.Equal(producer.Offset, consumer.Offset);

        var fake = new FakeMessages();
        IMappedFileProducer fakeProducer = fake;
        IMappedFileConsumer fakeConsumer = fake;
        fakeProducer.Produce(new Person("Grace", 45), new JsonSerializerOf<Person>());
        Assert.Equal("Grace", fakeConsumer.Consume(new JsonSerializerOf<Person>()).Name);
    }

    private static int PassOn(IMappedFileProducer<Quote> producer, IMappedFileConsumer<Quote> consumer, int id)
    {
        var quote = new Quote { Id = id };
        producer.Produce(ref quote);
        consumer.Consume(out var received);
        consumer.Commit();
        return received.Id;
    }

    private static T PassOnGeneric<T>(MappedFileProducer<T> producer, MappedFileConsumer<T> consumer, T message)
        where T : unmanaged
    {
        producer.Produce(ref message);
        consumer.Consume(out var received);
        consumer.Commit();
        return received;
    }

    private struct Quote
    {
        public int Id;
        public double Price;
    }

    private sealed record Person(string Name, int Age);

    private sealed class JsonSerializerOf<T> : IMessageSerializer<T>, IMessageDeserializer<T>
    {
        public ReadOnlySpan<byte> Serialize(T message) => JsonSerializer.SerializeToUtf8Bytes(message);

        public T Deserialize(ReadOnlySpan<byte> buffer) => JsonSerializer.Deserialize<T>(buffer)!;
    }

    private sealed class FakeQuotes : IMappedFileProducer<Quote>, IMappedFileConsumer<Quote>
    {
        private readonly Queue<Quote> _quotes = new();

        public long Offset => _quotes.Count;

        public long ConfirmedOffset => 0;

        public void AdjustOffset(long offset)
        {
        }

        public void Produce(ref Quote message) => _quotes.Enqueue(message);

        public void Consume(out Quote message) => message = _quotes.Peek();

        public void Commit() => _quotes.Dequeue();
    }

    private sealed class FakeMessages : IMappedFileProducer, IMappedFileConsumer
    {
        private readonly Queue<byte[]> _messages = new();

        public long Offset => _messages.Count;

        public void AdjustOffset(long offset)
        {
        }

        public void Produce(ReadOnlySpan<byte> buffer) => _messages.Enqueue(buffer.ToArray());

        public void Produce<T>(T message, IMessageSerializer<T> serializer) => Produce(serializer.Serialize(message));

        public ReadOnlySpan<byte> Consume() => _messages.Peek();

        public T Consume<T>(IMessageDeserializer<T> deserializer) => deserializer.Deserialize(Consume());

        public void Commit() => _messages.Dequeue();
    }
}
