using System.Runtime.CompilerServices;

namespace MappedFileQueues.Format.Headers;

/// <summary>What a header block holds; bits 16 to 31 of its first word.</summary>
[Flags]
internal enum HeaderField : uint
{
    None = 0,

    /// <summary>When the message was produced.</summary>
    Time = 1,

    /// <summary>The producer that wrote the message, and the message's sequence.</summary>
    Producer = 2,

    /// <summary>The same, of a message that was copied from another store.</summary>
    CarriedProducer = 4,

    /// <summary>The trace that the message belongs to.</summary>
    Trace = 8,

    Key = 16,
}

/// <summary>
/// The header block: in a frame with bit 31 (<see cref="FrameHeader.Extended"/>) the payload begins with it, and the message
/// follows. It is a multiple of 8 bytes, so the message stays aligned and the checksum continues in whole steps. Little-endian:
/// <code>
/// word 0    bits 0-7    length of the block in 8-byte words, this one included: 1 to 255
///           bits 8-15   zero
///           bits 16-31  fields (<see cref="HeaderField"/>); Producer and CarriedProducer never together
///           bits 32-47  length of the key in bytes, at most 1,024
///           bits 48-63  length of the trace state in bytes, at most 512
/// then, in this order, what the fields name:
///  8 bytes  time: 100 ns since 1970-01-01 UTC, signed
/// 16 bytes  producer: id, sequence
/// 32 bytes  trace: trace id 16, span id 8, flags 1, seven zeros
/// trace state: ASCII, zeros up to a multiple of 8
/// key: zeros up to a multiple of 8
/// </code>
/// A reader ignores fields that it does not know: they get higher bits, and follow those that it knows. A block that is longer
/// than the payload, or shorter than its known fields, is damage.
/// </summary>
internal static class HeaderBlock
{
    /// <summary>The length of the longest block in bytes.</summary>
    public const int LengthMax = byte.MaxValue * WordLength;

    /// <summary>The longest key in bytes.</summary>
    public const int KeyLengthMax = 1024;

    /// <summary>The longest trace state in bytes.</summary>
    public const int TraceStateLengthMax = 512;

    public const int WordLength = 8;
    public const int TimeLength = 8;
    public const int ProducerLength = 16;
    public const int TraceLength = 32;

    private const int FieldsShift = 16;
    private const int KeyShift = 32;
    private const int TraceStateShift = 48;

    /// <summary>The first word of a block without fields.</summary>
    public const ulong Possible = 1;

    /// <summary>The first word of a block.</summary>
    public static ulong FirstWord(int length, HeaderField fields, int keyLength, int traceStateLength) =>
        ((uint)length / WordLength) | ((ulong)fields << FieldsShift)
        | ((ulong)(uint)keyLength << KeyShift) | ((ulong)(uint)traceStateLength << TraceStateShift);

    public static HeaderField Fields(ulong firstWord) => (HeaderField)(ushort)(firstWord >> FieldsShift);

    public static int KeyLength(ulong firstWord) => (ushort)(firstWord >> KeyShift);

    public static int TraceStateLength(ulong firstWord) => (ushort)(firstWord >> TraceStateShift);

    /// <summary>Bytes that a field of any length takes.</summary>
    public static int Padded(int length) => (length + WordLength - 1) & -WordLength;

    /// <summary>The length of the known fields, with the first word.</summary>
    public static int KnownLength(HeaderField fields, int keyLength, int traceStateLength) =>
        WordLength
        + ((fields & HeaderField.Time) != 0 ? TimeLength : 0)
        + ((fields & (HeaderField.Producer | HeaderField.CarriedProducer)) != 0 ? ProducerLength : 0)
        + ((fields & HeaderField.Trace) != 0 ? TraceLength : 0)
        + Padded(traceStateLength)
        + Padded(keyLength);

    /// <summary>
    /// The length of the block that a payload begins with; false when none can begin there. The bytes may be hostile: the length
    /// is loaded once, and is at most the payload's.
    /// </summary>
    public static bool TryGetLength(ref byte payload, int payloadLength, out int length)
    {
        ulong known = Possible;
        return TryGetLength(ref payload, payloadLength, ref known, out length);
    }

    /// <summary>The same, in half the time for a block with the fields and lengths of the one before.</summary>
    /// <param name="payload">The payload.</param>
    /// <param name="payloadLength">Its length.</param>
    /// <param name="known">A first word that is possible: the one before, or <see cref="Possible"/>.</param>
    /// <param name="length">The block's length.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static bool TryGetLength(ref byte payload, int payloadLength, ref ulong known, out int length)
    {
        length = 0;
        if (payloadLength < WordLength)
            return false;
        ulong first = Unsafe.ReadUnaligned<ulong>(ref payload);
        length = (byte)first * WordLength;
        if (length > payloadLength)
            return false;
        if (first == known)
            return true;
        if (!IsPossible(first))
            return false;
        known = first;
        return true;
    }

    /// <summary>
    /// Turns the producer of a copied block into a carried one: only the store that a producer writes to may believe its numbers.
    /// </summary>
    public static void MarkCarried(Span<byte> block)
    {
        const byte producer = (byte)HeaderField.Producer;
        ref byte fields = ref block[FieldsShift / 8];
        if ((fields & producer) != 0)
            fields = (byte)((fields & ~producer) | (byte)HeaderField.CarriedProducer);
    }

    /// <summary>Whether a first word's length holds the fields that it names.</summary>
    public static bool IsPossible(ulong firstWord)
    {
        const HeaderField bothProducers = HeaderField.Producer | HeaderField.CarriedProducer;
        HeaderField fields = Fields(firstWord);
        int keyLength = KeyLength(firstWord);
        int traceStateLength = TraceStateLength(firstWord);
        return (fields & bothProducers) != bothProducers
            && keyLength <= KeyLengthMax && (keyLength == 0 || (fields & HeaderField.Key) != 0)
            && traceStateLength <= TraceStateLengthMax && (traceStateLength == 0 || (fields & HeaderField.Trace) != 0)
            && KnownLength(fields, keyLength, traceStateLength) <= (byte)firstWord * WordLength;
    }
}
