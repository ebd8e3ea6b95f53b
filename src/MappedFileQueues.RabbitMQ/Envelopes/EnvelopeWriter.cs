using System.Buffers.Binary;
using System.Diagnostics;
using MappedFileQueues.Format.Headers;

namespace MappedFileQueues.RabbitMQ.Envelopes;

/// <summary>Packs records into one envelope after the other. Its buffer is used again; one thread at a time.</summary>
internal sealed class EnvelopeWriter(Guid storeId, Guid session, int lengthGoal, bool isDurable)
{
    private byte[] _buffer = new byte[EnvelopeLayout.HeaderLength + Math.Max(lengthGoal, 256)];
    private int _length = EnvelopeLayout.HeaderLength;
    private long _from;

    public int Count { get; private set; }

    public long From => _from;

    /// <summary>Begins an envelope that continues where the one before ended.</summary>
    public void Begin(long from)
    {
        _from = from;
        _length = EnvelopeLayout.HeaderLength;
        Count = 0;
    }

    /// <summary>Adds a record; false if it belongs into an envelope of its own, or into the next one.</summary>
    /// <param name="offset">Its offset.</param>
    /// <param name="payload">The message.</param>
    /// <param name="block">Its header block; empty for none.</param>
    public bool TryAdd(long offset, ReadOnlySpan<byte> payload, ReadOnlySpan<byte> block = default)
    {
        Debug.Assert(offset >= _from && (offset - _from) % EnvelopeLayout.PlaceUnit == 0, "Frames are aligned and in order.");
        long place = (offset - _from) / EnvelopeLayout.PlaceUnit;
        int size = payload.Length + EnvelopeLayout.HeadersLength(block.Length);
        long length = (long)_length + EnvelopeLayout.RecordHeaderLength + size;
        // One record always fits, however long it is; only a gap of 32 GiB before it needs an empty envelope first.
        if (place > uint.MaxValue || (Count > 0 && length > EnvelopeLayout.HeaderLength + lengthGoal))
            return false;
        if (length > _buffer.Length)
            Array.Resize(ref _buffer, checked((int)length));
        Span<byte> record = _buffer.AsSpan(_length);
        BinaryPrimitives.WriteUInt32LittleEndian(record, (uint)place);
        BinaryPrimitives.WriteUInt32LittleEndian(
            record[4..], (uint)size | (block.IsEmpty ? 0 : EnvelopeLayout.HasHeaders));
        record = record[EnvelopeLayout.RecordHeaderLength..];
        if (!block.IsEmpty)
        {
            BinaryPrimitives.WriteInt32LittleEndian(record, EnvelopeLayout.HeadersLength(block.Length));
            block.CopyTo(record[sizeof(int)..]);
            HeaderBlock.MarkCarried(record[sizeof(int)..]);
            record = record[EnvelopeLayout.HeadersLength(block.Length)..];
        }

        payload.CopyTo(record);
        _length = (int)length;
        Count++;
        return true;
    }

    /// <summary>Ends the envelope; the memory is valid until the next one begins.</summary>
    public ReadOnlyMemory<byte> End(EnvelopeKind kind, long epoch, long to)
    {
        Span<byte> bytes = _buffer.AsSpan(0, _length);
        EnvelopeLayout.Magic.CopyTo(bytes);
        bytes[4] = EnvelopeLayout.Version;
        bytes[5] = (byte)kind;
        bytes[6] = EnvelopeLayout.HeaderLength;
        bytes[7] = isDurable ? EnvelopeLayout.DurableFlag : (byte)0;
        BinaryPrimitives.WriteInt32LittleEndian(bytes[EnvelopeLayout.Count..], Count);
        storeId.TryWriteBytes(bytes[EnvelopeLayout.StoreId..], bigEndian: true, out _);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[EnvelopeLayout.Epoch..], epoch);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[EnvelopeLayout.From..], _from);
        BinaryPrimitives.WriteInt64LittleEndian(bytes[EnvelopeLayout.To..], to);
        session.TryWriteBytes(bytes[EnvelopeLayout.Session..], bigEndian: true, out _);
        BinaryPrimitives.WriteUInt32LittleEndian(
            bytes[EnvelopeLayout.Checksum..], EnvelopeLayout.ComputeChecksum(bytes[EnvelopeLayout.Checked..]));
        return _buffer.AsMemory(0, _length);
    }
}
