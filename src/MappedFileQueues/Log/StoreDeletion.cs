using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log;

/// <summary>
/// Deletes a store while nobody is attached. `queue.meta` goes first: without it the rest is no store any more.
/// </summary>
internal static class StoreDeletion
{
    public static void Delete(string path)
    {
        using StoreDirectory? directory = OperatingSystemServices.Current.OpenDirectory(path, create: false, mode: null);
        if (directory is null)
            return;
        if (StoreMetaFile.Read(directory) is null)
            throw new QueueFormatException($"The folder holds no store: path={path}. Nothing was deleted.");
        using (OpenLock.Take(directory, TimeSpan.Zero))
        {
            using PlatformLock attached = directory.TryLock(StoreNames.AttachedLock, LockKind.Exclusive)
                ?? throw new QueueInUseException($"The store is open, so it cannot be deleted: path={path}, "
                    + $"holder={OpenLock.Name(directory.LockHolders(StoreNames.AttachedLock))}. Close every queue on it first.");
            directory.Delete(StoreNames.Meta);
            try
            {
                System.IO.Directory.Delete(path, recursive: true);
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                throw new QueueDiskException(
                    $"The store's folder could not be removed: path={path}. Its messages are gone; remove the folder.",
                    0, path, error);
            }
        }
    }
}
