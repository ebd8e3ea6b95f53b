using MappedFileQueues.Format;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Deletes a store while no process is attached.
/// <code>
/// step                                                    killed after it
/// 1 under `open` and alone: rename `queue.meta`, flush    no store any more; no process creates one here, and the next
///   the directory                                         deletion continues
/// 2 remove everything except `locks` and that file        the same; the next deletion makes `locks` again if step 3 was begun
/// 3 release the locks (Windows deletes no file that is    the same
///   held), remove `locks`, flush the directory
/// 4 remove the renamed file, flush the directory          an empty folder
/// 5 remove the folder, if it is still empty               -
/// </code>
/// Each flush comes before something that must not survive a power loss alone: without the first one, a store whose files are
/// partly gone would be back; without the second one, files of a store in a folder that nothing says is being deleted.
/// </summary>
internal static class StoreDeletion
{
    /// <summary>How long openers may block the removal of the last folder.</summary>
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(5);

    /// <summary>How much of a log is looked at before it counts as empty.</summary>
    private const int LookLength = 1024 * 1024;

    public static void Delete(string path) => Delete(path, onlyUnused: false, keepsFolder: false);

    /// <summary>
    /// Deletes a store to which nobody has appended anything and on which nobody reads; leaves any other one as it is. For what
    /// a caller made and could not use.
    /// </summary>
    /// <param name="path">The store's directory.</param>
    /// <param name="keepsFolder">The folder was there before the store.</param>
    public static void DeleteUnused(string path, bool keepsFolder) => Delete(path, onlyUnused: true, keepsFolder);

