using System.Text;

namespace MappedFileQueues.Packs;

/// <summary>An object of a pack, as an enumeration gives it.</summary>
public readonly struct PackEntry
{
    /// <summary>The key; a string key is its UTF-8.</summary>
    public ReadOnlyMemory<byte> KeyBytes { get; init; }

    /// <summary>The length of the data in bytes.</summary>
    public int Length { get; init; }

    /// <summary>Counts the puts and deletes of the pack: a higher one was made later.</summary>
    public long Sequence { get; init; }

    /// <summary>The key as text; bytes that are no UTF-8 become U+FFFD. Allocates each time.</summary>
    public string Key => Encoding.UTF8.GetString(KeyBytes.Span);
}
