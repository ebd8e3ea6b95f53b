using System.Globalization;

namespace MappedFileQueues.Packs.Format;

/// <summary>
/// Identifies a volume: the numbers that it covers, and its generation. The order of the numbers is the order of the needles.
/// </summary>
/// <param name="First">The first number that the volume covers.</param>
/// <param name="Last">The last number; equal to the first for a volume that was filled by puts.</param>
/// <param name="Generation">
/// 0 for a volume that was filled by puts. A compaction's volume has a higher one than those that it replaces.
/// </param>
internal readonly record struct VolumeName(uint First, uint Last, uint Generation)
{
    public const uint NumberMax = 99_999_999;
    public const uint GenerationMax = 9_999;

    private const string Suffix = ".pack";

    /// <summary>The file's name in `volumes/`.</summary>
    public string FileName => string.Create(CultureInfo.InvariantCulture, $"{First:D8}-{Last:D8}-{Generation:D4}{Suffix}");

    /// <summary>The file's path relative to the pack.</summary>
    public string Path => $"{PackNames.Volumes}/{FileName}";

    /// <summary>Whether a file can have this name.</summary>
    public bool IsPossible => First >= 1 && First <= Last && Last <= NumberMax && Generation <= GenerationMax;

    /// <summary>Parses the name of a file in `volumes/`; false for any other file.</summary>
    public static bool TryParse(string fileName, out VolumeName name)
    {
        name = default;
        if (fileName.Length != 27 || !fileName.EndsWith(Suffix, StringComparison.Ordinal))
            return false;
        bool isNumber = TryNumber(fileName.AsSpan(0, 8), out uint first) & TryNumber(fileName.AsSpan(9, 8), out uint last)
            & TryNumber(fileName.AsSpan(18, 4), out uint generation);
        name = new VolumeName(first, last, generation);
        return isNumber && name.IsPossible && name.FileName == fileName;
    }

    /// <summary>Whether this volume holds what a compaction kept of the other one.</summary>
    public bool Replaces(VolumeName other) =>
        First <= other.First && other.Last <= Last && Generation > other.Generation;

    /// <summary>Whether both cover a common number.</summary>
    public bool Overlaps(VolumeName other) => First <= other.Last && other.First <= Last;

    private static bool TryNumber(ReadOnlySpan<char> digits, out uint number) =>
        uint.TryParse(digits, NumberStyles.None, CultureInfo.InvariantCulture, out number);
}
