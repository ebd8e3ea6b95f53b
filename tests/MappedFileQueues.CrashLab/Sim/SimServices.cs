using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;

namespace MappedFileQueues.CrashLab.Sim;

/// <summary>
/// The operating system as one simulated process sees it. Waiting and fencing are Linux's own; everything on disk is
/// <see cref="SimDisk"/>'s.
/// </summary>
internal sealed unsafe class SimServices(SimDisk disk, string bootId, bool hasFence) : OperatingSystemServices
{
    private static readonly LinuxServices s_linux = new();

    public SimDisk Disk => disk;

    /// <summary>Files, directories and mappings that are open.</summary>
    public int OpenCount;

    /// <summary>The process was killed: what its objects still do in this one is of no effect on locks.</summary>
    public bool IsDead { get; private set; }

    /// <summary>The opens that have marked, or taken, a file.</summary>
    public HashSet<SimPlatformFile> Marked { get; } = [];

    /// <summary>Called when somebody goes to sleep: what happens from then on must wake him.</summary>
    public Action? Sleeping { get; set; }

    public override bool IsPortable => false;

    public override string? BootId => bootId;

    public override ulong MemoryId => 0;

    /// <summary>Ends the process as SIGKILL does: the kernel lets go of its locks; what it stored stays.</summary>
    public void Kill()
    {
        lock (disk.Gate)
        {
            IsDead = true;
            disk.Locks.ReleaseAll(this);
            foreach (SimPlatformFile file in Marked.ToList())
                file.Forget();
        }
    }

    public override HeldDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode, bool ownerOnly = true)
    {
        if (path != SimDisk.Root)
            throw new InvalidOperationException($"The simulated disk holds only {SimDisk.Root}.");
        if (!disk.RootExists && !create)
            return null;
        disk.RootExists = true;
        Interlocked.Increment(ref OpenCount);
        return new SimDirectory(this);
    }

    public override bool RegisterForBarrier() => hasFence;

    public override bool BarrierOtherProcesses()
    {
        if (hasFence)
            Interlocked.MemoryBarrierProcessWide();
        return hasFence;
    }

    public override bool BarrierEverybody() => BarrierOtherProcesses();

    public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout)
    {
        Sleeping?.Invoke();
        s_linux.WaitOnWord(word, expected, timeout);
    }

    public override int WordsMax => s_linux.WordsMax;

    public override void WaitOnWords(ReadOnlySpan<WordWait> words, TimeSpan timeout) => s_linux.WaitOnWords(words, timeout);

    public override void WakeWord(uint* word, int countMax = int.MaxValue) => s_linux.WakeWord(word, countMax);

    public override long ProcessStartTime(int processId) => 1;
}
