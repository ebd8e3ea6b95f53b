namespace MappedFileQueues.Platform.Portable;

/// <summary>Turns the BCL's exceptions into ours, with the corresponding error number of Linux.</summary>
internal static class PortableErrors
{
    private const int WindowsFacility = unchecked((int)0x8007_0000);

    /// <summary>True if a call of the BCL failed because of the system.</summary>
    public static bool IsOfTheSystem(Exception error) => error is UnauthorizedAccessException
        or (IOException and not MappedFileQueueException);

    /// <summary>True if an open failed because another open holds the file.</summary>
    public static bool IsSharingViolation(Exception error)
    {
        const int MacWouldBlock = 35;
        const int WindowsSharingViolation = WindowsFacility | 32;
        const int WindowsLockViolation = WindowsFacility | 33;
        return error is IOException && (OperatingSystem.IsWindows()
            ? error.HResult is WindowsSharingViolation or WindowsLockViolation
            : error.HResult == (OperatingSystem.IsLinux() ? DiskErrors.EAGAIN : MacWouldBlock));
    }

    /// <summary>True if something of that name exists already.</summary>
    public static bool IsAlreadyThere(IOException error) => Number(error) == DiskErrors.EEXIST;

    /// <summary>
    /// True if the path, or the nearest part of it that exists, is a file. The BCL does not distinguish that from a missing one.
    /// </summary>
    public static bool HasFileInPath(string path)
    {
        for (string? part = path; part is not null && !Directory.Exists(part); part = Path.GetDirectoryName(part))
        {
            if (File.Exists(part))
                return true;
        }

        return false;
    }

    /// <summary>Creates the exception.</summary>
    public static QueueDiskException Make(string failed, string path, Exception error) =>
        DiskErrors.Make(failed, path, Number(error), error.Message.TrimEnd('.'), error);

    /// <summary>What a call gives, or its error as ours.</summary>
    public static T Try<T>(string failed, string path, Func<T> call)
    {
        try
        {
            return call();
        }
        catch (Exception error) when (IsOfTheSystem(error))
        {
            throw Make(failed, path, error);
        }
    }

    /// <summary>The corresponding error number of Linux; 0 when there is none.</summary>
    public static int Number(Exception error)
    {
        // On Unix the cause of an UnauthorizedAccessException is an IOException with the number itself (EACCES, EPERM, EISDIR).
        if (error is UnauthorizedAccessException)
            return error.InnerException is IOException { HResult: > 0 } cause ? cause.HResult : DiskErrors.EACCES;
        if (error is FileNotFoundException or DirectoryNotFoundException)
            return DiskErrors.ENOENT;
        if (error is PathTooLongException)
            return DiskErrors.ENAMETOOLONG;
        if (error.HResult > 0)
            return error.HResult;
        return (error.HResult & 0xFFFF_0000) == (WindowsFacility & 0xFFFF_0000) ? FromWindows(error.HResult & 0xFFFF) : 0;
    }

    private static int FromWindows(int code) => code switch
    {
        2 or 3 => DiskErrors.ENOENT,
        4 => DiskErrors.EMFILE,
        5 => DiskErrors.EACCES,
        8 or 14 or 1455 => DiskErrors.ENOMEM,
        19 => DiskErrors.EROFS,
        32 or 33 => DiskErrors.EAGAIN,
        39 or 112 => DiskErrors.ENOSPC,
        80 or 183 => DiskErrors.EEXIST,
        206 => DiskErrors.ENAMETOOLONG,
        223 => DiskErrors.EFBIG,
        267 => DiskErrors.ENOTDIR,
        23 or 1117 => DiskErrors.EIO,
        1295 => DiskErrors.EDQUOT,
        _ => code,
    };
}
