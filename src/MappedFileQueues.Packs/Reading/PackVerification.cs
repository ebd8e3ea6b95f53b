namespace MappedFileQueues.Packs;

/// <summary>The result of checking every byte of a pack.</summary>
public sealed class PackVerification
{
    /// <summary>The number of objects.</summary>
    public long Count { get; init; }

    /// <summary>The number of bytes of volumes that were checked.</summary>
    public long Length { get; init; }

    /// <summary>Everything that is wrong; empty for an intact pack.</summary>
    public IReadOnlyList<PackDamage> Damages { get; init; } = [];

    /// <summary>True if nothing is damaged and the index matches the volumes.</summary>
    public bool IsWhole => Damages.Count == 0;
}
