namespace MappedFileQueues.Bench.Headline;

/// <summary>Structs, one call a message.</summary>
internal sealed class StructQuotes : HeadlineQueue
{
    private readonly MappedFileQueue<StructQuote> _queue;
    private StructQuote _quote = new() { Time = HeadlineTable.Time, Price = HeadlineTable.Price };

    public StructQuotes(string path)
    {
        HeadlineTable.Name.CopyTo(_quote.Name);
        _queue = new MappedFileQueue<StructQuote>(new MappedFileQueueOptions { StorePath = path });
    }

    public override void Write(int count)
    {
        MappedFileProducer<StructQuote> producer = _queue.Producer;
        for (int i = 0; i < count; i++)
        {
            _quote.Number = i;
            producer.Produce(ref _quote);
        }
    }

    public override long Read(int count)
    {
        MappedFileConsumer<StructQuote> consumer = _queue.Consumer;
        long sum = 0;
        for (int i = 0; i < count; i++)
        {
            consumer.Consume(out StructQuote quote);
            sum += quote.Number + quote.Time + quote.Name[9];
            consumer.Commit();
        }

        return sum;
    }

    public override void Dispose() => _queue.Dispose();
}
