namespace MappedFileQueues.Packs.Format;

/// <summary>
/// An object's place, packed into one word (docs/PACKS.md section 3):
/// <code>
/// 63 … tag … | 5 size class | 14 volume slot | position in units of 8
/// </code>
/// The position takes as many bits as the pack's volume length needs. The tag takes the rest. An entry is never 0, because a
/// volume's header is at position 0.
/// </summary>
internal readonly struct IndexEntry
{
    public const int ShardBits = 12;
    public const int SlotBits = 14;
    public const int SlotCount = 1 << SlotBits;

    private const int ClassBits = 5;
    private const int ClassMax = (1 << ClassBits) - 1;
    private const int ClassUnitBits = 7;

    public IndexEntry(long volumeLength)
    {
        PositionBits = 1;
        while (1L << PositionBits < volumeLength / NeedleLayout.Unit)
            PositionBits++;
        TagBits = 64 - ClassBits - SlotBits - PositionBits;
    }

    public int PositionBits { get; }

    public int TagBits { get; }

    /// <summary>
    /// The number of bytes to read for a needle of this class: 128, 192, 256, 384, 512 and so on; 0 if the length has to be
    /// looked up first.
    /// </summary>
    public static int ReadLength(int sizeClass) =>
        sizeClass == ClassMax ? 0 : ((sizeClass & 1) == 0 ? 2 : 3) << (ClassUnitBits - 1 + (sizeClass / 2));

    public ulong Pack(ulong hash, int slot, long position, int needleLength) =>
        (TagOf(hash) << (64 - TagBits))
        | ((ulong)ClassOf(needleLength) << (SlotBits + PositionBits))
        | ((ulong)slot << PositionBits)
        | (ulong)(position / NeedleLayout.Unit);

    /// <summary>The bits of the hash after those that select the shard.</summary>
    public ulong TagOf(ulong hash) => (hash << ShardBits) >> (64 - TagBits);

    public int SizeClass(ulong entry) => (int)(entry >> (SlotBits + PositionBits)) & ClassMax;

    public int Slot(ulong entry) => (int)(entry >> PositionBits) & (SlotCount - 1);

    public long Position(ulong entry) => (long)(entry & ((1UL << PositionBits) - 1)) * NeedleLayout.Unit;

    private static int ClassOf(int needleLength)
    {
        int sizeClass = 0;
        while (sizeClass < ClassMax && needleLength > ReadLength(sizeClass))
            sizeClass++;
        return sizeClass;
    }
}
