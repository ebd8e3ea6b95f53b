using System.Buffers.Binary;
using System.Diagnostics;
using System.Text;

namespace MappedFileQueues.Format.Headers;

/// <summary>A producer's id and its sequence for a message; the default value for none.</summary>
internal readonly record struct MessageNumber(ulong ProducerId, ulong Sequence)
{
    /// <summary>That of a later message of the same batch.</summary>
    public MessageNumber Next(int index) => ProducerId == 0 ? default : this with { Sequence = Sequence + (ulong)index };
}

/// <summary>The fields of a header block that is to be written. Without any there is no block.</summary>
internal readonly ref struct HeaderFields
{
    private readonly HeaderField _fields;
    private readonly long _time;
    private readonly ulong _producerId;
    private readonly ulong _sequence;
    private readonly ActivityContext _trace;
    private readonly ReadOnlySpan<char> _traceState;
    private readonly ReadOnlySpan<byte> _key;

    /// <param name="headers">What the caller gave; may be null.</param>
    /// <param name="stampedTime">The time of a message without one; null to leave it out.</param>
    /// <param name="current">The trace of a message without one; default to leave it out.</param>
    /// <param name="number">Of a producer with an id; it takes the place of a carried one.</param>
    public HeaderFields(
        MessageHeaders? headers,
        DateTimeOffset? stampedTime = null,
        ActivityContext current = default,
        MessageNumber number = default)
    {
        if ((headers?.Time ?? stampedTime) is { } time)
        {
            _fields |= HeaderField.Time;
            _time = time.UtcTicks - DateTimeOffset.UnixEpoch.Ticks;
        }

        if (number.ProducerId != 0)
        {
            _fields |= HeaderField.Producer;
            (_producerId, _sequence) = (number.ProducerId, number.Sequence);
        }
        else if (headers is { ProducerId: not 0 })
        {
            _fields |= HeaderField.CarriedProducer;
            (_producerId, _sequence) = (headers.ProducerId, headers.Sequence);
        }

        _trace = headers is not null && headers.TraceContext.TraceId != default ? headers.TraceContext : current;
        if (_trace.TraceId != default && _trace.SpanId != default)
        {
            _fields |= HeaderField.Trace;
            ReadOnlySpan<char> state = _trace.TraceState;
            _traceState = state.Length <= HeaderBlock.TraceStateLengthMax && Ascii.IsValid(state) ? state : default;
        }

        _key = headers is null ? default : headers.Key.Span;
        if (_key.Length > 0)
            _fields |= HeaderField.Key;
    }

    /// <summary>The length of the block in bytes; 0 when there is none.</summary>
    public int BlockLength =>
        _fields == HeaderField.None ? 0 : HeaderBlock.KnownLength(_fields, _key.Length, _traceState.Length);

    /// <summary>Writes the block; returns what was written.</summary>
    public ReadOnlySpan<byte> Write(Span<byte> destination)
    {
        int length = BlockLength;
        if (length == 0)
            return default;
        BinaryPrimitives.WriteUInt64LittleEndian(
            destination, HeaderBlock.FirstWord(length, _fields, _key.Length, _traceState.Length));
        int at = HeaderBlock.WordLength;
        if ((_fields & HeaderField.Time) != 0)
        {
            BinaryPrimitives.WriteInt64LittleEndian(destination[at..], _time);
            at += HeaderBlock.TimeLength;
        }

        if ((_fields & (HeaderField.Producer | HeaderField.CarriedProducer)) != 0)
        {
            BinaryPrimitives.WriteUInt64LittleEndian(destination[at..], _producerId);
            BinaryPrimitives.WriteUInt64LittleEndian(destination[(at + 8)..], _sequence);
            at += HeaderBlock.ProducerLength;
        }

        if ((_fields & HeaderField.Trace) != 0)
        {
            Span<byte> trace = destination.Slice(at, HeaderBlock.TraceLength);
            trace.Clear();
            _trace.TraceId.CopyTo(trace[..16]);
            _trace.SpanId.CopyTo(trace.Slice(16, 8));
            trace[24] = (byte)_trace.TraceFlags;
            at += HeaderBlock.TraceLength;
            Span<byte> state = destination.Slice(at, HeaderBlock.Padded(_traceState.Length));
            state.Clear();
            Encoding.ASCII.GetBytes(_traceState, state);
            at += state.Length;
        }

        if (_key.Length > 0)
        {
            Span<byte> key = destination.Slice(at, HeaderBlock.Padded(_key.Length));
            key[^HeaderBlock.WordLength..].Clear();
            _key.CopyTo(key);
            at += key.Length;
        }

        Debug.Assert(at == length);
        return destination[..length];
    }
}
