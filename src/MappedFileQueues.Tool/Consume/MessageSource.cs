using MappedFileQueues.Log.Reading;

namespace MappedFileQueues.Tool.Consume;

/// <summary>The source of the messages for `mfq consume`: bytes, from either kind of store.</summary>
internal abstract class MessageSource : IDisposable
{
    /// <summary>The offset of the message that was read last.</summary>
    public abstract long MessageOffset { get; }

    /// <summary>Where the next read begins.</summary>
    public abstract long NextOffset { get; }

    /// <summary>
    /// If damage is stepped over: the damage at which the source stands, because nothing after it is certain to be a message;
    /// null at the end of the log.
    /// </summary>
    public abstract QueueCorruptException? DamageAhead { get; }

    /// <summary>Reads the next message, and waits for it up to the given time; the span is valid until the next call.</summary>
    public abstract bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message);

    /// <summary>Marks everything read so far as done.</summary>
    public abstract void Commit();

    /// <summary>Closes the store.</summary>
    public abstract void Dispose();
}

/// <summary>Reads the store without leaving a trace.</summary>
internal sealed class ReaderSource : MessageSource
{
    private readonly MappedFileReader _reader;

    public ReaderSource(
        ConsumePlan plan,
        QueueStart start,
        Action<CorruptionSkippedEventArgs> onSkipped,
        Action<MessagesSkippedEventArgs> onGap)
    {
        _reader = MappedFileReader.Open(plan.StorePath, start, plan.Corruption, plan.OnOutOfRange);
        _reader.CorruptionSkipped += (_, skipped) => onSkipped(skipped);
        _reader.MessagesSkipped += (_, skipped) => onGap(skipped);
    }

    public override long MessageOffset => _reader.MessageOffset;

    public override long NextOffset => _reader.Offset;

    public override QueueCorruptException? DamageAhead => _reader.DamageAhead;

    public override bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message) => _reader.TryRead(out message, wait);

    public override void Commit()
    {
    }

    public override void Dispose() => _reader.Dispose();
}

/// <summary>Reads as a named consumer, and moves its cursor.</summary>
internal sealed class ConsumerSource : MessageSource
{
    private readonly QueueCore _queue;
    private readonly LogConsumer _log;
    private readonly MappedFileConsumer _consumer;
    private bool _isInHand;

    /// <summary>Opens the consumer; a given start moves it at once.</summary>
    public ConsumerSource(ConsumePlan plan, string name, QueueStart? from, Action<CorruptionSkippedEventArgs> onSkipped)
    {
        MappedFileQueueOptions options = new()
        {
            StorePath = plan.StorePath,
            Corruption = plan.Corruption,
            LockTimeout = plan.LockTimeout,
            DangerouslyAllowFileSystem = plan.AllowsFileSystem,
        };
        _queue = AttachedStore.Open(options, onSkipped);
        try
        {
            LogConsumer? opened = null;
            _consumer = _queue.OpenConsumer(
                name,
                new ConsumerOptions { Start = from ?? QueueStart.Earliest },
                consumer => new MappedFileConsumer(_queue, opened = consumer));
            _log = opened!;
            if (from is { } place)
                Move(place);
        }
        catch
        {
            _queue.Dispose();
            throw;
        }
    }

    public override long MessageOffset => _consumer.MessageOffset;

    public override long NextOffset => _consumer.Offset;

    public override QueueCorruptException? DamageAhead => _log.Reader.DamageAhead;

    public override bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message)
    {
        if (_isInHand)
            _consumer.Advance();
        _isInHand = false;
        _isInHand = _consumer.TryConsume(out message, wait);
        return _isInHand;
    }

    public override void Commit()
    {
        _consumer.Commit();
        _isInHand = false;
    }

    public override void Dispose() => _queue.Dispose();

    private void Move(QueueStart place)
    {
        if (place.ExactOffset is { } offset)
            _consumer.AdjustOffset(offset);
        else if (place.IsLatest)
            _consumer.SeekToEnd();
        else
            _consumer.SeekToStart();
    }
}
