using System.Diagnostics;

namespace MappedFileQueues.Tool.Produce;

/// <summary>An open store, and a count of the messages appended to it.</summary>
internal sealed class ProduceRun : IDisposable
{
    private readonly long _start = Stopwatch.GetTimestamp();
    private readonly MappedFileQueue _queue;
    private readonly MappedFileProducer _producer;
    private readonly int _lengthMax;
    private readonly bool _mayWait;
    private long _count;
    private long _length;
    private long _firstOffset;
    private long _lastOffset;

    public ProduceRun(MappedFileQueueOptions options)
    {
        _queue = new MappedFileQueue(options);
        _mayWait = options.MaxUnconsumedBytes > 0;
        try
        {
            _producer = _queue.Producer;
            _lengthMax = _producer.MessageLengthMax;
        }
        catch
        {
            _queue.Dispose();
            throw;
        }
    }

    /// <summary>Appends a message; may wait for consumers, until interrupted.</summary>
    public void Add(ReadOnlySpan<byte> message, CancellationToken interrupted)
    {
        if (message.Length > _lengthMax)
        {
            throw new ToolException($"The message does not fit into a segment: message={_count + 1}, length={message.Length}, "
                + $"longest={_lengthMax}; those before it are in the store. "
                + "Split it, or create a store with a larger --segment-size.");
        }

        _lastOffset = _mayWait
            ? _producer.Produce(message, new ProduceOptions { CancellationToken = interrupted })
            : _producer.Produce(message);
        if (_count++ == 0)
            _firstOffset = _lastOffset;
        _length += message.Length;
    }

    /// <summary>A summary of what was appended so far.</summary>
    public ProduceSummary Sum(bool isInterrupted) => new(
        _count,
        _length,
        _count > 0 ? _firstOffset : null,
        _count > 0 ? _lastOffset : null,
        Stopwatch.GetElapsedTime(_start).TotalSeconds,
        isInterrupted);

    /// <summary>Closes the store.</summary>
    public void Dispose() => _queue.Dispose();
}
