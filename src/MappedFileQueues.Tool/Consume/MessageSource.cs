using MappedFileQueues.Format;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tool.Consume;

/// <summary>The source of the messages for `mfq consume`: bytes, from either kind of store.</summary>
internal abstract class MessageSource : IDisposable
{
    /// <summary>The offset of the message that was read last.</summary>
    public abstract long MessageOffset { get; }

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
        string storePath, QueueStart start, CorruptionPolicy corruption, Action<CorruptionSkippedEventArgs> onSkipped)
    {
        _reader = MappedFileReader.Open(storePath, start, corruption);
        _reader.CorruptionSkipped += (_, skipped) => onSkipped(skipped);
    }

    public override long MessageOffset => _reader.MessageOffset;

    public override QueueCorruptException? DamageAhead => _reader.DamageAhead;

    public override bool TryRead(TimeSpan wait, out ReadOnlySpan<byte> message) => _reader.TryRead(out message, wait);

    public override void Commit()
    {
    }

    public override void Dispose() => _reader.Dispose();
}

/// <summary>
/// Reads as a named consumer, and moves its cursor. Each public queue opens one kind of store, by the type that the caller has at
/// compile time. Here the store's own meta page names the kind, and structs are read as bytes.
/// </summary>
internal sealed class ConsumerSource : MessageSource
{
    private readonly QueueCore _queue;
    private readonly LogConsumer _log;
    private readonly MappedFileConsumer _consumer;
    private bool _isInHand;

    /// <summary>Opens the consumer; a given start moves it at once.</summary>
    public ConsumerSource(ConsumePlan plan, string name, QueueStart? from, Action<CorruptionSkippedEventArgs> onSkipped)
    {
        StoreMeta meta = ReadMeta(plan.StorePath);
        MappedFileQueueOptions options = new()
        {
            StorePath = plan.StorePath,
            CreateIfMissing = false,
            Corruption = plan.Corruption,
            LockTimeout = plan.LockTimeout,
            DangerouslyAllowFileSystem = plan.AllowsFileSystem,
        };
        _queue = new QueueCore(options, meta.Kind, meta.StructSize, meta.LayoutFingerprint, onSkipped);
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

    private static StoreMeta ReadMeta(string storePath)
    {
        string path = Path.GetFullPath(storePath);
        using HeldDirectory? directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null);
        return (directory is null ? null : StoreMetaFile.Read(directory))
            ?? throw new ToolException($"There is no store: path={path}. Correct the path; `mfq produce` creates a store.");
    }
}
