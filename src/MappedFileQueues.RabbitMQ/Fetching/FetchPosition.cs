using System.Buffers.Binary;
using System.Text;
using MappedFileQueues.RabbitMQ.Envelopes;

namespace MappedFileQueues.RabbitMQ.Fetching;

/// <summary>Up to where a source has been fetched.</summary>
/// <param name="Epoch">Its epoch.</param>
/// <param name="To">Everything before this offset.</param>
internal readonly record struct SourcePlace(long Epoch, long To);

/// <summary>
/// Which place in the stream belongs to which offset of the target store. Everything before that offset is on disk, and came
/// from before that place.
/// </summary>
/// <param name="StoreId">The target store.</param>
/// <param name="Stream">The stream's name.</param>
/// <param name="TargetOffset">The offset in the target store.</param>
/// <param name="StreamOffset">The last broker message that is done; -1 before the first.</param>
/// <param name="Checksum">What that message is known by again (<see cref="EnvelopeLayout.Identify"/>).</param>
/// <param name="Sources">Up to where each source had been fetched.</param>
internal sealed record FetchPosition(
    Guid StoreId,
    string Stream,
    long TargetOffset,
    long StreamOffset,
    uint Checksum,
    IReadOnlyDictionary<Guid, SourcePlace> Sources)
{
    private const int Version = 1;
    private const int Checked = 8;
    private const int FixedLength = 64;
    private const int SourceLength = 32;

    private static ReadOnlySpan<byte> Magic => "MFP\u0001"u8;

    /// <summary>The bytes, with a number that tells the newer of two.</summary>
    public byte[] ToBytes(long sequence)
    {
        byte[] name = Encoding.UTF8.GetBytes(Stream);
        byte[] bytes = new byte[FixedLength + name.Length + (Sources.Count * SourceLength)];
        Span<byte> span = bytes;
        Magic.CopyTo(span);
        BinaryPrimitives.WriteInt32LittleEndian(span[8..], bytes.Length);
        BinaryPrimitives.WriteInt64LittleEndian(span[12..], sequence);
        StoreId.TryWriteBytes(span[20..], bigEndian: true, out _);
        BinaryPrimitives.WriteInt64LittleEndian(span[36..], TargetOffset);
        BinaryPrimitives.WriteInt64LittleEndian(span[44..], StreamOffset);
        BinaryPrimitives.WriteUInt32LittleEndian(span[52..], Checksum);
        BinaryPrimitives.WriteInt32LittleEndian(span[56..], name.Length);
        BinaryPrimitives.WriteInt32LittleEndian(span[60..], Sources.Count);
        name.CopyTo(span[FixedLength..]);
        span = span[(FixedLength + name.Length)..];
        foreach ((Guid id, SourcePlace place) in Sources)
        {
            id.TryWriteBytes(span, bigEndian: true, out _);
            BinaryPrimitives.WriteInt64LittleEndian(span[16..], place.Epoch);
            BinaryPrimitives.WriteInt64LittleEndian(span[24..], place.To);
            span = span[SourceLength..];
        }

        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(4), EnvelopeLayout.ComputeChecksum(bytes.AsSpan(Checked)));
        return bytes;
    }

    /// <summary>Reads one; null if the bytes are no whole position, as after a death in the middle of writing it.</summary>
    public static FetchPosition? Read(ReadOnlySpan<byte> bytes, out long sequence)
    {
        sequence = -1;
        if (bytes.Length < FixedLength || !bytes.StartsWith(Magic) || Magic[3] != Version)
            return null;
        int length = BinaryPrimitives.ReadInt32LittleEndian(bytes[8..]);
        if (length < FixedLength || length > bytes.Length
            || BinaryPrimitives.ReadUInt32LittleEndian(bytes[4..]) != EnvelopeLayout.ComputeChecksum(bytes[Checked..length]))
            return null;
        int nameLength = BinaryPrimitives.ReadInt32LittleEndian(bytes[56..]);
        int count = BinaryPrimitives.ReadInt32LittleEndian(bytes[60..]);
        if (nameLength < 0 || count < 0 || FixedLength + (long)nameLength + ((long)count * SourceLength) != length)
            return null;
        sequence = BinaryPrimitives.ReadInt64LittleEndian(bytes[12..]);
        Dictionary<Guid, SourcePlace> sources = [];
        for (int index = 0; index < count; index++)
        {
            ReadOnlySpan<byte> source = bytes.Slice(FixedLength + nameLength + (index * SourceLength), SourceLength);
            sources[new Guid(source[..16], bigEndian: true)] = new SourcePlace(
                BinaryPrimitives.ReadInt64LittleEndian(source[16..]), BinaryPrimitives.ReadInt64LittleEndian(source[24..]));
        }

        return new FetchPosition(
            new Guid(bytes.Slice(20, 16), bigEndian: true),
            Encoding.UTF8.GetString(bytes.Slice(FixedLength, nameLength)),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[36..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[44..]),
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[52..]),
            sources);
    }
}
