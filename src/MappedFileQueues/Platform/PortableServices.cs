using System.Diagnostics;

namespace MappedFileQueues.Platform;

/// <summary>Nothing but the BCL: for Windows and macOS, and on Linux by choice.</summary>
internal sealed unsafe class PortableServices : OperatingSystemServices
{
    /// <summary>How long a wait gives way to others before it begins to sleep.</summary>
    private static readonly TimeSpan s_yielding = TimeSpan.FromMicroseconds(50);

    private readonly Lazy<string?> _bootId = new(() => OperatingSystem.IsLinux() ? ProcFiles.ReadBootId() : null);

    /// <inheritdoc/>
    public override bool IsPortable => true;

    /// <inheritdoc/>
    public override string? BootId => _bootId.Value;

    /// <inheritdoc/>
    public override StoreDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode)
    {
        string full = Path.GetFullPath(path);
        try
        {
            if (!Directory.Exists(full))
            {
                // Where a file stands instead, making the directory gives the error that tells so.
                if (!create && !File.Exists(full))
                    return null;
                PortableDirectory.Make(full, mode ?? UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
            }
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw File.Exists(full)
                ? DiskErrors.Make("Cannot open the directory", full, DiskErrors.ENOTDIR, "Not a directory", error)
                : PortableErrors.Make("Cannot make the directory", full, error);
        }

        return new PortableDirectory(full);
    }

    /// <inheritdoc/>
    public override bool RegisterForFence() => false;

    /// <inheritdoc/>
    public override bool FenceOtherProcesses() => false;

    /// <inheritdoc/>
    public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout)
    {
        long start = Stopwatch.GetTimestamp();
        while (Volatile.Read(ref *word) == expected)
        {
            TimeSpan passed = Stopwatch.GetElapsedTime(start);
            if (timeout >= TimeSpan.Zero && passed >= timeout)
                return;

            // The BCL's shortest sleep is a millisecond (on Windows a tick of the system clock).
            if (passed < s_yielding)
                _ = Thread.Yield();
            else
                Thread.Sleep(1);
        }
    }

    /// <inheritdoc/>
    public override void WakeWord(uint* word)
    {
        // Sleepers of this implementation look at the word themselves; those of the other one look again within 100 ms.
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
