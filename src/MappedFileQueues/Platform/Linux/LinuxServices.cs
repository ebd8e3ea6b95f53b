using System.Diagnostics;
using MappedFileQueues.Platform.Linux.Calls;

namespace MappedFileQueues.Platform.Linux;

/// <summary>Linux by P/Invoke, x64 and arm64.</summary>
internal sealed unsafe class LinuxServices : OperatingSystemServices
{
    // The mode that keeps no exception: what fails for want of a descriptor is read again.
    private readonly Lazy<string?> _bootId = new(ProcFiles.ReadBootId, LazyThreadSafetyMode.PublicationOnly);

    private readonly Lazy<ulong> _memoryId =
        new(() => ProcFiles.IsOtherBoot ? 0 : LinuxKernelMemory.ReadId(), LazyThreadSafetyMode.PublicationOnly);

    private readonly Lazy<bool> _waitsOnMany = new(CanWaitOnMany);

    // Registration lasts for the life of the process and may be repeated; once is enough.
    private readonly Lazy<bool> _isRegistered = new(TryRegister);

    /// <inheritdoc/>
    public override bool IsPortable => false;

    /// <inheritdoc/>
    public override string? BootId => _bootId.Value;

    /// <inheritdoc/>
    public override ulong MemoryId => _memoryId.Value;

    /// <inheritdoc/>
    public override HeldDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode, bool ownerOnly = true)
    {
        string full = Path.TrimEndingDirectorySeparator(SystemPath.Full(path));
        const int MakeAndOpenTriesMax = 100;
        for (int tries = 0; ; tries++)
        {
            LinuxHandle? handle = LinuxDirectory.OpenHandle(full);
            if (handle is not null)
                return new LinuxDirectory(full, handle, mode);
            if (!create)
                return null;
            if (tries == MakeAndOpenTriesMax)
                throw SystemPath.DanglingLink(full)
                    ?? LinuxErrors.Make("Cannot make the directory, which is removed at once", full, DiskErrors.ENOENT);
            handle = LinuxDirectory.Make(full, mode, ownerOnly);
            if (handle is not null)
                return new LinuxDirectory(full, handle, mode);
        }
    }

    /// <inheritdoc/>
    public override bool RegisterForBarrier() => _isRegistered.Value;

    /// <inheritdoc/>
    public override bool BarrierOtherProcesses() =>
        // The command reaches only the running threads of registered processes, so this process must be registered for its own
        // other threads.
        _isRegistered.Value
        && LinuxNative.membarrier(LinuxNative.SYS_membarrier, LinuxNative.MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;

    /// <inheritdoc/>
    public override bool BarrierEverybody() =>
        LinuxNative.membarrier(LinuxNative.SYS_membarrier, LinuxNative.MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;

    /// <inheritdoc/>
    public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout)
    {
        if (!TryWaitOnWord(word, expected, timeout))
            throw LinuxErrors.Make("Cannot wait on a word in shared memory", $"0x{(nint)word:x}", DiskErrors.EFAULT);
    }

    /// <summary>False when the word is not mapped.</summary>
    private static bool TryWaitOnWord(uint* word, uint expected, TimeSpan timeout)
    {
        // Not the PRIVATE kind: the word is identified by file and position, not by this process's address.
        LinuxTimespec limit = new()
        {
            Seconds = timeout.Ticks / TimeSpan.TicksPerSecond,
            Nanoseconds = timeout.Ticks % TimeSpan.TicksPerSecond * TimeSpan.NanosecondsPerTick,
        };
        nint result = LinuxNative.futex(
            LinuxNative.SYS_futex, word, LinuxNative.FUTEX_WAIT, (nint)expected, timeout < TimeSpan.Zero ? null : &limit);
        int errno = result == 0 ? 0 : LinuxErrors.Last;

        // A changed word, a signal and the time-out end a wait; any other error would make the caller spin forever.
        return errno is 0 or DiskErrors.EAGAIN or DiskErrors.EINTR or DiskErrors.ETIMEDOUT || (errno == DiskErrors.EFAULT
            ? false
            : throw LinuxErrors.Make("Cannot wait on a word in shared memory", $"0x{(nint)word:x}", errno));
    }

    /// <inheritdoc/>
    public override int WordsMax => _waitsOnMany.Value ? LinuxNative.FUTEX_WAITV_MAX : 1;

    /// <inheritdoc/>
    public override void WaitOnWords(ReadOnlySpan<WordWait> words, TimeSpan timeout)
    {
        if (words.Length == 1 || !_waitsOnMany.Value)
        {
            _ = TryWaitOnWord(words[^1].Word, words[^1].Expected, timeout);
            return;
        }

        // An absolute time of the clock that Stopwatch reads.
        long until = Stopwatch.GetTimestamp() + (long)(timeout.TotalSeconds * Stopwatch.Frequency);
        LinuxTimespec limit = new() { Seconds = until / Stopwatch.Frequency, Nanoseconds = until % Stopwatch.Frequency };
        nint result;
        fixed (WordWait* first = words)
            result = LinuxNative.futex_waitv(
                LinuxNative.SYS_futex_waitv, first, words.Length, 0, &limit, LinuxNative.CLOCK_MONOTONIC);
        if (result >= 0)
            return;
        int errno = LinuxErrors.Last;

        // EFAULT: a word was unmapped before the kernel has read it.
        if (errno is not (DiskErrors.EAGAIN or DiskErrors.EINTR or DiskErrors.ETIMEDOUT or DiskErrors.EFAULT))
            throw LinuxErrors.Make("Cannot wait on words in shared memory", $"count={words.Length}", errno);
    }

    /// <inheritdoc/>
    public override void WakeWord(uint* word, int countMax = int.MaxValue)
    {
        if (LinuxNative.futex(LinuxNative.SYS_futex, word, LinuxNative.FUTEX_WAKE, countMax, null) >= 0)
            return;
        int errno = LinuxErrors.Last;
        throw LinuxErrors.Make("Cannot wake the waiters of a word in shared memory", $"0x{(nint)word:x}", errno);
    }

    /// <inheritdoc/>
    public override long ProcessStartTime(int processId) => ProcFiles.ReadStartTime(processId);

    /// <summary>A word that does not hold what is expected ends the call at once; ENOSYS, or EPERM of a sandbox: no.</summary>
    private static bool CanWaitOnMany()
    {
        uint word = 1;
        WordWait wait = new(&word, 0);
        return LinuxNative.futex_waitv(LinuxNative.SYS_futex_waitv, &wait, 1, 0, null, LinuxNative.CLOCK_MONOTONIC) < 0
            && LinuxErrors.Last == DiskErrors.EAGAIN;
    }

    private static bool TryRegister()
    {
        const int Needed = LinuxNative.MEMBARRIER_CMD_GLOBAL_EXPEDITED | LinuxNative.MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
        nint known = LinuxNative.membarrier(LinuxNative.SYS_membarrier, LinuxNative.MEMBARRIER_CMD_QUERY, 0, 0);
        return known > 0
            && (known & Needed) == Needed
            && LinuxNative.membarrier(
                LinuxNative.SYS_membarrier, LinuxNative.MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
    }
}
