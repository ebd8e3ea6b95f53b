using System.Buffers.Binary;
using System.Numerics;

namespace MappedFileQueues.RabbitMQ.Envelopes;

/// <summary>
/// What is where in an envelope, the body of one broker message; all numbers little-endian. docs/BRIDGE.md is the
/// specification, with examples.
/// <code>
///  0  4  "MFQE"
///  4  1  version, 1
///  5  1  kind
///  6  1  length of the header, 72: the records begin there
///  7  1  flags; bit 0: the records were on the source's disk before they left
///  8  4  CRC-32C of everything from byte 12 on
/// 12  4  number of records
/// 16 16  store id, in the order of bytes of RFC 4122
/// 32  8  epoch of the store
/// 40  8  from: the offset up to which the envelope before this one went
/// 48  8  to: everything of the store before this offset is in this envelope or an earlier one
/// 56 16  session of the forwarder
/// 72     records: 4 bytes place, (offset - from) / 8; 4 bytes length, bit 31: headers precede the payload; the bytes
/// </code>
/// </summary>
internal static class EnvelopeLayout
{
    public const int Version = 1;
    public const int Checksum = 8;
    public const int Checked = 12;
    public const int Count = 12;
    public const int StoreId = 16;
    public const int Epoch = 32;
    public const int From = 40;
    public const int To = 48;
    public const int Session = 56;
    public const int HeaderLength = 72;
    public const int RecordHeaderLength = 8;
    public const int PlaceUnit = 8;

    /// <summary>
    /// In a record's length: its bytes begin with headers. The first four of them are their length, these included; then comes
    /// the header block of the store's format.
    /// </summary>
    public const uint HasHeaders = 1u << 31;

    public const byte DurableFlag = 1;

    /// <summary>What the headers of a record take, with their length; 0 for none.</summary>
    public static int HeadersLength(int blockLength) => blockLength == 0 ? 0 : sizeof(uint) + blockLength;

    public static ReadOnlySpan<byte> Magic => "MFQE"u8;

    /// <summary>Whether it is an envelope, and not of this version.</summary>
    public static bool IsOfAnotherVersion(ReadOnlySpan<byte> body) =>
        body.Length > Magic.Length && body.StartsWith(Magic) && body[Magic.Length] != Version;

    /// <summary>
    /// What tells a broker message from another one: an envelope's own checksum, which is computed anyway when it is parsed, or
    /// that of the whole body.
    /// </summary>
    public static uint Identify(ReadOnlySpan<byte> body) =>
        body.Length >= HeaderLength && body.StartsWith(Magic) && body[Magic.Length] == Version
            ? BinaryPrimitives.ReadUInt32LittleEndian(body[Checksum..])
            : ComputeChecksum(body);

    /// <summary>CRC-32C (Castagnoli), as in storage formats: start and end inverted.</summary>
    public static uint ComputeChecksum(ReadOnlySpan<byte> bytes)
    {
        uint crc = uint.MaxValue;
        for (; bytes.Length >= sizeof(ulong); bytes = bytes[sizeof(ulong)..])
            crc = BitOperations.Crc32C(crc, BinaryPrimitives.ReadUInt64LittleEndian(bytes));
        foreach (byte value in bytes)
            crc = BitOperations.Crc32C(crc, value);
        return ~crc;
    }
}
