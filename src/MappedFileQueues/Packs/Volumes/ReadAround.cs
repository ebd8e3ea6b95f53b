using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// The first look into a window of a volume asks the system for all of it, once: a disk answers 128 KiB in about the time of
/// 4 KiB, and fifty small objects come with the one that was wanted. A window is never asked for again: in a pack that is larger
/// than the memory the system drops what it does not need, and from then on a look reads its own pages only. Any thread.
/// </summary>
internal sealed class ReadAround(PlatformFile file)
{
    /// <summary>What the system itself reads around a fault in a mapping (Linux: read_ahead_kb, 128 by default).</summary>
    public const int WindowBits = 17;

    private readonly Lock _growing = new();
    private uint[] _asked = [];

    /// <summary>Somebody reads here now.</summary>
    public void Ask(long position, int length)
    {
        long window = position >> WindowBits;
        int word = (int)(window >> 5);
        uint bit = 1u << (int)(window & 31);
        uint[] asked = Volatile.Read(ref _asked);
        if (word < asked.Length && (asked[word] & bit) != 0)
            return;
        lock (_growing)
        {
            if (word >= _asked.Length)
            {
                uint[] larger = new uint[word + 32];
                _asked.CopyTo(larger, 0);
                Volatile.Write(ref _asked, larger);
            }

            _asked[word] |= bit;
        }

        // What is wanted now first, as a request of its own: it does not wait for the rest.
        file.AdviseWillNeed(position, length);
        file.AdviseWillNeed(window << WindowBits, 1L << WindowBits);
    }
}
