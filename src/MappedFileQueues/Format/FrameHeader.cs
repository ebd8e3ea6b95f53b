using System.Runtime.CompilerServices;

namespace MappedFileQueues.Format;

/// <summary>The state of a frame: bits 28 to 30 of its header.</summary>
internal enum FrameState : uint
{
    /// <summary>Nothing was ever written here: the whole header is zero.</summary>
    Free = 0,

    /// <summary>Reserved by the owner named in the high half; the payload is being written.</summary>
    Claimed = 1,

    /// <summary>A message.</summary>
    Published = 2,

    /// <summary>Not a message: the rest of a segment, an abandoned claim, or a dead producer's claim.</summary>
    Padding = 3,

    /// <summary>A message whose batch continues with the next frame.</summary>
    PublishedInBatch = 4,
}

/// <summary>
/// The header in front of every payload: one aligned little-endian 64-bit word, so that one store publishes it.
/// <code>
///  63                      32 31 30   28 27                     0
/// ┌──────────────────────────┬──┬───────┬────────────────────────┐
/// │ CRC-32C, or owner (slot  │ E│ state │ payload length in bytes │
/// │ 12 bits, generation 20)  │  │       │                        │
/// └──────────────────────────┴──┴───────┴────────────────────────┘
/// </code>
/// E: the payload begins with a header block (HeaderBlock). A frame is header + payload + zeros up to a multiple of 8 bytes.
/// </summary>
internal static class FrameHeader
{
    /// <summary>Length of the header in bytes; also the alignment of frames and the smallest frame.</summary>
    public const int Size = 8;

    /// <summary>The largest payload that 28 bits and 8-byte alignment allow, whatever the segment's length.</summary>
    public const int PayloadLengthMax = (1 << 28) - Size;

    /// <summary>The longest frame, of a message or of padding, in bytes.</summary>
    public const long FrameLengthMax = 1L << 28;

    public const uint LengthMask = 0x0FFF_FFFF;
    public const uint StateMask = 0x7000_0000;
    public const uint Extended = 0x8000_0000;
    private const int StateShift = 28;

    /// <summary>A bit for each value of E and the state: every state but Free, and the two of messages with a block.</summary>
    private const uint PossibleKinds = 0b0001_0100_0001_1110;

    /// <summary>The largest payload of a frame (and the longest claim of a batch) in segments of this length.</summary>
    public static int PayloadLimit(long segmentLength) => (int)Math.Min(segmentLength - Size, PayloadLengthMax);

    /// <summary>Bytes from a frame's header to the next one.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static long FrameLength(int payloadLength) => ((long)payloadLength + Size + 7) & ~7L;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint LowHalf(int payloadLength, FrameState state) => (uint)payloadLength | ((uint)state << StateShift);

    /// <summary>As the other form, for a payload that begins with a header block; of length 0 when there is none.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint LowHalf(int payloadLength, FrameState state, int blockLength) =>
        LowHalf(payloadLength, state) | (blockLength == 0 ? 0 : Extended);

    /// <summary>Whether the payload begins with a header block.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static bool IsExtended(ulong header) => ((uint)header & Extended) != 0;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong Make(uint lowHalf, uint highHalf) => lowHalf | ((ulong)highHalf << 32);

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static int Length(ulong header) => (int)((uint)header & LengthMask);

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static FrameState State(ulong header) => (FrameState)(((uint)header & StateMask) >> StateShift);

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint HighHalf(ulong header) => (uint)(header >> 32);

    /// <summary>A message, single or in a batch.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static bool IsMessage(FrameState state) => state is FrameState.Published or FrameState.PublishedInBatch;

    /// <summary>
    /// Whether a header that is not free can be where <paramref name="room"/> bytes are left in the segment. Content of the
    /// file is hostile, so each of these is damage: an unknown state, a zero state with a length, a header block in anything but
    /// a message, and a frame beyond the end.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static bool IsPlausible(ulong header, long room)
    {
        return ((PossibleKinds >> (int)((uint)header >> StateShift)) & 1) != 0 && FrameLength(Length(header)) <= room;
    }
}
