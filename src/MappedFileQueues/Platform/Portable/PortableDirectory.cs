using MappedFileQueues.Threads;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Platform.Portable;

/// <summary>A directory known by its path: the BCL cannot hold one open.</summary>
internal sealed class PortableDirectory(string path, UnixFileMode? askedMode) : HeldDirectory
{
    /// <summary>
    /// On Unix the BCL's move without overwriting is a check and a rename. This lock makes it one step in this process; between
    /// processes the caller's `prepare` lock does.
    /// </summary>
    private static readonly Lock s_rename = new();

    /// <summary>Those who read a small file of a store, or make a new one, have it open for a moment.</summary>
    private static readonly TimeSpan s_openElsewhereMax = TimeSpan.FromSeconds(2);

    /// <summary>An opener holds the meta page exclusively for a moment (<see cref="MetaLock"/>).</summary>
    private static readonly TimeSpan s_exclusiveMax = TimeSpan.FromSeconds(1);

    private string? _modelName;
    private UnixFileMode? _adoptedMode;

    /// <inheritdoc/>
    public override string Path => path;

    /// <inheritdoc/>
    public override string? UnsafeFileSystem => PortableFileSystems.UnsafeName(path);

    /// <inheritdoc/>
    public override long FreeBytes => PortableErrors.Try(
        "Cannot ask for the state of the file system", path, () => new DriveInfo(path).AvailableFreeSpace);

    /// <inheritdoc/>
    public override FileOpening OpeningToSync => FileOpening.ReadWrite;

    /// <inheritdoc/>
    public override bool IsStillInPlace => Directory.Exists(path);

    /// <summary>Looks each time: a `chmod` of a store that is open counts for what is made afterwards.</summary>
    private UnixFileMode? ModeOfFiles
    {
        get
        {
            if (_modelName is not null)
                AdoptModeOf(_modelName);
            return (askedMode & CreateModes.FileBits) ?? _adoptedMode;
        }
    }

    /// <summary>The attributes of what is at a path; null when nothing is. Missing rights are an error, not "nothing".</summary>
    public static FileAttributes? AttributesOf(string path)
    {
        try
        {
            return File.GetAttributes(path);
        }
        catch (Exception error) when (error is FileNotFoundException or DirectoryNotFoundException)
        {
            return null;
        }
    }

    /// <summary>
    /// Creates a directory for files of this mode where the system has modes, and its missing parents as the umask says.
    /// </summary>
    public static void Make(string path, UnixFileMode? mode, bool ownerOnly)
    {
        if (OperatingSystem.IsWindows())
        {
            _ = Directory.CreateDirectory(path);
            return;
        }

        if (System.IO.Path.GetDirectoryName(path) is string parent)
            _ = Directory.CreateDirectory(parent);
        UnixFileMode unasked = ownerOnly ? CreateModes.OwnersDirectory : CreateModes.DirectoryBits;
        UnixFileMode wanted = mode is { } files ? CreateModes.DirectoryOf(files) : unasked;
        _ = Directory.CreateDirectory(path, wanted);
        if (mode is not null)
            SetDirectoryMode(path, wanted, isRequired: true);
    }

    /// <inheritdoc/>
    public override PlatformFile? Open(string name, FileOpening opening)
    {
        string full = FullName(name);
        const int RemovedTriesMax = 1000;
        var deadline = new Deadline(s_exclusiveMax);
        try
        {
            for (int tries = 0; tries < RemovedTriesMax; tries++)
            {
                SafeFileHandle? handle = opening == FileOpening.CreateNew ? null : OpenExisting(full, opening, deadline);
                if (handle is null && opening is FileOpening.CreateNew or FileOpening.ReadWriteOrCreate)
                    handle = TryMakeFile(full, FileShare.ReadWrite | FileShare.Delete);
                if (handle is not null)
                    return new PortableFile(full, handle, isWritable: opening != FileOpening.Read);
                if (opening != FileOpening.ReadWriteOrCreate)
                    return null;
            }
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw Directory.Exists(full)
                ? DiskErrors.Make("Cannot use this as a file of the store", full, DiskErrors.EISDIR, "Is a directory", error)
                : PortableErrors.Make("Cannot open the file", full, error);
        }

        throw DiskErrors.Make("Cannot open the file, which is removed each time", full, DiskErrors.ENOENT, "No such file");
    }