    private static void Delete(string path, bool onlyUnused, bool keepsFolder)
    {
        using HeldDirectory? directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null);
        if (directory is null)
            return;
        ThrowIfNoStore(directory);
        try
        {
            if (!TryEmpty(directory, onlyUnused))
                return;
            RemoveLocks(directory);
            directory.FlushEntries("");
            directory.Delete(StoreNames.DeletedMeta);
            directory.FlushEntries("");
            if (!keepsFolder)
                RemoveFolder(directory);
        }
        catch (QueueDiskException error) when (
            error.Errno == DiskErrors.ENOENT && (IsGone(directory) || directory.Identify(StoreNames.Locks) is null))
        {
            throw Gone(directory);
        }
        catch (Exception error) when (error is (IOException and not MappedFileQueueException) or UnauthorizedAccessException)
        {
            throw new QueueDiskException(
                $"The store's folder could not be removed: path={path}. Its messages are gone; delete it again.", 0, path, error);
        }
    }

    /// <summary>False if only an unused store is to be deleted, and this is none.</summary>
    private static bool TryEmpty(HeldDirectory directory, bool onlyUnused)
    {
        if (directory.Identify(StoreNames.DeletedMeta) is not null)
            directory.CreateSubdirectory(StoreNames.Locks);
        using PlatformLock open = OpenLock.Take(directory, TimeSpan.Zero);
        using PlatformLock attached = LockWait.TryTake(
            directory, StoreNames.AttachedLock, LockKind.Exclusive, LockWait.Passing)
            ?? throw directory.InUse(
                StoreNames.AttachedLock, "The store is open, so it cannot be deleted", "Close every queue on it first.");
        // Another process may have deleted the store meanwhile, and a third one may have put something else in its place.
        if (IsGone(directory))
        {
            // The locks are those that this call has just made: they go with the folder.
            if (directory.List("") is [StoreNames.Locks])
                return true;
            throw Gone(directory);
        }

        if (!directory.IsStillInPlace)
            throw new QueueDeletedException($"The store was moved away while it was being deleted: path={directory.Path}. "
                + "Nothing was deleted.");
        if (onlyUnused && !IsUnused(directory))
            return false;
        if (directory.Identify(StoreNames.Meta) is not null)
        {
            MetaLock.Take(directory, StoreNames.Meta, isAlone: true)?.Dispose();
            directory.Rename(StoreNames.Meta, StoreNames.DeletedMeta);
        }

        // Each time: the process that renamed it may have died before this.
        directory.FlushEntries("");
        foreach (string name in directory.List(""))
        {
            if (name is not (StoreNames.Locks or StoreNames.DeletedMeta))
                Remove(directory, name);
        }

        return true;
    }

    /// <summary>
    /// The caller is alone: what another process appended or read meanwhile is in files. A producer that died in front of a
    /// message has left zeros, so more than the first header is read. Segments are made ahead.
    /// </summary>
    private static bool IsUnused(HeldDirectory directory)
    {
        IReadOnlyList<string> names = directory.List(StoreNames.CommitLog);
        string[] segments = [.. names.Where(name => StoreNames.TryParseSegment(name, out _))];
        return directory.Identify(StoreNames.DeletedMeta) is null
            && directory.Identify(StoreNames.Retention) is null
            && CursorFile.Names(directory).All(name => directory.Identify(name) is null)
            && !GroupFile.Names(directory).Any()
            && !names.Any(StoreNames.IsSpare)
            && (segments.Length == 0 || directory.Identify(StoreNames.Segment(0)) is not null)
            && segments.All(name => BeginsWithZeros(directory, $"{StoreNames.CommitLog}/{name}"));
    }

    private static bool BeginsWithZeros(HeldDirectory directory, string name)
    {
        using PlatformFile? file = directory.Open(name, FileOpening.Read);
        byte[] bytes = new byte[Math.Min(LookLength, file?.Length ?? 0)];
        int read = file?.ReadAt(bytes, 0) ?? 0;
        return !bytes.AsSpan(0, read).ContainsAnyExcept((byte)0);
    }

    /// <summary>A link and its empty target stay: the user who made the link chose the place.</summary>
    private static void RemoveFolder(HeldDirectory directory)
    {
        if (new DirectoryInfo(directory.Path).LinkTarget is not null)
            return;
        try
        {
            System.IO.Directory.Delete(directory.Path, recursive: false);
        }
        catch (DirectoryNotFoundException)
        {
            // Another deletion was quicker.
        }
        catch (IOException) when (directory.List("").Count > 0)
        {
            // The store is gone; another process begins to create a new one.
        }
    }

    /// <summary>
    /// An opener that waits for a lock creates the lock's file again until it sees that the store is deleted. If that happens
    /// between the emptying of the folder and its removal, the removal fails and is tried again. No process creates the folder
    /// itself again.
    /// </summary>
    private static void RemoveLocks(HeldDirectory directory)
    {
        var deadline = new Deadline(Patience);
        while (true)
        {
            try
            {
                Remove(directory, StoreNames.Locks);
                return;
            }
            catch (IOException error) when (error is not MappedFileQueueException && !deadline.IsOver)
            {
                Thread.Sleep(1);
            }
        }
    }

    private static void ThrowIfNoStore(HeldDirectory directory)
    {
        if (directory.Identify(StoreNames.DeletedMeta) is null && StoreMetaFile.Read(directory) is null)
            throw new QueueFormatException($"The folder holds no store: path={directory.Path}. Nothing was deleted.");
    }

    private static bool IsGone(HeldDirectory directory) =>
        directory.Identify(StoreNames.Meta) is null && directory.Identify(StoreNames.DeletedMeta) is null;

    private static QueueDeletedException Gone(HeldDirectory directory) =>
        new($"Another process has deleted the store, or is about to: path={directory.Path}. "
            + "If the folder stays, delete it again.");

    /// <summary>Removes a file, or a folder with its content; a link, but not its target.</summary>
    private static void Remove(HeldDirectory directory, string name)
    {
        string path = Path.Combine(directory.Path, name);
        var folder = new DirectoryInfo(path);
        if (folder.Exists && folder.LinkTarget is null)
            folder.Delete(recursive: true);
        else
            File.Delete(path);
    }
}
