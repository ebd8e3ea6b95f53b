using MappedFileQueues.Threads;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Platform.Portable;

/// <summary>
/// A lock by an open that denies other opens. On Unix .NET implements that by flock(2), so it excludes the locks of `LinuxLock`,
/// and they exclude it.
/// </summary>
internal sealed class PortableLock : PlatformLock
{
    private static readonly TimeSpan s_downgradeLimit = TimeSpan.FromSeconds(5);

    private static readonly RootedObjects s_held = new();

    private readonly string _path;
    private readonly Func<SafeFileHandle?>? _make;
    private SafeFileHandle? _handle;

    private PortableLock(string path, Func<SafeFileHandle?>? make, SafeFileHandle? handle)
    {
        _path = path;
        _make = make;
        _handle = handle;
        if (handle is not null)
            s_held.Add(this);
    }

    /// <summary>
    /// Takes the lock; null when another open holds it. <paramref name="make"/> creates the missing file and opens it alone, or
    /// returns null when the file is there by then; without it the lock of a missing file is null.
    /// </summary>
    public static PortableLock? TryTake(string path, LockKind kind, Func<SafeFileHandle?>? make)
    {
        SafeFileHandle? handle = TryOpen(path, kind, make);
        return handle is null ? null : new PortableLock(path, make, handle);
    }

    /// <summary>
    /// A lock by an open for reading alone; a shared one as a rule, so that two probes do not take each other for the holder.
    /// Nothing holds the lock of a missing file.
    /// </summary>
    public static PortableLock? Probe(string path, LockKind kind)
    {
        FileShare share = kind == LockKind.Exclusive ? FileShare.None : FileShare.Read;
        try
        {
            return new PortableLock(path, null, File.OpenHandle(path, FileMode.Open, FileAccess.Read, share));
        }
        catch (Exception error) when (error is FileNotFoundException or DirectoryNotFoundException)
        {
            return new PortableLock(path, null, null);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            return PortableErrors.IsSharingViolation(error)
                ? null
                : throw PortableErrors.Make("Cannot lock the file", path, error);
        }
    }

    /// <inheritdoc/>
    public override bool IsInPlace => File.Exists(_path);

    /// <inheritdoc/>
    public override DateTimeOffset? NotedTime => _handle is null ? null : new DateTimeOffset(File.GetLastWriteTimeUtc(_handle));

    /// <inheritdoc/>
    public override void NoteTime()
    {
        if (_handle is not null)
            PortableFile.NoteWritten(_handle);
    }

    /// <inheritdoc/>
    public override void Downgrade()
    {
        if (_handle is null)
            return;
        _handle.Dispose();

        // Another process's probe may hold the file for a moment. A process that wants to keep the lock needs the `open` lock
        // first, which our caller holds.
        var deadline = new Deadline(s_downgradeLimit);
        SafeFileHandle? shared;
        while ((shared = TryOpen(_path, LockKind.Shared, _make)) is null)
        {
            if (deadline.IsOver)
            {
                throw new QueueInUseException(
                    $"Another program holds a lock of this queue: path={_path}. Close the program that opened the file.");
            }

            Thread.Sleep(1);
        }

        _handle = shared;
    }

    /// <inheritdoc/>
    public override void Dispose()
    {
        if (s_held.TryRemove(this))
            _handle!.Dispose();
    }

    private static SafeFileHandle? TryOpen(string path, LockKind kind, Func<SafeFileHandle?>? make)
    {
        const int RemovedTriesMax = 1000;
        try
        {
            for (int tries = 0; tries < RemovedTriesMax; tries++)
            {
                SafeFileHandle? handle = OpenExisting(path, kind);
                if (handle is null && make is not null)
                    handle = Make(kind, make);
                if (handle is not null || make is null)
                    return handle;
            }
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            return PortableErrors.IsSharingViolation(error)
                ? null
                : throw PortableErrors.Make("Cannot lock the file", path, error);
        }

        throw DiskErrors.Make("Cannot lock the file, which is removed each time", path, DiskErrors.ENOENT, "No such file");
    }

    private static SafeFileHandle? OpenExisting(string path, LockKind kind)
    {
        try
        {
            return kind == LockKind.Exclusive
                ? File.OpenHandle(path, FileMode.Open, FileAccess.ReadWrite, FileShare.None)
                : File.OpenHandle(path, FileMode.Open, FileAccess.Read, FileShare.Read);
        }
        catch (FileNotFoundException)
        {
            return null;
        }
    }

    /// <summary>
    /// Creates the file; null when it exists by now and must be opened as it is, or opened again for a shared lock.
    /// </summary>
    private static SafeFileHandle? Make(LockKind kind, Func<SafeFileHandle?> make)
    {
        SafeFileHandle? made = make();
        if (kind == LockKind.Exclusive)
            return made;
        made?.Dispose();
        return null;
    }
}