    /// <inheritdoc/>
    public override void AdoptModeOf(string name)
    {
        _modelName = name;
        if (OperatingSystem.IsWindows() || Identify(name) is null)
            return;
        try
        {
            _adoptedMode = File.GetUnixFileMode(FullName(name)) & CreateModes.FileBits;
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make("Cannot ask for the state of the file", FullName(name), error);
        }
    }

    /// <inheritdoc/>
    public override bool RenameWithoutReplacing(string from, string to)
    {
        try
        {
            lock (s_rename)
                File.Move(FullName(from), FullName(to), overwrite: false);
            return true;
        }
        catch (IOException error) when (PortableErrors.IsAlreadyThere(error))
        {
            return false;
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make($"Cannot rename the file to {to}", FullName(from), error);
        }
    }

    /// <inheritdoc/>
    public override void Rename(string from, string to) => PortableErrors.Try(
        $"Cannot rename the file to {to}", FullName(from), () => WhileOpenElsewhere(DiskErrors.EACCES, () =>
        {
            lock (s_rename)
                File.Move(FullName(from), FullName(to), overwrite: true);
        }));

    /// <inheritdoc/>
    public override bool Delete(string name)
    {
        string full = FullName(name);
        try
        {
            // The BCL does not say whether there was a file; two callers that delete it at once may both get true.
            if (AttributesOf(full) is null)
                return false;
            return WhileOpenElsewhere(DiskErrors.EAGAIN, () => File.Delete(full));
        }
        catch (DirectoryNotFoundException)
        {
            return false;
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make("Cannot delete the file", full, error);
        }
    }

    /// <inheritdoc/>
    public override bool CreateSubdirectory(string name)
    {
        string full = FullName(name);
        return PortableErrors.Try("Cannot make the directory", full, () =>
        {
            FileAttributes? found = AttributesOf(full);
            if (found is FileAttributes there && (there & FileAttributes.Directory) != 0)
                return false;
            if (found is not null)
                throw DiskErrors.Make("Cannot make the directory", full, DiskErrors.EEXIST, "File exists");
            MakeSubdirectory(full);
            return true;
        });
    }

    /// <inheritdoc/>
    public override IReadOnlyList<string> List(string subdirectory)
    {
        string full = FullName(subdirectory);
        try
        {
            string[] names = Directory.GetFileSystemEntries(full);
            for (int index = 0; index < names.Length; index++)
                names[index] = System.IO.Path.GetFileName(names[index]);
            Array.Sort(names, StringComparer.Ordinal);
            return names;
        }
        catch (DirectoryNotFoundException)
        {
            return [];
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make("Cannot list the directory", full, error);
        }
    }

    /// <inheritdoc/>
    public override void FlushEntries(string subdirectory)
    {
        // The BCL cannot open a directory, so it cannot flush one: this is the weaker promise after a power loss.
    }

    /// <inheritdoc/>
    public override PlatformLock? TryLock(string name, LockKind kind, bool create = true) =>
        PortableLock.TryTake(FullName(name), kind, create ? () => TryMakeFile(FullName(name), FileShare.None) : null);

    /// <inheritdoc/>
    public override PlatformLock? Probe(string name, LockKind kind = LockKind.Shared) =>
        PortableLock.Probe(FullName(name), kind);

    /// <inheritdoc/>
    public override FileIdentity? Identify(string name)
    {
        string full = FullName(name);
        FileAttributes? found = PortableErrors.Try("Cannot ask for the state of the file", full, () => AttributesOf(full));
        return found is null ? null : default(FileIdentity);
    }

    /// <inheritdoc/>
    public override void Dispose()
    {
    }

    /// <summary>
    /// Creates a file by its full name, with the mode of this directory's files; null when it is there already.
    /// </summary>
    internal SafeFileHandle? TryMakeFile(string full, FileShare share)
    {
        try
        {
            SafeFileHandle made = Make(full, share, out UnixFileMode? wanted);
            if (wanted is not null && ModeOfFiles is not null)
                SetMode(made, wanted.Value);
            return made;
        }
        catch (IOException error) when (PortableErrors.IsAlreadyThere(error))
        {
            return null;
        }
    }

