using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;

namespace MappedFileQueues.Tool.Produce;

/// <summary>
/// A store, and a count of the messages appended to it. One that is missing is made when the first message fits, so that an input
/// that cannot be used leaves no empty store.
/// </summary>
internal sealed class ProduceRun : IDisposable
{
    private readonly long _start = Stopwatch.GetTimestamp();
    private readonly MappedFileQueueOptions _options;
    private readonly int _lengthMax;
    private readonly bool _mayWait;
    private readonly bool _isNew;
    private readonly bool _hadFolder;
    private MappedFileQueue? _queue;
    private MappedFileProducer? _producer;
    private long _count;
    private long _length;
    private long _firstOffset;
    private long _lastOffset;

    public ProduceRun(MappedFileQueueOptions options)
    {
        _options = options;
        _mayWait = options.MaxUnconsumedBytes > 0;
        StoreMeta? there = AttachedStore.FindMeta(options.StorePath);
        _lengthMax = FrameHeader.PayloadLimit(
            there?.SegmentLength ?? StoreRequest.From(options, StoreKind.Messages, structSize: 0, fingerprint: 0).SegmentLength);
        _isNew = there is null;
        _hadFolder = Directory.Exists(options.StorePath);
        if (_isNew)
            return;
        try
        {
            Open();
        }
        catch
        {
            _queue?.Dispose();
            throw;
        }
    }

    /// <summary>Whether the store was there, or a message was appended.</summary>
    public bool IsOpen => _producer is not null;

    /// <summary>Opens the store, and makes it if it is missing; does nothing if it is open.</summary>
    public void Open()
    {
        _queue ??= new MappedFileQueue(_options);
        _producer ??= _queue.Producer;
    }

    /// <summary>Appends a message; may wait for consumers, until interrupted.</summary>
    public void Add(ReadOnlySpan<byte> message, CancellationToken interrupted)
    {
        if (message.Length > _lengthMax)
        {
            throw new ToolException($"The message does not fit into a segment: message={_count + 1}, length={message.Length}, "
                + $"longest={_lengthMax}; {(_count == 0 ? "nothing was appended" : "those before it are in the store")}. "
                + "Split it, or create a store with a larger --segment-size.");
        }

        if (_isNew && _count == 0)
            AddFirst(message, interrupted);
        else
            Append(message, interrupted);
        if (_count++ == 0)
            _firstOffset = _lastOffset;
        _length += message.Length;
    }

    /// <summary>A disk that is full at once leaves no empty store.</summary>
    private void AddFirst(ReadOnlySpan<byte> message, CancellationToken interrupted)
    {
        try
        {
            Open();
            Append(message, interrupted);
        }
        catch
        {
            _queue?.Dispose();
            AttachedStore.RemoveUnused(_options.StorePath, keepsFolder: _hadFolder);
            throw;
        }
    }

    private void Append(ReadOnlySpan<byte> message, CancellationToken interrupted) => _lastOffset = _mayWait
        ? _producer!.Produce(message, new ProduceOptions { CancellationToken = interrupted })
        : _producer!.Produce(message);

    /// <summary>A summary of what was appended so far.</summary>
    public ProduceSummary Sum(bool isInterrupted) => new(
        _count,
        _length,
        _count > 0 ? _firstOffset : null,
        _count > 0 ? _lastOffset : null,
        Stopwatch.GetElapsedTime(_start).TotalSeconds,
        isInterrupted);

    /// <summary>Closes the store.</summary>
    public void Dispose() => _queue?.Dispose();
}
