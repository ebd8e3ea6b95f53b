using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform;

/// <summary>
/// What the engine needs from the operating system: one contract with two implementations, Platform/Linux (P/Invoke) and
/// Platform/Portable (only the BCL). Platform/Choice chooses. All members may be called from any thread.
/// </summary>
internal abstract class OperatingSystemServices
{
    /// <summary>True for the implementation that uses nothing but the BCL.</summary>
    public abstract bool IsPortable { get; }

    /// <summary>
    /// The boot id of the system, or what stands in for it; on Linux both implementations give the same value. Null where it is
    /// unknown.
    /// </summary>
    public abstract string? BootId { get; }

    /// <summary>
    /// Identifies the memory of the running kernel, the same in all containers of a machine; 0 where it is unknown.
    /// </summary>
    public abstract ulong MemoryId { get; }

    /// <summary>Both. Where nothing is known, each lone open counts as one after a power loss.</summary>
    /// <exception cref="QueueDiskException">No descriptor or no memory is left to read them; the next call tries
    /// again.</exception>
    public BootIdentity Boot => new(MemoryId, Guid.TryParse(BootId, out Guid known) ? known : Guid.Empty);

    /// <summary>
    /// Opens the directory and holds it. Returns null when it is missing and <paramref name="create"/> is false.
    /// <para><paramref name="mode"/> is the mode of what is created, now and later, whatever the umask: its read and write bits
    /// for files, and the right to enter for directories. Null: the umask counts. A file gets no more rights than the directory
    /// grants, and never the right of others to write. The directory itself is for its owner alone or, without <paramref
    /// name="ownerOnly"/>, as the umask says. Missing parents are always created as the umask says.</para>
    /// </summary>
    public abstract HeldDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode, bool ownerOnly = true);

    /// <summary>Registers this process for <see cref="BarrierOtherProcesses"/>; false where the system has no such
    /// call.</summary>
    public abstract bool RegisterForBarrier();

    /// <summary>
    /// A full memory barrier on every running thread of every registered process, this one included; false when it is not
    /// available.
    /// </summary>
    public abstract bool BarrierOtherProcesses();

    /// <summary>
    /// Sends a barrier to all running threads of the machine once, registered or not; takes some 10 ms. False where the system
    /// has no such call.
    /// </summary>
    public abstract bool BarrierEverybody();

    /// <summary>
    /// Sleeps while the 32-bit word in shared memory holds <paramref name="expected"/>, for at most <paramref name="timeout"/>;
    /// may return early; a negative time-out means none. The word is in a writable mapping. Portable polls the word: it yields
    /// for 50 us, then sleeps 1 ms at a time, 2 ms after 50 ms and 5 ms after 2 s in which this thread saw no change.
    /// </summary>
    public abstract unsafe void WaitOnWord(uint* word, uint expected, TimeSpan timeout);

    /// <summary>
    /// How many words a thread can sleep on at once (<see cref="WaitOnWords"/>): more than 1 wherever the system can do it.
    /// </summary>
    public abstract int WordsMax { get; }

    /// <summary>
    /// Sleeps while every word holds what is expected of it, for at most <paramref name="timeout"/>; may return early. The first
    /// word belongs to the caller, who changes it to end the sleep. The others may be unmapped meanwhile. Where
    /// <see cref="WordsMax"/> is 1 it sleeps on the last word alone. Portable polls the first word, and returns after 1 to 5 ms
    /// for its caller to look at the others.
    /// </summary>
    public abstract void WaitOnWords(ReadOnlySpan<WordWait> words, TimeSpan timeout);

    /// <summary>Wakes sleepers on the word in all processes: all of them, or at most the given count.</summary>
    public abstract unsafe void WakeWord(uint* word, int countMax = int.MaxValue);

    /// <summary>
    /// The start time of the process, in ticks that distinguish two users of one process id; on Linux both implementations give
    /// the same value. 0 when the process is not running or unknown.
    /// </summary>
    public abstract long ProcessStartTime(int processId);
}

/// <summary>A word to sleep on, and the value at which to sleep. The layout is that of futex_waitv(2).</summary>
/// <param name="word">The word, in shared memory.</param>
/// <param name="expected">Its value.</param>
[StructLayout(LayoutKind.Sequential)]
internal readonly unsafe struct WordWait(uint* word, uint expected)
{
    /// <summary>32 bits, and not the PRIVATE kind: the word is identified by file and position.</summary>
    private const uint Futex32 = 2;

    private readonly ulong _expected = expected;
    private readonly ulong _word = (ulong)word;
    private readonly uint _flags = Futex32;
    private readonly uint _reserved = 0;

    public uint* Word => (uint*)_word;

    public uint Expected => (uint)_expected;
}
