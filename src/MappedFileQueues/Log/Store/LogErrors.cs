using MappedFileQueues.Format;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>The errors that every walker can meet; their texts are in one place.</summary>
internal static class LogErrors
{
    public static QueueCorruptException Corrupt(SegmentWindow window, long offset, ulong header, long room)
    {
        string file = StoreNames.Segment(window.StartOf(offset));
        return new QueueCorruptException($"A frame is damaged: offset={offset}, file={file}, "
            + $"state={(uint)FrameHeader.State(header)}, length={FrameHeader.Length(header)}, room={room}, "
            + $"checksum={FrameHeader.HighHalf(header):x8}."
            + " What lies before it can be read; restore the file, or run `mfq repair`.", file, offset);
    }

    /// <summary>The name of a segment leads to no file, or the segment is gone although messages were seen in it.</summary>
    public static QueueCorruptException Missing(string path, long start, long offset)
    {
        string file = StoreNames.Segment(start);
        return new QueueCorruptException($"A segment is missing: file={file}, offset={offset}, path={path}."
            + " What lies before it can be read; restore the file, or run `mfq repair`.", file, offset);
    }

    public static QueueCorruptException Truncated(SegmentMapping segment, long offset)
    {
        string file = StoreNames.Segment(segment.Start);
        long length = Math.Min(segment.Usable, segment.File.Length);
        return new QueueCorruptException($"A segment file is too short: file={file}, length={length}, "
            + $"expected={segment.SegmentLength}, offset={offset}."
            + " What lies before it can be read; restore the file, or run `mfq repair`.", file, offset);
    }
}
