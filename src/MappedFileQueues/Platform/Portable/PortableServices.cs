using System.Diagnostics;

namespace MappedFileQueues.Platform.Portable;

/// <summary>Uses only the BCL: for Windows and macOS, and on Linux by choice.</summary>
internal sealed unsafe class PortableServices : OperatingSystemServices
{
    // The mode that keeps no exception: what fails for want of a descriptor is read again.
    private readonly Lazy<string?> _bootId = new(PortableBoot.ReadId, LazyThreadSafetyMode.PublicationOnly);

    /// <inheritdoc/>
    public override bool IsPortable => true;

    /// <inheritdoc/>
    public override string? BootId => _bootId.Value;

    /// <inheritdoc/>
    public override ulong MemoryId => 0;

    /// <inheritdoc/>
    public override HeldDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode, bool ownerOnly = true)
    {
        string full = Path.TrimEndingDirectorySeparator(SystemPath.Full(path));
        return PortableErrors.Try<HeldDirectory?>("Cannot open the directory", full, () =>
        {
            FileAttributes? found = PortableDirectory.AttributesOf(full);
            bool isDirectory = found is FileAttributes named && (named & FileAttributes.Directory) != 0;
            if (!isDirectory && SystemPath.DanglingLink(full) is { } error)
                return create ? throw error : null;
            bool isFile = found is FileAttributes there && (there & FileAttributes.Directory) == 0;
            if (isFile || (found is null && PortableErrors.HasFileInPath(full)))
                throw DiskErrors.Make("Cannot open the directory", full, DiskErrors.ENOTDIR, "Not a directory");
            if (found is null && !create)
                return null;
            if (found is null)
                PortableDirectory.Make(full, mode, ownerOnly);
            return new PortableDirectory(full, mode);
        });
    }

    /// <inheritdoc/>
    public override bool RegisterForBarrier() => false;

    /// <inheritdoc/>
    public override bool BarrierOtherProcesses() => false;

    /// <inheritdoc/>
    public override bool BarrierEverybody() => false;

    /// <inheritdoc/>
    public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout) => PortableWait.While(word, expected, timeout);

    /// <inheritdoc/>
    public override int WordsMax => int.MaxValue;

    /// <inheritdoc/>
    public override void WaitOnWords(ReadOnlySpan<WordWait> words, TimeSpan timeout)
    {
        // The others may be unmapped at any time.
        PortableWait.Once(words[0].Word, words[0].Expected, timeout);
    }

    /// <inheritdoc/>
    public override void WakeWord(uint* word, int countMax = int.MaxValue)
    {
        // Sleepers of this implementation poll the word themselves; those of the other one look again within 100 ms.
    }

    /// <inheritdoc/>
    public override long ProcessStartTime(int processId)
    {
        if (OperatingSystem.IsLinux())
            return ProcFiles.ReadStartTime(processId);
        try
        {
            using Process process = Process.GetProcessById(processId);
            return process.HasExited ? 0 : process.StartTime.ToUniversalTime().Ticks;
        }
        catch (Exception error) when (error is ArgumentException or InvalidOperationException
            or System.ComponentModel.Win32Exception or NotSupportedException)
        {
            return 0;
        }
    }
}
