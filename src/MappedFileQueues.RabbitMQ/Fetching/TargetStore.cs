using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Diagnostics;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>
/// The store that is fetched into, and the place in the stream that belongs to its end. The fetcher is the only producer, and
/// appends record after record as the stream has them. So the place is known exactly after any death: it is the last one that
/// was written down, and as many records further as were appended since, which are read again and compared.
/// <code>
/// step                                        killed after it
/// 1 append a batch                            it is there or not, never a part; the next fetcher finds it behind the place
/// 2 at times: flush the store                 -
/// 3 write the place down, on disk             the next fetcher begins there
/// 4 move the cursor that holds retention      retention keeps more than it must
/// </code>
/// </summary>
internal sealed class TargetStore : IDisposable
{
    /// <summary>The consumer whose cursor keeps retention from what a restart compares.</summary>
    private const string ConsumerName = "bridge.fetch";

    /// <summary>A batch is one claim, which has to fit into a segment.</summary>
    private const int FrameOverhead = 16;

    /// <summary>What is before the longest message in its segment.</summary>
    private const int FrameHeaderLength = 8;

    private readonly MappedFileQueue _queue;
    private readonly MappedFileProducer _producer;
    private readonly MappedFileConsumer _consumer;
    private readonly PositionFile _file;
    private readonly StreamFetcherOptions _options;
    private readonly Guid _storeId;
    private readonly long _batchLengthMax;
    private readonly Dictionary<Guid, SourcePlace> _sources = [];
    private readonly List<ReadOnlyMemory<byte>> _batch = [];
    private readonly List<MessageHeaders?> _headers = [];
    private MappedFileReader? _appended;
    private long _appendedEnd;
    private long _writtenTime = Stopwatch.GetTimestamp();
    private bool _isDirty;
    private bool _isDue;
    private bool _isOtherStream;

    private TargetStore(
        MappedFileQueue queue, MappedFileProducer producer, PositionFile file, StreamFetcherOptions options)
    {
        (_queue, _producer, _file, _options) = (queue, producer, file, options);
        MappedFileQueueInfo info = queue.GetInfo();
        _storeId = info.StoreId;
        _batchLengthMax = info.SegmentSize / 2;
        bool isKnown = info.Consumers.Any(consumer => consumer.Name == ConsumerName);
        if (file.Position is { } position)
            Resume(position);
        else if (isKnown)
            throw Changed("The store was fetched into before, and the file that says up to where is gone");
        else
            WritePlace();
        try
        {
            // After the file: a store with the consumer and without the file has lost it.
            _consumer = queue.OpenConsumer(
                ConsumerName, new ConsumerOptions { Start = QueueStart.Latest, OnOutOfRange = OutOfRangePolicy.Earliest });
        }
        catch
        {
            _appended?.Dispose();
            throw;
        }
    }

    /// <summary>The last broker message that is done; -1 before the first.</summary>
    public long StreamOffset { get; private set; } = -1;

    /// <summary>What it is known by again.</summary>
    public uint Checksum { get; private set; }

    public long Offset => _producer.Offset;

    /// <summary>
    /// Complains if a file is where the store is to be, or above it. The store is opened only once the broker is there, and this
    /// has nothing to do with the broker.
    /// </summary>
    /// <exception cref="QueueDiskException">A file is in the way.</exception>
    public static void ThrowIfFile(string storePath)
    {
        string? path = Path.GetFullPath(storePath);
        while (path is not null && !File.Exists(path) && !Directory.Exists(path))
            path = Path.GetDirectoryName(path);
        if (File.Exists(path))
        {
            throw new QueueDiskException(
                $"The store cannot be made: path={storePath}. A part of the path is a file, file={path}. Name a directory, or "
                + "move the file away.",
                BrokerException.NotADirectory, storePath);
        }
    }

