namespace MappedFileQueues.RabbitMQ.Forwarding;

/// <summary>
/// The records that the broker refuses. While one is suspected, the forwarder sends record after record, so that it is certain
/// which of them is refused.
/// </summary>
internal sealed class DeadLetters(StreamForwarderOptions options)
{
    /// <summary>
    /// A broker in trouble refuses as well; so many refusals of one record, each on a fresh connection, are its own.
    /// </summary>
    private const int RefusalsMax = 4;

    private long _suspectsEnd = -1;
    private long _refusedAt = -1;
    private int _refusals;

    /// <summary>Whether records go one by one now.</summary>
    public bool IsCareful(long offset) => offset < _suspectsEnd;

    /// <summary>The broker refused something.</summary>
    /// <param name="confirmedTo">Everything before this offset is in the stream.</param>
    /// <param name="sentTo">The end of what was sent.</param>
    /// <param name="wasCareful">Whether a record was sent alone.</param>
    public void Refused(long confirmedTo, long sentTo, bool wasCareful)
    {
        _suspectsEnd = Math.Max(_suspectsEnd, sentTo);
        if (!wasCareful)
            return;
        _refusals = _refusedAt == confirmedTo ? _refusals + 1 : 1;
        _refusedAt = confirmedTo;
    }

    /// <summary>Whether a record has no chance.</summary>
    /// <param name="from">Where the envelope of the record would begin.</param>
    /// <param name="length">Its length, with its headers.</param>
    public bool IsHopeless(long from, int length) =>
        IsTooLong(length) || (from == _refusedAt && _refusals >= RefusalsMax);

    /// <summary>Puts a record into the store of dead letters, on disk.</summary>
    /// <param name="source">The record's store.</param>
    /// <param name="offset">The record's offset there.</param>
    /// <param name="record">The record.</param>
    /// <param name="headers">Its headers; null when it has none.</param>
    /// <param name="length">Its length, with its headers.</param>
    /// <exception cref="BridgeException">No store is named for it, or the store cannot take it.</exception>
    public void Keep(SourceStore source, long offset, ReadOnlySpan<byte> record, MessageHeaders? headers, int length)
    {
        bool isTooLong = IsTooLong(length);
        if (options.DeadLetterPath is not { } path)
        {
            string fault = isTooLong ? $"A record is longer than the bridge sends: limit={options.RecordLengthMax}"
                : "The broker refuses a record: attempts=" + _refusals;
            throw new BridgeException(
                BridgeFault.Refused,
                $"{fault}, offset={offset}, length={length}, path={options.StorePath}. Name a store for such records "
                + $"(DeadLetterPath), or raise {(isTooLong ? "RecordLengthMax" : "the broker's limit")}.");
        }

        MappedFileQueueOptions from = new()
        {
            StorePath = options.StorePath,
            DangerouslyAllowFileSystem = options.DangerouslyAllowFileSystem,
        };
        try
        {
            using DeadLetterBox box = new(path, from);
            box.Append(
                new DeadLetter
                {
                    StoreId = source.StoreId,
                    Epoch = source.Epoch,
                    Offset = offset,
                    Queue = options.Stream,
                    Consumer = options.ConsumerName,
                    Time = DateTimeOffset.UtcNow,
                    Attempts = isTooLong ? 0 : _refusals,
                    ErrorType = typeof(BridgeException).FullName!,
                    Error = isTooLong
                        ? $"The record is longer than the bridge sends: length={length}, limit={options.RecordLengthMax}."
                        : $"The broker refuses the record: length={length}, stream={options.Stream}.",
                    MessageLength = record.Length,
                    Message = record.ToArray(),
                },
                // Twice: segments for one record would hold no second one.
                2L * (record.Length + DeadLetter.OverheadMax),
                headers);
        }
        catch (QueueInUseException error)
        {
            // Not what standing by is for: that one waits for the store that is forwarded.
            throw NotKept(
                offset, record.Length, $"Another process or queue has it for itself: {error.Message} Name a store that only "
                + "forwarders use (DeadLetterPath), or end the other one, and start again.", error);
        }
        catch (InvalidOperationException error)
        {
            throw NotKept(
                offset, record.Length, $"{error.Message} Or name another one (DeadLetterPath). Then start again.", error);
        }
        catch (MappedFileQueueException error) when (error is not (QueueDiskException or BridgeException))
        {
            throw NotKept(
                offset, record.Length, $"{error.Message} Name another store of messages (DeadLetterPath), and start again.",
                error);
        }

        _refusals = 0;
    }

    private bool IsTooLong(int length) => length > options.RecordLengthMax;

    private BridgeException NotKept(long offset, int length, string reason, Exception? inner = null) => new(
        BridgeFault.DeadLetters,
        $"The store of dead letters cannot take a record: offset={offset}, length={length}, "
        + $"path={options.StorePath}, dead letters={options.DeadLetterPath}. {reason}",
        inner);
}
