namespace MappedFileQueues.Packs;

/// <summary>What a look at every byte of a pack has found.</summary>
public sealed class PackVerification
{
    /// <summary>How many objects there are.</summary>
    public long Count { get; init; }

    /// <summary>How many bytes of volumes were checked.</summary>
    public long Length { get; init; }

    /// <summary>All that is not as it should be; empty for a pack in order.</summary>
    public IReadOnlyList<PackDamage> Damages { get; init; } = [];

    /// <summary>True when nothing is damaged, and the index is what the volumes say.</summary>
    public bool IsWhole => Damages.Count == 0;
}