    public static TargetStore Open(StreamFetcherOptions options)
    {
        MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = options.StorePath,
            SegmentSize = options.SegmentSize,
            Durability = options.Durability,
            ProducerMode = ProducerMode.Exclusive,
            DangerouslyAllowFileSystem = options.DangerouslyAllowFileSystem,
        });
        PositionFile? file = null;
        try
        {
            // First, because it keeps other fetchers away from the file.
            MappedFileProducer producer = queue.OpenProducer();
            file = PositionFile.Open(options.StorePath);
            return new TargetStore(queue, producer, file, options);
        }
        catch
        {
            file?.Dispose();
            queue.Dispose();
            throw;
        }
    }

    public SourcePlace? PlaceOf(Guid source) => _sources.TryGetValue(source, out SourcePlace place) ? place : null;

    /// <summary>Takes the records of one broker message that are new, and notes that the message is done.</summary>
    /// <param name="envelope">The message; null if it is none of ours.</param>
    /// <param name="seenTo">Records before this offset are there already.</param>
    /// <param name="streamOffset">Its place in the stream.</param>
    /// <param name="checksum">What it is known by again.</param>
    /// <returns>How many records and bytes were new.</returns>
    public (int Count, long Bytes) Take(StreamEnvelope? envelope, long seenTo, long streamOffset, uint checksum)
    {
        int count = 0;
        long bytes = 0;
        if (envelope is { Kind: EnvelopeKind.Records } records)
        {
            if (PlantedFaults.Has(PlantedFault.AcknowledgedFirst) && _appended is null)
            {
                (StreamOffset, Checksum) = (streamOffset, checksum);
                _sources[records.StoreId] = new SourcePlace(records.Epoch, records.To);
                WritePlace();
            }
            (count, bytes) = Append(records, seenTo);
            SourcePlace place = new(records.Epoch, records.To);
            if (_sources.TryGetValue(records.StoreId, out SourcePlace before) && before.Epoch == place.Epoch)
                place = place with { To = Math.Max(before.To, place.To) };
            _sources[records.StoreId] = place;
        }

        (StreamOffset, Checksum) = (streamOffset, checksum);
        _isDirty = true;
        return (count, bytes);
    }

    /// <summary>Writes the place down, if it has changed and the interval is over, or it is the last time.</summary>
    public void WritePosition(bool isLast = false)
    {
        if (!_isDirty || _appended is not null
            || (!isLast && !_isDue && Stopwatch.GetElapsedTime(_writtenTime) < _options.PositionInterval))
            return;
        WritePlace();
        _consumer.AdjustOffset(_file.Position!.TargetOffset);
        _writtenTime = Stopwatch.GetTimestamp();
        (_isDirty, _isDue) = (false, false);
    }

    /// <summary>
    /// The next reading begins with the first message of the stream, whatever the stream was before. What was appended after the
    /// place that was written down is still compared with what comes, as far as that continues where the sources were.
    /// </summary>
    public void ForgetPlace()
    {
        (StreamOffset, Checksum, _isOtherStream) = (-1, 0, true);
        WritePlace(_appended is null ? _producer.Offset : _file.Position!.TargetOffset);
        _isDirty = false;
    }

    /// <summary>
    /// Something is missing before what comes, or its source is another one, and the fetcher continues: it is no repetition of
    /// what was appended after the place that was written down. The next place is written down at once, so that a death behind it
    /// compares again.
    /// </summary>
    public void ForgetAppended()
    {
        _appended?.Dispose();
        _appended = null;
        _isDue = true;
    }

    public void Dispose()
    {
        _appended?.Dispose();
        _file.Dispose();
        _queue.Dispose();
    }

    private void WritePlace() => WritePlace(_producer.Offset);

    private void WritePlace(long offset)
    {
        _queue.Flush();
        Dictionary<Guid, SourcePlace> sources = new(_sources);
        _file.Write(new FetchPosition(_storeId, _options.Stream, offset, StreamOffset, Checksum, sources));
    }

    private void Resume(FetchPosition position)
    {
        long end = _producer.Offset;
        if (position.StoreId != _storeId)
            throw Changed($"The file that says up to where the store was fetched is another store's: store={position.StoreId}");
        if (position.Stream != _options.Stream)
            throw Changed($"The store was fetched from another stream: stream={position.Stream}");
        if (position.TargetOffset > end)
            throw Changed($"The store has lost what was on disk: end={end}, before={position.TargetOffset}");
        (StreamOffset, Checksum) = (position.StreamOffset, position.Checksum);
        _isOtherStream = StreamOffset < 0 && position.Sources.Count > 0;
        foreach ((Guid id, SourcePlace place) in position.Sources)
            _sources[id] = place;
        if (position.TargetOffset < end)
        {
            try
            {
                _appended = MappedFileReader.Open(_options.StorePath, QueueStart.FromOffset(position.TargetOffset));
            }
            catch (OffsetOutOfRangeException)
            {
                throw Removed();
            }

            _appendedEnd = end;
        }
    }

    private (int Count, long Bytes) Append(StreamEnvelope envelope, long seenTo)
    {
        // Nothing tells where a source begins in a stream that was made again.
        if (_isOtherStream && !_sources.ContainsKey(envelope.StoreId))
            ForgetAppended();
        _batch.Clear();
        _headers.Clear();
        long bytes = 0;
        long length = 0;
        int count = 0;
        foreach (EnvelopeRecord record in envelope)
        {
            if (record.Offset < seenTo || WasAppended(record))
                continue;
            _batch.Add(record.Payload);
            _headers.Add(record.ToHeaders());
            bytes += record.Payload.Length;
            length += record.Payload.Length + record.Headers.Length + FrameOverhead;
            count++;
            if (length > _batchLengthMax)
                Flush(ref length);
        }

        Flush(ref length);
        return (count, bytes);
    }

    private void Flush(ref long length)
    {
        if (_batch.Count > 1 && length <= _batchLengthMax)
        {
            _producer.ProduceBatch(CollectionsMarshal.AsSpan(_batch), CollectionsMarshal.AsSpan(_headers));
        }
        else
        {
            for (int i = 0; i < _batch.Count; i++)
                Produce(_batch[i], _headers[i]);
        }

        _batch.Clear();
        _headers.Clear();
        length = 0;
    }

    private void Produce(ReadOnlyMemory<byte> record, MessageHeaders? headers)
    {
        int blockLength = new HeaderFields(headers).BlockLength;
        if (record.Length + blockLength > _producer.MessageLengthMax)
        {
            throw new BridgeException(
                BridgeFault.TargetTooSmall,
                $"A record is longer than the store takes: length={record.Length}, longest={_producer.MessageLengthMax}, "
                + $"path={_options.StorePath}. Fetch into a new store with longer segments (SegmentSize): "
                + $"{record.Length + blockLength + (long)FrameHeaderLength} bytes at least.");
        }

        _producer.Produce(record.Span, new ProduceOptions { Headers = headers });
    }

    /// <summary>Whether a record is what was appended after the place that was written down, and before the death.</summary>
    private bool WasAppended(in EnvelopeRecord record)
    {
        if (_appended is not { } reader)
            return false;
        try
        {
            bool isOver = !reader.TryRead(out ReadOnlySpan<byte> message) || reader.MessageOffset >= _appendedEnd;
            if (!isOver && message.SequenceEqual(record.Payload.Span))
                return true;
            // In a stream that was made again, the sources may follow each other otherwise.
            if (!isOver && !_isOtherStream)
            {
                throw Changed(
                    $"The store holds something other than the stream: offset={reader.MessageOffset}, source={record.Offset}");
            }
        }
        catch (OffsetOutOfRangeException)
        {
            throw Removed();
        }

        ForgetAppended();
        return false;
    }

    private BridgeException Removed() => Changed(
        $"The store does not hold any more what was appended to it last: offset={_file.Position!.TargetOffset}. Its retention "
        + "has removed it before the place was written down (PositionInterval)");

    private BridgeException Changed(string what) => new(
        BridgeFault.TargetChanged,
        $"{what}, path={_options.StorePath}. Only the fetcher may append to its store. Fetch into a new one.");
}
