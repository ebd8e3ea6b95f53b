using MappedFileQueues.Engine;
using MappedFileQueues.Format.Headers;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>
/// A store of either kind that messages are appended to, and what was appended. It is opened, and made, when the first message
/// fits, so that an input that cannot be used leaves no empty store.
/// </summary>
internal sealed class TargetStore : IDisposable
{
    private readonly MappedFileQueueOptions _options;
    private readonly StoreKind _kind;
    private readonly int _structSize;
    private readonly ulong _layout;
    private readonly int _lengthMax;
    private readonly bool _hadFolder;
    private readonly string? _producerId;
    private StoreEngine? _queue;
    private MappedFileProducer? _producer;
    private MappedFileIdempotentProducer? _numbered;

    /// <summary>Refuses a store of another kind. A missing one will be of the source's kind and segment size.</summary>
    /// <param name="options">The path and the locks; the segment size counts only if the source tells none.</param>
    /// <param name="source">What the messages come from; null for messages of any length.</param>
    /// <param name="producerId">The id under which messages are numbered; null for messages without numbers.</param>
    public TargetStore(MappedFileQueueOptions options, StoreHeader? source, string? producerId = null)
    {
        _producerId = producerId;
        StoreMeta? there = AttachedStore.FindMeta(options.StorePath);
        _options = options;
        (IsNew, _hadFolder) = (there is null, Directory.Exists(options.StorePath));
        (_structSize, _layout) = (source?.StructSize ?? 0, source?.Layout ?? 0);
        if (source is not null && there is null)
            options.SegmentSize = source.SegmentSize;
        _kind = _structSize > 0 ? StoreKind.Struct : StoreKind.Messages;
        if (there is not null && (there.Kind != _kind || there.StructSize != _structSize
            || (_kind == StoreKind.Struct && there.LayoutFingerprint != _layout)))
        {
            throw new ToolException($"The store holds something else than what is to come: path={options.StorePath}, "
                + $"structSize={there.StructSize}, coming={_structSize}. "
                + (source is null ? "Only a program that knows the struct can produce into it: name another store."
                    : "Name another store; a missing one is made."));
        }

        _lengthMax = FrameHeader.PayloadLimit(
            there?.SegmentLength ?? StoreRequest.From(options, _kind, _structSize, _layout).SegmentLength);
    }

    /// <summary>The store was not there.</summary>
    public bool IsNew { get; }

    /// <summary>The open store; null until it is opened.</summary>
    public StoreEngine? Engine => _queue;

    /// <summary>The highest number of a message under the id.</summary>
    public ulong LastSequence => _numbered?.LastSequence ?? 0;

    /// <summary>The number of messages appended.</summary>
    public long Count { get; private set; }

    /// <summary>Their length in bytes.</summary>
    public long Bytes { get; private set; }

    /// <summary>The offset of the first one; null without messages.</summary>
    public long? FirstOffset { get; private set; }

    /// <summary>The offset of the last one; null without messages.</summary>
    public long? LastOffset { get; private set; }

    /// <summary>Appends a message, the next of the source after so many; may wait for consumers, until interrupted.</summary>
    public void Add(
        ReadOnlySpan<byte> message, MessageHeaders? headers, long before, CancellationToken interrupted = default)
    {
        ThrowIfMisfit(message, new HeaderFields(headers).BlockLength, before);
        try
        {
            Open();
            LastOffset = _options.MaxUnconsumedBytes > 0 || headers is not null
                ? _producer!.Produce(message, new ProduceOptions { CancellationToken = interrupted, Headers = headers })
                : _producer!.Produce(message);
        }
        catch when (IsNew && Count == 0)
        {
            RemoveUnused();
            throw;
        }

        FirstOffset ??= LastOffset;
        Count++;
        Bytes += message.Length;
    }

    /// <summary>Appends a message under the id, unless its number or a higher one is in the store.</summary>
    public void AddNumbered(ReadOnlySpan<byte> message, ulong sequence, long before)
    {
        ThrowIfMisfit(message, HeaderBlock.WordLength + HeaderBlock.ProducerLength, before);
        try
        {
            Open();
            if (!_numbered!.TryProduce(message, sequence))
                return;
        }
        catch when (IsNew && Count == 0)
        {
            RemoveUnused();
            throw;
        }

        Count++;
        Bytes += message.Length;
    }

    /// <summary>Opens the store, and makes it if it is missing; does nothing if it is open.</summary>
    public void Open()
    {
        if (_producer is not null || _numbered is not null)
            return;
        _queue ??= new StoreEngine(_options, _kind, _structSize, _layout);
        if (_producerId is null)
            _producer = _queue.Open(() => new MappedFileProducer(_queue));
        else
            _numbered = _queue.Open(() => new MappedFileIdempotentProducer(_queue, _producerId));
    }

    /// <summary>Puts everything on disk.</summary>
    public void Flush() => _queue?.Flush();

    /// <summary>Closes the store.</summary>
    public void Dispose() => _queue?.Dispose();

    private void ThrowIfMisfit(ReadOnlySpan<byte> message, int blockLength, long before)
    {
        int lengthMax = _lengthMax - blockLength;
        if (message.Length > lengthMax || (_structSize > 0 && message.Length != _structSize))
        {
            throw new ToolException($"The message does not fit: message={before + 1}, length={message.Length}, "
                + (_structSize > 0 ? $"structSize={_structSize}" : $"longest={lengthMax}")
                + (Count == 0 ? "; nothing was appended." : $"; the {before} before it are in the store.")
                + (_structSize > 0
                    ? " Name a store of messages, or of structs of this size."
                    : " Split it, or name a store with larger segments (mfq produce --segment-size makes one)."));
        }
    }

    /// <summary>A disk that is full at once leaves no empty store.</summary>
    private void RemoveUnused()
    {
        _queue?.Dispose();
        AttachedStore.RemoveUnused(_options.StorePath, keepsFolder: _hadFolder);
    }
}
