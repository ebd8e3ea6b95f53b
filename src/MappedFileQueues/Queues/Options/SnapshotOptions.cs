namespace MappedFileQueues;

/// <summary>Options for a snapshot.</summary>
public sealed record SnapshotOptions
{
    /// <summary>
    /// Whether the snapshot has the identity of its source instead of one of its own. Default false. With true it is the same
    /// store at another place, for example to take the source's place later; both then give the same offsets, and the same store
    /// id, to different messages that come after the snapshot's end. Their epochs differ once the snapshot was opened.
    /// </summary>
    public bool KeepStoreId { get; init; }
}
