using MappedFileQueues.Format;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Store;

/// <summary>The errors that every walker can meet; their texts are in one place.</summary>
internal static class LogErrors
{
    public static QueueCorruptException Corrupt(SegmentWindow window, long offset, ulong header)
    {
        long start = window.StartOf(offset);
        string file = StoreNames.Segment(start);
        return new QueueCorruptException($"A frame is damaged: offset={offset}, file={file}, "
            + $"state={(uint)FrameHeader.State(header)}, length={FrameHeader.Length(header)}, "
            + $"room={start + window.SegmentLength - offset}, "
            + $"checksum={FrameHeader.HighHalf(header):x8}."
            + " What is before it can be read; restore the file, or run `mfq repair`.", file, offset);
    }

    /// <summary>Nothing can start at an offset that a caller names.</summary>
    public static OffsetOutOfRangeException NoStart(LogView log, long offset) => offset < log.LogStart
        ? new($"The messages at this offset were removed: offset={offset}, logStart={log.LogStart}, path={log.Path}. "
            + "Use the first offset or a later one.")
        : NoFrame(log, offset, "");

    /// <summary>No frame begins at an offset that a caller names.</summary>
    /// <param name="log">The log.</param>
    /// <param name="offset">The offset.</param>
    /// <param name="caller">Whose it is, with a comma and a space; or nothing.</param>
    public static OffsetOutOfRangeException NoFrame(LogView log, long offset, string caller) => new(
        $"The offset is neither a frame's start nor the tail: offset={offset}, logStart={log.LogStart}, {caller}path={log.Path}. "
        + "Use an offset that a read or Produce returned.");

    /// <summary>What an Exclusive producer's claim of the whole log should have made impossible.</summary>
    public static QueueInUseException Foreign(string path, long offset) => new(
        $"Another process appends beside an Exclusive producer: offset={offset}, path={path}. "
        + "The kernel's file locks do not work here; use a local file system.");

    /// <summary>The name of a segment leads to no file, or the segment is gone although messages were seen in it.</summary>
    public static QueueCorruptException Missing(string path, long start, long offset)
    {
        string file = StoreNames.Segment(start);
        return new QueueCorruptException($"A segment is missing: file={file}, offset={offset}, path={path}."
            + " What is before it can be read; restore the file, or run `mfq repair`.", file, offset);
    }

    public static QueueCorruptException Truncated(SegmentMapping segment, long offset)
    {
        string file = StoreNames.Segment(segment.Start);
        long length = Math.Min(segment.Usable, segment.File.Length);
        return new QueueCorruptException($"A segment file is too short: file={file}, length={length}, "
            + $"expected={segment.SegmentLength}, offset={offset}."
            + " What is before it can be read; restore the file, or run `mfq repair`.", file, offset);
    }
}
