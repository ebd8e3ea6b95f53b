namespace MappedFileQueues.Platform;

/// <summary>
/// What the engine needs from the operating system, under one contract with two implementations: Platform/Linux (P/Invoke)
/// and Platform/Portable (only the BCL). Platform/Choice chooses. All members may be called from any thread.
/// </summary>
internal abstract class OperatingSystemServices
{
    /// <summary>True for the implementation that uses nothing but the BCL.</summary>
    public abstract bool IsPortable { get; }

    /// <summary>
    /// Identifies this boot of the machine, on Linux the same value in both implementations; null where that cannot be known
    /// (then each lone open is one after a power cut).
    /// </summary>
    public abstract string? BootId { get; }

    /// <summary>
    /// Opens the directory and holds it. Returns null when it is missing and <paramref name="create"/> is false.
    /// <para><paramref name="mode"/> is the mode of what is made, now and later, whatever the umask: its read and write bits for
    /// files, and the right to enter for directories. Null: the umask counts. A file gets no more than the directory grants, and
    /// never the right of others to write; the directory itself is for its owner alone, or, without <paramref
    /// name="ownerOnly"/>, as the umask says. Missing parents are always made as the umask says.</para>
    /// </summary>
    public abstract HeldDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode, bool ownerOnly = true);

    /// <summary>
    /// Opens a file for reading. Missing is a <see cref="QueueNotFoundException"/>; what is no regular file (a folder, a named
    /// pipe, a device) is an error too, because it has no positions to read ahead from; Portable can tell only folders.
    /// </summary>
    public ReadableFile OpenForReading(string path) => TryOpenForReading(path) ?? throw new QueueNotFoundException(
        $"Cannot open the file for reading: path={path}, errno={DiskErrors.ENOENT}. Check the path.", Path.GetFullPath(path));

    /// <summary>The same; null when the file is missing.</summary>
    public abstract ReadableFile? TryOpenForReading(string path);

    /// <summary>Registers this process for <see cref="FenceOtherProcesses"/>; false where the system has no such thing.</summary>
    public abstract bool RegisterForFence();

    /// <summary>
    /// A full memory barrier on every running thread of every registered process, this one included; false when it is not
    /// to be had.
    /// </summary>
    public abstract bool FenceOtherProcesses();

    /// <summary>
    /// Sleeps while the 32-bit word in shared memory holds <paramref name="expected"/>, at most for <paramref name="timeout"/>;
    /// may return early; a negative time-out means none. The word lies in a writable mapping. Portable looks at the word itself:
    /// it yields for 50 us, then sleeps 1 ms at a time, 2 ms after 50 ms and 5 ms after 2 s in which this thread saw no change.
    /// </summary>
    public abstract unsafe void WaitOnWord(uint* word, uint expected, TimeSpan timeout);

    /// <summary>Wakes sleepers on the word, in all processes: all of them, or so many at most.</summary>
    public abstract unsafe void WakeWord(uint* word, int countMax = int.MaxValue);

    /// <summary>
    /// When the process began, in ticks that tell two users of one process id apart, on Linux the same value in both
    /// implementations; 0 when it is not running or unknown.
    /// </summary>
    public abstract long ProcessStartTime(int processId);
}
