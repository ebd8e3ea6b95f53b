namespace MappedFileQueues.Format;

/// <summary>
/// The one word of a cursor file (4 KiB, the rest is zero): the consumer's offset, with bit 63 set once it counts. Only the one
/// consumer that holds the cursor's name writes it.
/// </summary>
internal static class CursorWord
{
    /// <summary>Length of a cursor file in bytes.</summary>
    public const int FileLength = 4096;

    private const ulong Valid = 1UL << 63;

    public static ulong From(long offset) => (ulong)offset | Valid;

    public static bool IsValid(ulong word) => (word & Valid) != 0;

    public static long Offset(ulong word) => (long)(word & ~Valid);
}
