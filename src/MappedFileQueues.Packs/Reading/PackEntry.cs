using System.Text;

namespace MappedFileQueues.Packs;

/// <summary>An object of a pack, as returned by an enumeration.</summary>
public readonly struct PackEntry
{
    /// <summary>The key; for a string key its UTF-8 bytes.</summary>
    public ReadOnlyMemory<byte> KeyBytes { get; init; }

    /// <summary>The length of the data in bytes.</summary>
    public int Length { get; init; }

    /// <summary>
    /// The number of the put that stored the object, among all puts and deletes of the pack. A higher one came later.
    /// </summary>
    public long Sequence { get; init; }

    /// <summary>The key as text. Bytes that are not valid UTF-8 become U+FFFD. Allocates on each call.</summary>
    public string Key => Encoding.UTF8.GetString(KeyBytes.Span);
}
