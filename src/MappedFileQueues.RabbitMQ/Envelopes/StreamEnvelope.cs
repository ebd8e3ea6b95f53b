using System.Buffers.Binary;
using MappedFileQueues.Format;
using MappedFileQueues.RabbitMQ.Envelopes;

namespace MappedFileQueues.RabbitMQ;

/// <summary>
/// What one broker message holds: a range of a store with the messages in it. For programs that read a stream themselves.
/// Reading it allocates nothing; the records are in the body's memory.
/// </summary>
public readonly struct StreamEnvelope
{
    private readonly ReadOnlyMemory<byte> _records;

    private StreamEnvelope(ReadOnlySpan<byte> header, ReadOnlyMemory<byte> records)
    {
        Kind = (EnvelopeKind)header[5];
        IsDurable = (header[7] & EnvelopeLayout.DurableFlag) != 0;
        Count = BinaryPrimitives.ReadInt32LittleEndian(header[EnvelopeLayout.Count..]);
        StoreId = new Guid(header.Slice(EnvelopeLayout.StoreId, 16), bigEndian: true);
        Epoch = BinaryPrimitives.ReadInt64LittleEndian(header[EnvelopeLayout.Epoch..]);
        From = BinaryPrimitives.ReadInt64LittleEndian(header[EnvelopeLayout.From..]);
        To = BinaryPrimitives.ReadInt64LittleEndian(header[EnvelopeLayout.To..]);
        Session = new Guid(header.Slice(EnvelopeLayout.Session, 16), bigEndian: true);
        _records = records;
    }

    /// <summary>What the envelope is for.</summary>
    public EnvelopeKind Kind { get; }

    /// <summary>
    /// Whether the records were on the source's disk before they left, so that no power loss took them back there.
    /// </summary>
    public bool IsDurable { get; }

    /// <summary>The number of records.</summary>
    public int Count { get; }

    /// <summary>The id of the store that the records come from.</summary>
    public Guid StoreId { get; }

    /// <summary>The store's epoch: a power loss that took messages away raises it.</summary>
    public long Epoch { get; }

    /// <summary>Where the store's envelope before this one ended. A reader that has seen less has missed something.</summary>
    public long From { get; }

    /// <summary>The offset up to which the store is in the stream with this envelope.</summary>
    public long To { get; }

    /// <summary>The forwarder's session, chosen at random each time it gets the lock.</summary>
    public Guid Session { get; }

    /// <summary>
    /// Reads a broker message. Everything in it is checked before it returns: the records cannot be wrong after it.
    /// </summary>
    /// <param name="body">The body of the broker message; the envelope refers to it.</param>
    /// <returns>The envelope.</returns>
    /// <exception cref="EnvelopeFormatException">The body is no envelope of a known version, or its bytes are
    /// damaged.</exception>
    public static StreamEnvelope Parse(ReadOnlyMemory<byte> body)
    {
        ReadOnlySpan<byte> bytes = body.Span;
        if (bytes.Length < EnvelopeLayout.HeaderLength || !bytes.StartsWith(EnvelopeLayout.Magic))
            throw Bad("It is no envelope", bytes);
        if (bytes[4] != EnvelopeLayout.Version)
            throw Bad($"Its version is unknown: version={bytes[4]}", bytes);
        int headerLength = bytes[6];
        if (headerLength < EnvelopeLayout.HeaderLength || headerLength > bytes.Length)
            throw Bad($"Its header is too short or too long: header={headerLength}", bytes);
        uint checksum = BinaryPrimitives.ReadUInt32LittleEndian(bytes[EnvelopeLayout.Checksum..]);
        if (checksum != EnvelopeLayout.ComputeChecksum(bytes[EnvelopeLayout.Checked..]))
            throw Bad("Its checksum is wrong", bytes);
        StreamEnvelope envelope = new(bytes[..EnvelopeLayout.HeaderLength], body[headerLength..]);
        if (envelope.Kind is not (EnvelopeKind.Records or EnvelopeKind.Marker))
            throw Bad($"Its kind is unknown: kind={(int)envelope.Kind}", bytes);
        if (envelope.From < 0 || envelope.To < envelope.From || envelope.Count < 0)
            throw Bad($"Its range is wrong: from={envelope.From}, to={envelope.To}, records={envelope.Count}", bytes);
        envelope.CheckRecords();
        return envelope;
    }

    /// <summary>Enumerates the records, in the order of their offsets.</summary>
    /// <returns>The enumerator, for one foreach.</returns>
    public Enumerator GetEnumerator() => new(_records, Count, From);

    private static EnvelopeFormatException Bad(string what, ReadOnlySpan<byte> body) => new(
        $"A broker message cannot be read. {what}, length={body.Length}. Was it written by another program?");

    private void CheckRecords()
    {
        ReadOnlySpan<byte> rest = _records.Span;
        long last = From - 1;
        long end = From;
        for (int index = 0; index < Count; index++)
        {
            if (rest.Length < EnvelopeLayout.RecordHeaderLength)
                throw Bad($"It ends within a record: record={index}", _records.Span);
            long offset = Offset(From, rest);
            uint word = BinaryPrimitives.ReadUInt32LittleEndian(rest[4..]);
            uint size = word & ~EnvelopeLayout.HasHeaders;
            rest = rest[EnvelopeLayout.RecordHeaderLength..];
            if (size > (uint)rest.Length || offset <= last || offset >= To)
                throw Bad($"A record does not fit: record={index}, offset={offset}, size={size}", _records.Span);
            if ((word & EnvelopeLayout.HasHeaders) != 0 && !AreHeadersWithin(rest[..(int)size]))
                throw Bad($"The headers of a record do not fit: record={index}", _records.Span);
            rest = rest[(int)size..];
            (last, end) = (offset, offset + size);
        }

        // A reader leaves out whatever comes before To as fetched already. After the last record there is padding at most, and
        // that ends with its segment.
        if (To - end > StoreMeta.SegmentLengthMax || (From | To) % EnvelopeLayout.PlaceUnit != 0)
            throw Bad($"Its records do not explain its range: from={From}, to={To}, records={Count}", _records.Span);

        if (rest.Length > 0)
            throw Bad($"Bytes follow its last record: bytes={rest.Length}", _records.Span);
    }

    private static bool AreHeadersWithin(ReadOnlySpan<byte> record) =>
        record.Length >= sizeof(uint) && BinaryPrimitives.ReadUInt32LittleEndian(record) is >= sizeof(uint) and var length
        && length <= (uint)record.Length;

    private static long Offset(long from, ReadOnlySpan<byte> record) =>
        from + ((long)BinaryPrimitives.ReadUInt32LittleEndian(record) * EnvelopeLayout.PlaceUnit);

    /// <summary>Steps through the records of an envelope.</summary>
    public struct Enumerator
    {
        private readonly ReadOnlyMemory<byte> _records;
        private readonly long _from;
        private int _left;
        private int _next;

        internal Enumerator(ReadOnlyMemory<byte> records, int count, long from) =>
            (_records, _left, _from) = (records, count, from);

        /// <summary>The record.</summary>
        public EnvelopeRecord Current { get; private set; }

        /// <summary>Moves to the next record.</summary>
        /// <returns>Whether there is one.</returns>
        public bool MoveNext()
        {
            if (_left-- <= 0)
                return false;
            ReadOnlySpan<byte> bytes = _records.Span[_next..];
            uint word = BinaryPrimitives.ReadUInt32LittleEndian(bytes[4..]);
            int size = (int)(word & ~EnvelopeLayout.HasHeaders);
            int headers = (word & EnvelopeLayout.HasHeaders) == 0
                ? 0 : BinaryPrimitives.ReadInt32LittleEndian(bytes[EnvelopeLayout.RecordHeaderLength..]);
            int start = _next + EnvelopeLayout.RecordHeaderLength;
            Current = new EnvelopeRecord(
                Offset(_from, bytes),
                headers == 0 ? default : _records.Slice(start + sizeof(int), headers - sizeof(int)),
                _records.Slice(start + headers, size - headers));
            _next = start + size;
            return true;
        }
    }
}
