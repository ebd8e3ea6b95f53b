namespace MappedFileQueues.Packs;

/// <summary>How a pack is read. The values are copied when it is opened.</summary>
public sealed class PackReaderOptions
{
    /// <summary>
    /// Default true: each call first looks for what the writer has added, which costs two or three calls of the system. False:
    /// the
    /// reader sees the pack as of the opening, or of the last <see cref="PackReader.Refresh"/>.
    /// </summary>
    public bool FollowWriter { get; set; } = true;

    /// <inheritdoc cref="PackOptions.MapVolumes"/>
    public bool MapVolumes { get; set; } = true;

    /// <inheritdoc cref="PackOptions.AllowStaleValues"/>
    public bool AllowStaleValues { get; set; }
}
