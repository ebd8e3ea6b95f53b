using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Platform;

/// <summary>A directory known by its path: the BCL cannot hold one open.</summary>
internal sealed class PortableDirectory(string path) : StoreDirectory
{
    /// <summary>
    /// On Unix the BCL's move without overwriting is a look and a rename. This makes it one step for this process; between
    /// processes the caller's `prepare` lock does.
    /// </summary>
    private static readonly Lock s_rename = new();

    /// <inheritdoc/>
    public override string Path => path;

    /// <inheritdoc/>
    public override string? UnsafeFileSystem => PortableFileSystems.UnsafeName(path);

    /// <inheritdoc/>
    public override bool IsStillInPlace => Directory.Exists(path);

    /// <summary>What stands at a path; null when nothing does. Missing rights are an error, not "nothing".</summary>
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

    /// <summary>Makes a directory with this mode (by default 0700) where the system has modes, and its missing parents.</summary>
    public static void Make(string path, UnixFileMode? mode)
    {
        if (OperatingSystem.IsWindows())
        {
            _ = Directory.CreateDirectory(path);
            return;
        }

        if (System.IO.Path.GetDirectoryName(path) is string parent)
            _ = Directory.CreateDirectory(parent);
        UnixFileMode wanted = mode ?? UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute;
        _ = Directory.CreateDirectory(path, wanted);

        // The umask took bits away. A file system without modes (FAT) may refuse, which counts only for a mode that was
        // asked for.
        try
        {
            if (File.GetUnixFileMode(path) != wanted)
                File.SetUnixFileMode(path, wanted);
        }
        catch (Exception error) when (mode is null && PortableErrors.IsOfTheSystem(error))
        {
        }
    }

    /// <inheritdoc/>
    public override PlatformFile? Open(string name, FileOpening opening, UnixFileMode? mode = null)
    {
        string full = FullName(name);
        const int RemovedTriesMax = 1000;
        try
        {
            for (int tries = 0; tries < RemovedTriesMax; tries++)
            {
                SafeFileHandle? handle = opening == FileOpening.CreateNew ? null : OpenExisting(full, opening);
                if (handle is null && opening is FileOpening.CreateNew or FileOpening.ReadWriteOrCreate)
                    handle = CreateNew(full, mode);
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

        throw DiskErrors.Make("Cannot open the file, it is removed each time", full, DiskErrors.ENOENT, "No such file");
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
    public override void Rename(string from, string to)
    {
        try
        {
            lock (s_rename)
                File.Move(FullName(from), FullName(to), overwrite: true);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make($"Cannot rename the file to {to}", FullName(from), error);
        }
    }

    /// <inheritdoc/>
    public override bool Delete(string name)
    {
        string full = FullName(name);
        try
        {
            // The BCL does not say whether there was one; two who delete at once may both hear yes.
            if (AttributesOf(full) is null)
                return false;
            File.Delete(full);
            return true;
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
        try
        {
            FileAttributes? found = AttributesOf(full);
            if (found is FileAttributes there && (there & FileAttributes.Directory) != 0)
                return false;
            if (found is not null)
                throw DiskErrors.Make("Cannot make the directory", full, DiskErrors.EEXIST, "File exists");
            Make(full, OperatingSystem.IsWindows() ? null : File.GetUnixFileMode(path));
            return true;
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make("Cannot make the directory", full, error);
        }
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
        // The BCL cannot open a directory, so it cannot flush one: the weaker promise after a power cut.
    }

    /// <inheritdoc/>
    public override PlatformLock? TryLock(string name, LockKind kind) =>
        PortableLock.TryTake(FullName(name), kind, DefaultMode());

    /// <inheritdoc/>
    public override PlatformLock? Probe(string name) => PortableLock.Probe(FullName(name));

    /// <inheritdoc/>
    public override IReadOnlyList<int> LockHolders(string name) => [];

    /// <inheritdoc/>
    public override FileIdentity? Identify(string name)
    {
        try
        {
            return AttributesOf(FullName(name)) is null ? null : default(FileIdentity);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw PortableErrors.Make("Cannot ask for the state of the file", FullName(name), error);
        }
    }

    /// <inheritdoc/>
    public override void Dispose()
    {
    }

    /// <summary>Gives a new file its mode where the system has modes; a refusal counts only when it is required.</summary>
    internal static void SetMode(SafeFileHandle file, UnixFileMode? mode, bool isRequired)
    {
        if (OperatingSystem.IsWindows() || mode is null)
            return;
        try
        {
            if (File.GetUnixFileMode(file) != mode)
                File.SetUnixFileMode(file, mode.Value);
        }
        catch (Exception error) when (!isRequired && PortableErrors.IsOfTheSystem(error))
        {
        }
    }

    private static SafeFileHandle? OpenExisting(string full, FileOpening opening)
    {
        try
        {
            FileAccess access = opening == FileOpening.Read ? FileAccess.Read : FileAccess.ReadWrite;
            return File.OpenHandle(full, FileMode.Open, access, FileShare.ReadWrite | FileShare.Delete);
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

    private SafeFileHandle? CreateNew(string full, UnixFileMode? mode)
    {
        try
        {
            SafeFileHandle made = File.OpenHandle(
                full, FileMode.CreateNew, FileAccess.ReadWrite, FileShare.ReadWrite | FileShare.Delete);
            SetMode(made, mode ?? DefaultMode(), isRequired: mode is not null);
            return made;
        }
        catch (IOException error) when (PortableErrors.IsAlreadyThere(error))
        {
            return null;
        }
    }

    private UnixFileMode? DefaultMode()
    {
        const UnixFileMode ReadWriteBits = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead
            | UnixFileMode.GroupWrite | UnixFileMode.OtherRead | UnixFileMode.OtherWrite;
        return OperatingSystem.IsWindows() || !Directory.Exists(path) ? null : File.GetUnixFileMode(path) & ReadWriteBits;
    }

    private string FullName(string name) => name.Length == 0 ? path : System.IO.Path.Combine(path, name);
}
