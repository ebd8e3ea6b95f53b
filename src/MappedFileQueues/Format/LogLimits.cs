namespace MappedFileQueues.Format;

/// <summary>
/// The limits of a log's offsets, which a cursor's word has 57 bits for. Above the largest offset there is room for four
/// segments of the largest length, so no frame's end is beyond those bits, and no sum of a checked offset and a length
/// overflows.
/// </summary>
internal static class LogLimits
{
    /// <summary>The largest offset that a caller may name; nothing is above it.</summary>
    public const long OffsetMax = CursorWord.OffsetEnd - (4 * StoreMeta.SegmentLengthMax);

    /// <summary>
    /// How much longer than a segment the file of a recycled one is. After what is allocated it may hold bytes of the segment
    /// that it was before.
    /// </summary>
    public const long RecycledMark = 4096;
}
