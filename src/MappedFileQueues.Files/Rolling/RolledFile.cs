namespace MappedFileQueues.Files;

/// <summary>A file that an <see cref="AppendFileStream"/> has ended because it began the next one.</summary>
public sealed record RolledFile
{
    /// <summary>The full path that the closed file has now. Retention may delete the file at any later time.</summary>
    public required string Path { get; init; }

    /// <summary>Its length in bytes.</summary>
    public required long Length { get; init; }

    /// <summary>
    /// When the file was begun, by whichever stream. For a file that another program began: its creation where the file system
    /// knows that, else when the stream opened it.
    /// </summary>
    public required DateTimeOffset Begun { get; init; }

    /// <summary>When the next file was begun, by the stream's clock.</summary>
    public required DateTimeOffset Ended { get; init; }
}
