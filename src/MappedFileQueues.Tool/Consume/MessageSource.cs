using MappedFileQueues.Engine;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues.Tool.Consume;

/// <summary>The messages of either kind of store, as bytes, for a reader or for a consumer that is moved.</summary>
internal sealed class MessageSource : IDisposable
{
    private readonly MappedFileReader? _reader;
    private readonly StoreEngine? _queue;
    private LogConsumer? _log;
    private readonly MappedFileConsumer _consumer = null!;
    private bool _isInHand;

    /// <summary>Reads the store without leaving a trace.</summary>
    public MessageSource(MappedFileReader reader)
    {
        _reader = reader;
        reader.CorruptionSkipped += (_, skipped) => OnSkipped(skipped);
        reader.MessagesSkipped += (_, skipped) => ErrorLine.Write(
            $"Messages were removed before they were read: offset={skipped.Offset}, next={skipped.NextOffset}, "
                + $"bytes={skipped.NextOffset - skipped.Offset}.",
            ExitCodes.Success);
    }

    /// <summary>Opens a consumer; a given start moves it at once.</summary>
    public MessageSource(MappedFileQueueOptions options, string name, QueueStart? from)
    {
        _queue = AttachedStore.Open(options, OnSkipped);
        try
        {
            _consumer = _queue.OpenConsumer(
                name,
                new ConsumerOptions { Start = from ?? QueueStart.Earliest },
                consumer => new MappedFileConsumer(_queue, _log = consumer));
            if (from is { } place)
                _consumer.Seek(place);
        }
        catch
        {
            _queue.Dispose();
            throw;
        }
    }

    /// <summary>The offset of the message that was read last.</summary>
    public long MessageOffset => _reader?.MessageOffset ?? _consumer.MessageOffset;

    /// <summary>The headers of the message that was read last; valid as it is.</summary>
    public MessageHeadersView Headers => _reader is null ? _consumer.HeadersInPlace : _reader.HeadersInPlace;

    /// <summary>Where the next read begins.</summary>
    public long NextOffset => _reader?.Offset ?? _consumer.Offset;

    /// <summary>
    /// If damage is stepped over: the damage where the source stopped, because nothing after it is certain to be a message;
    /// null at the end of the log.
    /// </summary>
    public QueueCorruptException? DamageAhead => _reader is null ? _log!.Reader.DamageAhead : _reader.DamageAhead;

    /// <summary>Reads the next message, and waits for it up to the given time; the span is valid until the next call.</summary>
    public bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message)
    {
        if (_reader is not null)
            return _reader.TryRead(out message, wait);
        if (_isInHand)
            _consumer.Advance();
        _isInHand = false;
        return _isInHand = _consumer.TryConsume(out message, wait);
    }

    /// <summary>Marks everything read so far as done; a reader marks nothing.</summary>
    public void Commit()
    {
        _isInHand = false;
        if (_reader is null)
            _consumer.Commit();
    }

    public void Dispose()
    {
        _reader?.Dispose();
        _queue?.Dispose();
    }

    private static void OnSkipped(CorruptionSkippedEventArgs skipped) => ErrorLine.Write(
        $"Damage was skipped: offset={skipped.Offset}, next={skipped.NextOffset}, bytes={skipped.SkippedLength}, "
            + $"file={skipped.File}.",
        ExitCodes.Success);
}
