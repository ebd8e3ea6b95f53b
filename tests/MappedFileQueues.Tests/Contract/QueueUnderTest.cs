namespace MappedFileQueues.Tests.Contract;

/// <summary>Either kind of queue, seen by the contract: a message is a number.</summary>
internal abstract class QueueUnderTest : IDisposable
{
    public abstract ProducerUnderTest Producer { get; }

    public abstract ConsumerUnderTest Consumer { get; }

    public static QueueUnderTest Open(QueueKind kind, MappedFileQueueOptions options) => kind == QueueKind.Struct
        ? new StructQueueUnderTest(new MappedFileQueue<Tick>(options))
        : new MessageQueueUnderTest(new MappedFileQueue(options));

    public abstract ProducerUnderTest OpenProducer();

    public abstract ConsumerUnderTest OpenConsumer(string name, QueueStart start = default);

    public abstract ValueTask<ConsumerUnderTest> OpenConsumerAsync(string name, CancellationToken cancellationToken);

    /// <summary>The numbers that a reader without a trace finds from a start on.</summary>
    public abstract List<long> ReadAll(QueueStart start = default);

    public abstract long Flush();

    public abstract long Trim(long beforeOffset);

    public abstract void SetRetention(RetentionOptions policy);

    public abstract ValueTask<long> FlushAsync(CancellationToken cancellationToken = default);

    public abstract MappedFileQueueInfo GetInfo(bool countsMessages = false);

    public abstract bool DeleteConsumer(string name);

    public abstract void ResetConsumer(string name, QueueStart start);

    public abstract long Snapshot(string target, SnapshotOptions? options = null);

    public abstract ValueTask DisposeAsync();

    public abstract void Dispose();
}

internal enum QueueKind
{
    Struct,
    Message,
}

internal abstract class ProducerUnderTest : IDisposable
{
    public abstract long Offset { get; }

    public abstract long ConfirmedOffset { get; }

    public abstract long Produce(long number, int producer = 0);

    public abstract long Produce(long number, in ProduceOptions options);

    public abstract bool TryProduce(long number);

    public abstract ValueTask<long> ProduceAsync(long number, CancellationToken cancellationToken = default);

    public abstract ValueTask<long> ProduceAsync(long number, in ProduceOptions options);

    public abstract long ProduceBatch(params IEnumerable<long> numbers);

    public abstract ValueTask<long> ProduceBatchAsync(IEnumerable<long> numbers, in ProduceOptions options);

    public abstract ValueTask<long> FlushAsync(long upTo, CancellationToken cancellationToken = default);

    public abstract ValueTask<long> FlushAsync(CancellationToken cancellationToken = default);

    public abstract void Prepare(long bytes);

    public abstract void Dispose();
}

internal abstract class ConsumerUnderTest : IDisposable
{
    public abstract string Name { get; }

    public abstract long Offset { get; }

    public abstract long NextOffset { get; }

    public abstract long CommittedOffset { get; }

    public abstract long MessageOffset { get; }

    public abstract long Consume(CancellationToken cancellationToken = default);

    /// <summary>Who sent it, and its number.</summary>
    public abstract (int Producer, long Number) ConsumeFrom();

    public abstract bool TryConsume(out long number);

    public abstract bool TryConsume(out long number, TimeSpan timeout);

    /// <summary>The message where it is (structs), or its span (messages).</summary>
    public abstract long Peek();

    public abstract List<long> ConsumeBatch(int countMax);

    public abstract ValueTask<long> ConsumeAsync(CancellationToken cancellationToken = default);

    public abstract ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default);

    public abstract IAsyncEnumerable<long> ReadAllAsync(CancellationToken cancellationToken = default);

    public abstract ValueTask<List<long>> ConsumeBatchAsync(
        int countMax, TimeSpan maxWait = default, CancellationToken cancellationToken = default);

    /// <summary>What the consumer gives as a channel, until it ends.</summary>
    public abstract IAsyncEnumerable<long> ReadChannelAsync(CancellationToken cancellationToken = default);

    public abstract void Advance();

    public abstract void Commit();

    public abstract void Commit(long nextOffset);

    public abstract void Rewind();

    public abstract void AdjustOffset(long offset);

    public abstract void SeekToEnd();

    public abstract void SeekToStart();

    public abstract void Dispose();

    /// <summary>Consumes and commits so many messages.</summary>
    public List<long> Take(int count)
    {
        List<long> numbers = [];
        for (int i = 0; i < count; i++)
        {
            numbers.Add(Consume());
            Commit();
        }

        return numbers;
    }
}
