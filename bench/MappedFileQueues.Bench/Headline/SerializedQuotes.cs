namespace MappedFileQueues.Bench.Headline;

/// <summary>Objects through a serializer, one call a message.</summary>
/// <param name="path">The store.</param>
/// <param name="quote">What is written, each time with another number.</param>
/// <param name="serializer">Writes and reads it.</param>
/// <param name="number">Sets its number.</param>
/// <param name="sum">What it holds, as in <see cref="HeadlineTable.SumOf"/>.</param>
internal sealed class SerializedQuotes<T>(
    string path, T quote, IBufferedMessageSerializer<T> serializer, Action<T, int> number, Func<T, long> sum) : HeadlineQueue
{
    private readonly MappedFileQueue _queue = new(new MappedFileQueueOptions { StorePath = path });

    public override void Write(int count)
    {
        MappedFileProducer producer = _queue.Producer;
        for (int i = 0; i < count; i++)
        {
            number(quote, i);
            producer.Produce(quote, serializer);
        }
    }

    public override long Read(int count)
    {
        MappedFileConsumer consumer = _queue.Consumer;
        var deserializer = (IMessageDeserializer<T>)serializer;
        long total = 0;
        for (int i = 0; i < count; i++)
        {
            total += sum(consumer.Consume(deserializer));
            consumer.Commit();
        }

        return total;
    }

    public override void Dispose() => _queue.Dispose();
}
