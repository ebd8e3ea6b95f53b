namespace MappedFileQueues.Format;

/// <summary>
/// `locks/slots`: 4096 entries of 16 bytes: generation (4), process id (4), start time of the process (8). Only the generation
/// counts; the others name a holder in messages. The process that holds the kernel lock on the slot's own file writes the entry.
/// </summary>
internal static class SlotLayout
{
    public const int SlotCount = 1 << 12;
    public const int EntryLength = 16;
    public const int FileLength = SlotCount * EntryLength;

    /// <summary>20 bits. A slot that has reached it is retired until a lone opener resets it.</summary>
    public const uint GenerationMax = (1u << 20) - 1;

    public static int EntryAt(int slot) => slot * EntryLength;

    /// <summary>The high half of a claimed header.</summary>
    public static uint Owner(int slot, uint generation) => ((uint)slot << 20) | generation;

    public static int Slot(uint owner) => (int)(owner >> 20);

    public static uint Generation(uint owner) => owner & GenerationMax;
}
