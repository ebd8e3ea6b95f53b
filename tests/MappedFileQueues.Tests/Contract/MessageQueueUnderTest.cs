using System.Runtime.CompilerServices;

namespace MappedFileQueues.Tests.Contract;

internal sealed class MessageQueueUnderTest(MappedFileQueue queue) : QueueUnderTest
{
    private MessageProducerUnderTest? _producer;
    private MessageConsumerUnderTest? _consumer;

    public override ProducerUnderTest Producer => _producer ??= new MessageProducerUnderTest(queue.Producer);

    public override ConsumerUnderTest Consumer => _consumer ??= new MessageConsumerUnderTest(queue.Consumer);

    public override ProducerUnderTest OpenProducer() => new MessageProducerUnderTest(queue.OpenProducer());

    public override ConsumerUnderTest OpenConsumer(string name, QueueStart start = default) =>
        new MessageConsumerUnderTest(queue.OpenConsumer(name, start));

    public override async ValueTask<ConsumerUnderTest> OpenConsumerAsync(string name, CancellationToken cancellationToken) =>
        new MessageConsumerUnderTest(await queue.OpenConsumerAsync(name, default, cancellationToken));

    public override List<long> ReadAll(QueueStart start = default)
    {
        using MappedFileReader reader = queue.OpenReader(start);
        List<long> numbers = [];
        while (reader.TryRead(out ReadOnlySpan<byte> bytes))
            numbers.Add(Payload.Verify(bytes).Number);
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

internal sealed class MessageProducerUnderTest(MappedFileProducer producer) : ProducerUnderTest
{
    public override long Offset => producer.Offset;

    public override long ConfirmedOffset => producer.ConfirmedOffset;

    public override long Produce(long number, int producerId = 0) => producer.Produce(Payload.Make(producerId, number));

    public override long Produce(long number, in ProduceOptions options) => producer.Produce(Payload.Make(0, number), options);

    public override bool TryProduce(long number) => producer.TryProduce(Payload.Make(0, number));

    public override ValueTask<long> ProduceAsync(long number, CancellationToken cancellationToken = default) =>
        producer.ProduceAsync(Payload.Make(0, number), cancellationToken);

    public override ValueTask<long> ProduceAsync(long number, in ProduceOptions options) =>
        producer.ProduceAsync(Payload.Make(0, number), options);

    public override long ProduceBatch(params IEnumerable<long> numbers) =>
        producer.ProduceBatch([.. numbers.Select(number => new ReadOnlyMemory<byte>(Payload.Make(0, number)))]);

    public override ValueTask<long> ProduceBatchAsync(IEnumerable<long> numbers, in ProduceOptions options) =>
        producer.ProduceBatchAsync(
            numbers.Select(number => new ReadOnlyMemory<byte>(Payload.Make(0, number))).ToArray(), options);

    public override ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default) =>
        producer.FlushAsync(upTo, cancellationToken);

    public override ValueTask<long> FlushAsync(CancellationToken cancellationToken = default) =>
        producer.FlushAsync(cancellationToken);

    public override void Prepare(long bytes) => producer.Prepare(bytes);

    public override void Dispose() => producer.Dispose();
}

internal sealed class MessageConsumerUnderTest(MappedFileConsumer consumer) : ConsumerUnderTest
{
    public override string Name => consumer.Name;

    public override long Offset => consumer.Offset;

    public override long NextOffset => consumer.NextOffset;

    public override long CommittedOffset => consumer.CommittedOffset;

    public override long MessageOffset => consumer.MessageOffset;

    public override long Consume(CancellationToken cancellationToken = default) =>
        Payload.Verify(consumer.Consume(cancellationToken)).Number;

    public override (int Producer, long Number) ConsumeFrom() => Payload.Verify(consumer.Consume());

    public override bool TryConsume(out long number)
    {
        bool found = consumer.TryConsume(out ReadOnlySpan<byte> bytes);
        number = found ? Payload.Verify(bytes).Number : -1;
        return found;
    }

    public override bool TryConsume(out long number, TimeSpan timeout)
    {
        bool found = consumer.TryConsume(out ReadOnlySpan<byte> bytes, timeout);
        number = found ? Payload.Verify(bytes).Number : -1;
        return found;
    }

    public override long Peek() => Payload.Verify(consumer.Consume()).Number;

    public override List<long> ConsumeBatch(int countMax)
    {
        List<long> numbers = [];
        foreach (ReadOnlySpan<byte> bytes in consumer.ConsumeBatch(countMax))
            numbers.Add(Payload.Verify(bytes).Number);
        return numbers;
    }

    public override async ValueTask<long> ConsumeAsync(CancellationToken cancellationToken = default) =>
        Payload.Verify((await consumer.ConsumeAsync(cancellationToken)).Span).Number;

    public override ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        consumer.WaitToConsumeAsync(cancellationToken);

    public override async IAsyncEnumerable<long> ReadAllAsync(
        [EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        await foreach (ReadOnlyMemory<byte> bytes in consumer.ReadAllAsync(cancellationToken))
            yield return Payload.Verify(bytes.Span).Number;
    }

    public override async ValueTask<List<long>> ConsumeBatchAsync(
        int countMax, TimeSpan maxWait = default, CancellationToken cancellationToken = default) =>
    [
        .. (await consumer.ConsumeBatchAsync(countMax, maxWait, cancellationToken))
            .Select(bytes => Payload.Verify(bytes.Span).Number),
    ];

    public override async IAsyncEnumerable<long> ReadChannelAsync(
        [EnumeratorCancellation] CancellationToken cancellationToken = default)
    {
        await foreach (long number in consumer.AsChannelReader(NumberOfPayload.Instance).ReadAllAsync(cancellationToken))
            yield return number;
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

/// <summary>The number of a payload, after a look at all of it.</summary>
internal sealed class NumberOfPayload : IMessageDeserializer<long>
{
    public static NumberOfPayload Instance { get; } = new();

    public long Deserialize(ReadOnlySpan<byte> buffer) => Payload.Verify(buffer).Number;
}
