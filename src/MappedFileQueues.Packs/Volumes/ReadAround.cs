using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// The first look into a window of a volume requests all of it from the system, once: a disk delivers 128 KiB in about the time
/// of 4 KiB, and fifty small objects come with the one that is wanted. A window is never requested again. If a pack is larger
/// than the memory, the system drops pages that are not in use; from then on a look reads only its own pages. For any thread.
/// </summary>
internal sealed class ReadAround(PlatformFile file)
{
    /// <summary>
    /// The same length that the system itself reads around a fault in a mapping (Linux: read_ahead_kb, 128 by default).
    /// </summary>
    public const int WindowBits = 17;

    private readonly Lock _growing = new();
    private uint[] _asked = [];

    /// <summary>Called before a read of these bytes. Requests their window if it is the first read there.</summary>
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

        // The wanted bytes come first, as a separate request, so they do not wait for the rest.
        file.AdviseWillNeed(position, length);
        file.AdviseWillNeed(window << WindowBits, 1L << WindowBits);
    }
}
