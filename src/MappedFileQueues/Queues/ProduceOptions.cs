namespace MappedFileQueues;

/// <summary>Options of one Produce call.</summary>
public readonly struct ProduceOptions
{
    /// <summary>Looked at before anything is written.</summary>
    public CancellationToken CancellationToken { get; init; }
}
