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
    /// <param name="wasCareful">Whether records went one by one.</param>
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
    /// <param name="length">Its length.</param>
    public bool IsHopeless(long from, int length) =>
        length > options.RecordLengthMax || (from == _refusedAt && _refusals >= RefusalsMax);

    /// <summary>Puts a record into the store of dead letters, on disk.</summary>
    public void Keep(long offset, ReadOnlySpan<byte> record)
    {
        if (options.DeadLetterPath is not { } path)
        {
            throw new BridgeException(
                BridgeFault.Refused,
                $"The broker refuses a record: offset={offset}, length={record.Length}, path={options.StorePath}. Name a store "
                + "for such records (DeadLetterPath), or raise the broker's limit.");
        }

        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = path,
            SegmentSize = Math.Max(64L * 1024 * 1024, (record.Length + 8192L) * 2),
            DangerouslyAllowFileSystem = options.DangerouslyAllowFileSystem,
        });
        queue.Producer.Produce(record);
        queue.Flush();
        _refusals = 0;
    }
}
