using System.Buffers.Binary;

namespace MappedFileQueues.Tool.VersionOne;

/// <summary>
/// The messages of a store of MappedFileQueues.Stream 1.x: length 4, bytes, 0xFF. A segment is named by the offset at which its
/// predecessor's messages end, so names tell where messages end; what follows there is a byte 0xEE, if the rest of the segment is
/// 6 bytes or more. That byte is not looked at: a message of 238 bytes begins with it too.
/// </summary>
internal sealed class VersionOneMessages : VersionOneReader
{
    private const byte EndMark = 0xFF;
    private const int PrefixLength = sizeof(int);
    private const int LengthMax = 0xFFFFFF;

    /// <exception cref="ToolException">The store holds structs.</exception>
    public VersionOneMessages(VersionOneFolder folder, CancellationToken stopped)
        : base(folder, stopped)
    {
        if (folder.Confirmed is not null)
        {
            throw new ToolException($"The store holds structs: path={folder.Path}, found=producer.confirmed.offset. "
                + "Give --struct-size.");
        }
    }

    protected override bool TryReadNext(out ReadOnlySpan<byte> message, out int length)
    {
        message = default;
        length = 0;
        int index = Folder.FindIndex(NextOffset);
        if (index < 0 || NextOffset >= Folder.Segments[index].End)
        {
            Skip(FindResumption(), "the segment is missing");
            return false;
        }

        VersionOneSegment segment = Folder.Segments[index];
        long limit = Math.Min(segment.End, FindResumption());
        if (Folder.TryRead(segment, NextOffset, PrefixLength, out ReadOnlySpan<byte> prefix)
            && BinaryPrimitives.ReadInt32LittleEndian(prefix) is >= 0 and <= LengthMax and var payload)
        {
            length = PrefixLength + payload + 1;
            if (NextOffset + length <= limit && Folder.TryRead(segment, NextOffset, length, out ReadOnlySpan<byte> all)
                && all[^1] == EndMark)
            {
                message = all[PrefixLength..^1];
                return true;
            }
        }

        Skip(FindResumption(), "a length is wrong, or a message has no end mark");
        return false;
    }
}
