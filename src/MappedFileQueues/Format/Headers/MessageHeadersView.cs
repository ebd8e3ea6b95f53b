using System.Buffers.Binary;
using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Text;
using MappedFileQueues.Format.Headers;

namespace MappedFileQueues;

/// <summary>
/// The headers of a message, read in place in the mapping. It is valid as long as the message is. Only
/// <see cref="TryGetTraceContext"/> and <see cref="ToHeaders"/> allocate.
/// </summary>
public readonly ref struct MessageHeadersView
{
    private readonly ReadOnlySpan<byte> _block;
    private readonly ulong _first;

    /// <summary>The headers in a block; none when it is not a possible one.</summary>
    internal MessageHeadersView(ReadOnlySpan<byte> block)
    {
        if (!HeaderBlock.TryGetLength(ref MemoryMarshal.GetReference(block), block.Length, out int length))
            return;
        ulong first = BinaryPrimitives.ReadUInt64LittleEndian(block);
        // Loaded twice, and the mapping may be hostile: what counts is the second value.
        if (!HeaderBlock.IsPossible(first) || (byte)first * HeaderBlock.WordLength != length)
            return;
        _block = block[..length];
        _first = first;
    }

    /// <summary>Whether the message has no headers.</summary>
    public bool IsEmpty => _block.IsEmpty;

    /// <summary>When the message was produced; null when it does not say.</summary>
    public DateTimeOffset? Time => Has(HeaderField.Time) ? ReadTime() : null;

    /// <summary>The key; empty when there is none.</summary>
    public ReadOnlySpan<byte> Key => Has(HeaderField.Key)
        ? _block.Slice(AfterTrace + HeaderBlock.Padded(TraceStateLength), HeaderBlock.KeyLength(_first))
        : default;

    /// <summary>The producer that numbered the message; 0 when there is none.</summary>
    public ulong ProducerId => Has(AnyProducer) ? BinaryPrimitives.ReadUInt64LittleEndian(_block[AfterTime..]) : 0;

    /// <summary>The number that <see cref="ProducerId"/> gave the message.</summary>
    public ulong Sequence => Has(AnyProducer) ? BinaryPrimitives.ReadUInt64LittleEndian(_block[(AfterTime + 8)..]) : 0;

    /// <summary>The bytes of the block, for copies that keep fields which this version does not know.</summary>
    internal ReadOnlySpan<byte> Block => _block;

    /// <summary>What the block holds.</summary>
    internal HeaderField Fields => HeaderBlock.Fields(_first);

    private const HeaderField AnyProducer = HeaderField.Producer | HeaderField.CarriedProducer;

    private int TraceStateLength => HeaderBlock.TraceStateLength(_first);

    private int AfterTime => HeaderBlock.WordLength + (Has(HeaderField.Time) ? HeaderBlock.TimeLength : 0);

    private int AfterProducer => AfterTime + (Has(AnyProducer) ? HeaderBlock.ProducerLength : 0);

    private int AfterTrace => AfterProducer + (Has(HeaderField.Trace) ? HeaderBlock.TraceLength : 0);

    /// <summary>The trace that the message belongs to.</summary>
    /// <param name="context">The trace; remote.</param>
    /// <returns>Whether the message has one.</returns>
    public bool TryGetTraceContext(out ActivityContext context)
    {
        context = default;
        if (!Has(HeaderField.Trace))
            return false;
        ReadOnlySpan<byte> trace = _block.Slice(AfterProducer, HeaderBlock.TraceLength);
        int stateLength = TraceStateLength;
        context = new ActivityContext(
            ActivityTraceId.CreateFromBytes(trace[..16]),
            ActivitySpanId.CreateFromBytes(trace.Slice(16, 8)),
            (ActivityTraceFlags)trace[24],
            stateLength == 0 ? null : Encoding.ASCII.GetString(_block.Slice(AfterTrace, stateLength)),
            isRemote: true);
        return true;
    }

    /// <summary>A copy that the caller owns.</summary>
    /// <returns>The headers.</returns>
    public MessageHeaders ToHeaders()
    {
        TryGetTraceContext(out ActivityContext context);
        return new MessageHeaders
        {
            Time = Time,
            Key = Key.ToArray(),
            TraceContext = context,
            ProducerId = ProducerId,
            Sequence = Sequence,
        };
    }

    private bool Has(HeaderField field) => (Fields & field) != 0;

    private DateTimeOffset ReadTime()
    {
        long ticks = BinaryPrimitives.ReadInt64LittleEndian(_block[HeaderBlock.WordLength..]);
        long epoch = DateTimeOffset.UnixEpoch.Ticks;
        return new DateTimeOffset(Math.Clamp(ticks, -epoch, DateTimeOffset.MaxValue.Ticks - epoch) + epoch, TimeSpan.Zero);
    }
}
