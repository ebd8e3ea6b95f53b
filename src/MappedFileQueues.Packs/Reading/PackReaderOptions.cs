namespace MappedFileQueues.Packs;

/// <summary>How to read a pack. Opening a pack copies the values.</summary>
public sealed class PackReaderOptions
{
    /// <summary>
    /// With true (the default) each call first looks for what the writer has added, which costs two or three system calls (on
    /// Portable, or without a checkpoint, it also lists the volumes). With false the reader sees the pack as of the opening, or
    /// of the last <see cref="PackReader.Refresh"/>.
    /// </summary>
    public bool FollowWriter { get; set; } = true;

    /// <inheritdoc cref="PackOptions.MapVolumes"/>
    public bool MapVolumes { get; set; } = true;

    /// <inheritdoc cref="PackOptions.AllowStaleValues"/>
    public bool AllowStaleValues { get; set; }
}
