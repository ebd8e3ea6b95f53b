namespace MappedFileQueues.Tool.Consume;

/// <summary>Where `mfq consume` takes messages from, of either kind of store: bytes.</summary>
internal abstract class MessageSource : IDisposable
{
    /// <summary>Where the last message that was read began.</summary>
    public abstract long MessageOffset { get; }

    /// <summary>Reads the next message, waiting for it so long; the span is valid until the next call.</summary>
    public abstract bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message);

    /// <summary>Everything read so far is done.</summary>
    public abstract void Commit();

    /// <summary>Closes the store.</summary>
    public abstract void Dispose();
}

/// <summary>Reads without a trace in the store.</summary>
internal sealed class ReaderSource(string storePath, QueueStart start) : MessageSource
{
    private readonly MappedFileReader _reader = MappedFileReader.Open(storePath, start);

    public override long MessageOffset => _reader.MessageOffset;

    public override bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message) => _reader.TryRead(out message, wait);

    public override void Commit()
    {
    }

    public override void Dispose() => _reader.Dispose();
}

/// <summary>Reads as a named consumer, and moves its cursor.</summary>
internal sealed class ConsumerSource : MessageSource
{
    private readonly MappedFileQueue _queue;
    private readonly MappedFileConsumer _consumer;
    private bool _isInHand;

    public ConsumerSource(string storePath, string name)
    {
        _queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = storePath, CreateIfMissing = false });
        _consumer = _queue.OpenConsumer(name);
    }

    public override long MessageOffset => _consumer.MessageOffset;

    public override bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message)
    {
        if (_isInHand)
            _consumer.Advance();
        _isInHand = _consumer.TryConsume(out message, wait);
        return _isInHand;
    }

    public override void Commit()
    {
        _consumer.Commit();
        _isInHand = false;
    }

    public override void Dispose()
    {
        _consumer.Dispose();
        _queue.Dispose();
    }
}
