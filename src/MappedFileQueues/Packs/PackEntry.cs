using System.Text;

namespace MappedFileQueues.Packs;

/// <summary>An object of a pack, as an enumeration gives it.</summary>
/// <param name="KeyBytes">The key; a string key is its UTF-8.</param>
/// <param name="Length">The length of the data in bytes.</param>
/// <param name="Sequence">Counts the puts and deletes of the pack: a higher one was made later.</param>
public readonly record struct PackEntry(ReadOnlyMemory<byte> KeyBytes, int Length, long Sequence)
{
    /// <summary>The key as text; bytes that are no UTF-8 become U+FFFD. Allocates each time.</summary>
    public string Key => Encoding.UTF8.GetString(KeyBytes.Span);
}

/// <summary>A pack's size, at some moment.</summary>
/// <param name="Path">Its directory.</param>
/// <param name="Count">How many objects there are.</param>
/// <param name="LiveLength">Bytes in the volumes that hold them, with keys and overhead.</param>
/// <param name="Length">Bytes in all volumes; what is above the live length a compaction may free.</param>
/// <param name="VolumeCount">How many volumes there are.</param>
/// <param name="VolumeSize">The length of a volume in bytes.</param>
/// <param name="IndexBytes">What the index takes in memory.</param>
/// <param name="Sequence">How many puts and deletes there have been, failed ones and those of a torn tail left out. It leaps when
/// the last volume is found missing.</param>
/// <param name="Created">When the pack was made.</param>
public sealed record PackInfo(
    string Path,
    long Count,
    long LiveLength,
    long Length,
    int VolumeCount,
    long VolumeSize,
    long IndexBytes,
    long Sequence,
    DateTimeOffset Created);
