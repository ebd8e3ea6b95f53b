using System.Runtime.CompilerServices;

namespace MappedFileQueues.Tests.Contract;

internal sealed class StructQueueUnderTest(MappedFileQueue<Tick> queue) : QueueUnderTest
{
    private StructProducerUnderTest? _producer;
    private StructConsumerUnderTest? _consumer;

    public override ProducerUnderTest Producer => _producer ??= new StructProducerUnderTest(queue.Producer);

    public override ConsumerUnderTest Consumer => _consumer ??= new StructConsumerUnderTest(queue.Consumer);

    public override ProducerUnderTest OpenProducer() => new StructProducerUnderTest(queue.OpenProducer());

    public override ConsumerUnderTest OpenConsumer(string name, QueueStart start = default) =>
        new StructConsumerUnderTest(queue.OpenConsumer(name, start));

    public override async ValueTask<ConsumerUnderTest> OpenConsumerAsync(string name, CancellationToken cancellationToken) =>
        new StructConsumerUnderTest(await queue.OpenConsumerAsync(name, default, cancellationToken));

    public override List<long> ReadAll(QueueStart start = default)
    {
        using MappedFileReader<Tick> reader = queue.OpenReader(start);
        List<long> numbers = [];
        while (reader.TryRead(out Tick tick))
            numbers.Add(tick.Verify());
        return numbers;
    }

    public override long Trim(long beforeOffset) => queue.Trim(beforeOffset);

    public override void SetRetention(RetentionOptions policy) => queue.SetRetention(policy);

    public override long Flush() => queue.Flush();

    public override ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        queue.FlushAsync(cancellationToken);

    public override MappedFileQueueInfo GetInfo(bool countsMessages = false) =>
        countsMessages ? queue.GetInfo(countsMessages) : queue.GetInfo();

    public override bool DeleteConsumer(string name) => queue.DeleteConsumer(name);

    public override void ResetConsumer(string name, QueueStart start) => queue.ResetConsumer(name, start);

    public override long Snapshot(string target, SnapshotOptions? options = null) => queue.Snapshot(target, options);

    public override ValueTask DisposeAsync() => queue.DisposeAsync();

    public override void Dispose() => queue.Dispose();
}

internal sealed class StructProducerUnderTest(MappedFileProducer<Tick> producer) : ProducerUnderTest
{
    public override long Offset => producer.Offset;

    public override long ConfirmedOffset => producer.ConfirmedOffset;

    public override long Produce(long number, int producerId = 0) => producer.Produce(Tick.Make(producerId, number));

    public override long Produce(long number, in ProduceOptions options) => producer.Produce(Tick.Make(0, number), options);

    public override bool TryProduce(long number) => producer.TryProduce(Tick.Make(0, number));

    public override ValueTask<long> ProduceAsync(long number, CancellationToken cancellationToken = default) =>
        producer.ProduceAsync(Tick.Make(0, number), cancellationToken);

    public override ValueTask<long> ProduceAsync(long number, in ProduceOptions options) =>
        producer.ProduceAsync(Tick.Make(0, number), options);

    public override long ProduceBatch(params IEnumerable<long> numbers) =>
        producer.ProduceBatch([.. numbers.Select(number => Tick.Make(0, number))]);

    public override ValueTask<long> ProduceBatchAsync(IEnumerable<long> numbers, in ProduceOptions options) =>
        producer.ProduceBatchAsync(numbers.Select(number => Tick.Make(0, number)).ToArray(), options);

    public override ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default) =>
        producer.FlushAsync(upTo, cancellationToken);

    public override ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        producer.FlushAsync(cancellationToken);

    public override void Prepare(long bytes) => producer.Prepare(bytes);

    public override void Dispose() => producer.Dispose();
}

internal sealed class StructConsumerUnderTest(MappedFileConsumer<Tick> consumer) : ConsumerUnderTest
{
    public override string Name => consumer.Name;

    public override long Offset => consumer.Offset;

    public override long NextOffset => consumer.NextOffset;

    public override long CommittedOffset => consumer.CommittedOffset;

    public override long MessageOffset => consumer.MessageOffset;

    public override long Consume(CancellationToken cancellationToken = default)
    {
        consumer.Consume(out Tick tick, cancellationToken);
        return tick.Verify();
    }

    public override (int Producer, long Number) ConsumeFrom()
    {
        consumer.Consume(out Tick tick);
        return (tick.Producer, tick.Verify());
    }

    public override bool TryConsume(out long number)
    {
        bool found = consumer.TryConsume(out Tick tick);
        number = found ? tick.Verify() : -1;
        return found;
    }

    public override bool TryConsume(out long number, TimeSpan timeout)
    {
        bool found = consumer.TryConsume(out Tick tick, timeout);
        number = found ? tick.Verify() : -1;
        return found;
    }

    public override long Peek() => consumer.Peek().Verify();

    public override List<long> ConsumeBatch(int countMax)
    {
        var ticks = new Tick[countMax];
        int count = consumer.ConsumeBatch(ticks);
        return [.. ticks.Take(count).Select(tick => tick.Verify())];
    }

    public override async ValueTask<long> ConsumeAsync(CancellationToken cancellationToken = default) =>
        (await consumer.ConsumeAsync(cancellationToken)).Verify();

    public override ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        consumer.WaitToConsumeAsync(cancellationToken);

    public override async IAsyncEnumerable<long> ReadAllAsync(
        [EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        await foreach (Tick tick in consumer.ReadAllAsync(cancellationToken))
            yield return tick.Verify();
    }

    public override async ValueTask<List<long>> ConsumeBatchAsync(
        int countMax, TimeSpan maxWait = default, CancellationToken cancellationToken = default)
    {
        var ticks = new Tick[countMax];
        int count = await consumer.ConsumeBatchAsync(ticks, maxWait, cancellationToken);
        return [.. ticks.Take(count).Select(tick => tick.Verify())];
    }

    public override async IAsyncEnumerable<long> ReadChannelAsync(
        [EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        await foreach (Tick tick in consumer.AsChannelReader().ReadAllAsync(cancellationToken))
            yield return tick.Verify();
    }

    public override void Advance() => consumer.Advance();

    public override void Commit() => consumer.Commit();

    public override void Commit(long nextOffset) => consumer.Commit(nextOffset);

    public override void Rewind() => consumer.Rewind();

    public override void AdjustOffset(long offset) => consumer.AdjustOffset(offset);

    public override void SeekToEnd() => consumer.SeekToEnd();

    public override void SeekToStart() => consumer.SeekToStart();

    public override void Dispose() => consumer.Dispose();
}
