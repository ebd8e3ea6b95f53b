using System.Buffers.Binary;

namespace MappedFileQueues.Format.Headers;

/// <summary>
/// The times that messages carry. A message without one counts as of the time at which a flush counted it.
/// </summary>
internal static class MessageTimes
{
    /// <summary>The first bytes of a payload that <see cref="TimeOf"/> may read.</summary>
    public const int Reach = HeaderBlock.WordLength + HeaderBlock.TimeLength;

    /// <summary>A message's own time in units of 100 ns since 1970-01-01 UTC; null when it has none.</summary>
    /// <param name="header">The frame's header.</param>
    /// <param name="payload">The first bytes of its payload, up to <see cref="Reach"/>.</param>
    public static long? TimeOf(ulong header, ReadOnlySpan<byte> payload)
    {
        if (!FrameHeader.IsExtended(header) || payload.Length < Reach)
            return null;
        ulong first = BinaryPrimitives.ReadUInt64LittleEndian(payload);
        return (HeaderBlock.Fields(first) & HeaderField.Time) != 0 && HeaderBlock.IsPossible(first)
            ? BinaryPrimitives.ReadInt64LittleEndian(payload[HeaderBlock.WordLength..])
            : null;
    }
}
