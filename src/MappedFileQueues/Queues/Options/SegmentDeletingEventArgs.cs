namespace MappedFileQueues;

/// <summary>Tells of a segment that is about to be removed.</summary>
public sealed class SegmentDeletingEventArgs : EventArgs
{
    internal SegmentDeletingEventArgs(string path, long offset, long endOffset) =>
        (Path, Offset, EndOffset) = (path, offset, endOffset);

    /// <summary>
    /// The segment's file. A handler may read it, copy it, or make a hard link to it: then the file is not recycled.
    /// </summary>
    public string Path { get; }

    /// <summary>The offset of the segment's first byte.</summary>
    public long Offset { get; }

    /// <summary>The offset after its last byte.</summary>
    public long EndOffset { get; }
}