    /// <summary>
    /// Windows replaces no file that somebody has open, however it is shared, and says "access denied". It deletes none that is
    /// open without sharing that (a lock that is tried), and says "sharing violation".
    /// </summary>
    /// <returns>True.</returns>
    private static bool WhileOpenElsewhere(int errno, Action change)
    {
        var deadline = new Deadline(s_openElsewhereMax);
        while (true)
        {
            try
            {
                change();
                return true;
            }
            catch (Exception error) when (OperatingSystem.IsWindows() && PortableErrors.IsOfTheSystem(error)
                && PortableErrors.Number(error) == errno && !deadline.IsOver)
            {
                Thread.Sleep(1);
            }
        }
    }

    private static SafeFileHandle? OpenExisting(string full, FileOpening opening, Deadline deadline)
    {
        FileAccess access = opening == FileOpening.Read ? FileAccess.Read : FileAccess.ReadWrite;
        try
        {
            while (true)
            {
                try
                {
                    return File.OpenHandle(full, FileMode.Open, access, FileShare.ReadWrite | FileShare.Delete);
                }
                catch (IOException error) when (PortableErrors.IsSharingViolation(error) && !deadline.IsOver)
                {
                    Thread.Sleep(1);
                }
            }
        }
        catch (FileNotFoundException)
        {
            return null;
        }
        catch (DirectoryNotFoundException) when (opening != FileOpening.ReadWriteOrCreate)
        {
            return null;
        }
    }

    /// <summary>Creates the file; the system takes away the rights that the umask forbids.</summary>
    private SafeFileHandle Make(string full, FileShare share, out UnixFileMode? wanted)
    {
        wanted = null;
        if (OperatingSystem.IsWindows() || !Directory.Exists(path))
            return File.OpenHandle(full, FileMode.CreateNew, FileAccess.ReadWrite, share);
        wanted = ModeOfFiles ?? CreateModes.FileIn(File.GetUnixFileMode(path));

        // Only the stream takes a mode, so that no other user can open the file before it has it.
        FileStream stream = new(full, new FileStreamOptions
        {
            Mode = FileMode.CreateNew,
            Access = FileAccess.ReadWrite,
            Share = share,
            BufferSize = 0,
            UnixCreateMode = wanted,
        });
        GC.SuppressFinalize(stream);
        return stream.SafeFileHandle;
    }

    private void MakeSubdirectory(string full)
    {
        if (OperatingSystem.IsWindows())
        {
            _ = Directory.CreateDirectory(full);
            return;
        }

        UnixFileMode? files = ModeOfFiles;
        UnixFileMode wanted =
            files is { } exact ? CreateModes.DirectoryOf(exact) : CreateModes.DirectoryIn(File.GetUnixFileMode(path));
        _ = Directory.CreateDirectory(full, wanted);
        if (files is not null)
            SetDirectoryMode(full, wanted, isRequired: askedMode is not null);
    }

    /// <summary>
    /// Restores the rights that the umask took away, if the mode was chosen or adopted. What a directory of a group passes on
    /// (set-group-ID) stays. A file system without modes (FAT) may refuse, which is an error only for a mode that the caller
    /// chose.
    /// </summary>
    private static void SetDirectoryMode(string full, UnixFileMode mode, bool isRequired)
    {
        if (OperatingSystem.IsWindows())
            return;
        try
        {
            UnixFileMode now = File.GetUnixFileMode(full);
            if ((now & CreateModes.DirectoryBits) != mode)
                File.SetUnixFileMode(full, (now & ~CreateModes.DirectoryBits) | mode);
        }
        catch (Exception error) when (!isRequired && PortableErrors.IsOfTheSystem(error))
        {
        }
    }

    /// <summary>The same for a file.</summary>
    private void SetMode(SafeFileHandle file, UnixFileMode mode)
    {
        if (OperatingSystem.IsWindows())
            return;
        try
        {
            if (File.GetUnixFileMode(file) != mode)
                File.SetUnixFileMode(file, mode);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            if (askedMode is null)
                return;
            file.Dispose();
            throw;
        }
    }

    private string FullName(string name)
    {
        string full = name.Length == 0 ? path : System.IO.Path.Combine(path, name);
        return OperatingSystem.IsWindows() ? SystemPath.Full(full) : full;
    }
}
