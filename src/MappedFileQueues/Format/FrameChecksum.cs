using System.Runtime.CompilerServices;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Format;

/// <summary>
/// The checksum in a frame's high half. It covers the log id (the seed), the frame's offset, the low half of the header and
/// the payload, so a stale frame, a frame of another log and a frame at another offset never pass. The first step mixes
/// (offset / 8) with the low half in the upper 32 bits: offsets beyond 2^35 fold into it by exclusive or.
/// </summary>
internal readonly struct FrameChecksum
{
    private readonly uint _seed;

    /// <param name="logId"><see cref="StoreMeta.LogId"/>.</param>
    public FrameChecksum(Guid logId)
    {
        Span<byte> id = stackalloc byte[16];
        logId.TryWriteBytes(id);
        _seed = Crc32C.Append(uint.MaxValue, ref id[0], id.Length);
    }

    /// <summary>
    /// The value after the first step. Continue from it over the payload; for padding it is the whole checksum.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public uint Begin(long offset, uint lowHalf)
    {
        ulong place = PlantedFaults.Has(PlantedFault.ChecksumWithoutOffset) ? 0 : (ulong)offset >> 3;
        if (PlantedFaults.Has(PlantedFault.BlockNotInChecksum))
            lowHalf &= ~FrameHeader.Extended;
        return (uint)Crc32C.Step(_seed, place ^ ((ulong)lowHalf << 32));
    }

    /// <summary>The whole header of a padding frame.</summary>
    /// <exception cref="ArgumentOutOfRangeException">A single frame cannot be this long.</exception>
    public ulong PaddingHeader(long offset, long frameLength)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThan(frameLength, FrameHeader.FrameLengthMax);
        uint low = FrameHeader.LowHalf((int)(frameLength - FrameHeader.Size), FrameState.Padding);
        return FrameHeader.Make(low, Begin(offset, low));
    }

    /// <summary>Whether a message or padding is whole.</summary>
    public bool Matches(ulong header, long offset, ref byte payload)
    {
        uint crc = Begin(offset, (uint)header);
        if (FrameHeader.State(header) != FrameState.Padding)
            crc = Crc32C.Append(crc, ref payload, FrameHeader.Length(header));
        return crc == FrameHeader.HighHalf(header);
    }
}
