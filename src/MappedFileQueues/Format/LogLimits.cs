namespace MappedFileQueues.Format;

/// <summary>
/// How far a log may go. Above the largest offset there is room for four segments of the largest length, so that no sum of an
/// offset that passed the check and a length overflows; and a log that begins as high as it may can grow by 12 TiB before that.
/// </summary>
internal static class LogLimits
{
    /// <summary>The largest offset that anybody may name; what lies above is nowhere.</summary>
    public const long OffsetMax = long.MaxValue - (4 * StoreMeta.SegmentLengthMax);

    /// <summary>The largest offset at which a log may begin.</summary>
    public const long OriginMax = long.MaxValue - (16 * StoreMeta.SegmentLengthMax);
}
