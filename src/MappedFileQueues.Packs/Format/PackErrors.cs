using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Format;

/// <summary>The errors that several entry points of a pack throw, worded in one place.</summary>
internal static class PackErrors
{
    public static PackNotFoundException NoPack(string path) =>
        new($"There is no pack here: path={path}, missing={PackNames.Meta}. Check the path, or create one "
            + "with `mfq pack create`.", path);

    public static PackFormatException Foreign(string path, string found) =>
        new($"The directory holds other files and no pack: path={path}, found={found}. Name an empty directory or a pack.");

    public static PackFormatException FileSystem(string path, string name) =>
        new($"File locks are not reliable on this file system, so a pack is not safe there: path={path}, fileSystem={name}. "
            + "Put it on a local one, or set DangerouslyAllowFileSystem.");

    public static MappedFileQueueException InUse(HeldDirectory directory) => OfPack(directory.InUse(
        PackNames.WriterLock, "Another writer has the pack open",
        "Close it there, or read the pack by PackStore.OpenReader, which needs no lock."))!;

    /// <summary>The pack's own error for one of the files and locks that stores have too; null if it is no such error.</summary>
    public static MappedFileQueueException? OfPack(MappedFileQueueException error) => error switch
    {
        QueueInUseException held => new PackInUseException(held.Message, held.HolderProcessIds),
        QueueFormatException => new PackFormatException(error.Message, error),
        QueueDeletedException => new PackDeletedException(error.Message, error),
        _ => null,
    };

    public static PackDeletedException Removed(string path) => new(
        $"The pack was removed while it was open: path={path}, missing={PackNames.Meta}. Close it, and open what is there now.");

    /// <summary>Throws <see cref="Removed"/> when the pack's meta file has no name any more.</summary>
    public static void ThrowIfRemoved(HeldDirectory directory)
    {
        if (directory.Identify(PackNames.Meta) is null)
            throw Removed(directory.Path);
    }

    public static QueueDiskException Full(string path) => new(
        $"The disk is full, and what is left is for deletes and compactions: path={path}, errno={DiskErrors.ENOSPC}. "
            + "Free space on that file system, or delete objects and compact the pack, then try again.",
        DiskErrors.ENOSPC,
        path);

    public static PackPoisonedException Poisoned(string path, Exception? cause) =>
        new($"An earlier sync of the pack failed: path={path}. The pack accepts no more writes; close it and open it again.",
            cause);
}
