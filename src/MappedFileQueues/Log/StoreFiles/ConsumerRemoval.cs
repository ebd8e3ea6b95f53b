using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// Removes a consumer for good. The caller holds the consumer's name.
/// <code>
/// step                                          killed after it
/// 1 remove the cursor's file                    a power loss may bring the consumer back
/// 2 flush the folder's entries                  the lock's file is left over: the next removal of the name takes it along
/// 3 remove the lock's file, still held          -
/// 4 release the lock                            -
/// </code>
/// The lock of a producer's id goes likewise. All others stay, because a process may hold a lock on a file that has lost its
/// name, while another one holds the lock on a new file of that name. On Linux that cannot happen: whoever gets a lock compares
/// the inodes of descriptor and name afterwards. A process that opened the file before step 3 gets its lock after step 4, finds
/// another file or none, and starts over. Portable cannot compare, so the file stays where a Portable process is attached. Step 3
/// runs under `open`, so that none attaches between the look and the removal.
/// </summary>
internal static unsafe class ConsumerRemoval
{
    /// <summary>
    /// Retention holds `open` for a moment at each roll. When others hold it for longer, the lock's file stays, which does no
    /// harm.
    /// </summary>
    private static readonly TimeSpan OpenWaitMax = TimeSpan.FromSeconds(1);

    /// <summary>Whether there is anything to remove, so that a look for a wrong name makes no lock's file.</summary>
    public static bool HasTraces(HeldDirectory directory, string name) =>
        directory.Identify(StoreNames.Cursor(name)) is not null
        || directory.Identify(StoreNames.ConsumerLock(name)) is not null;

    /// <summary>Steps 1 to 3; false when there was no cursor.</summary>
    /// <param name="directory">The store.</param>
    /// <param name="control">Says whether a Portable process is attached.</param>
    /// <param name="isPortable">This process is one.</param>
    /// <param name="name">The consumer's name, which the caller holds.</param>
    public static bool Remove(HeldDirectory directory, ControlPage control, bool isPortable, string name)
    {
        // An opening or a reset that failed may have left a cursor without an offset: that is no consumer yet.
        StoredCursor cursor = CursorFile.TryRead(directory, StoreNames.Cursor(name));
        bool existed = cursor.Offset is not null || cursor.IsUnknown;
        ThrowIfHeld(directory, name);
        _ = directory.Delete(StoreNames.Cursor(name));
        PlaceFiles.NoteChange(control);
        ProtocolSteps.Reach(ProtocolStep.CursorDeleted);
        // Also when it was gone: its remover may have died before the flush.
        directory.FlushEntries(CursorFile.FolderOf(name));
        ProtocolSteps.Reach(ProtocolStep.CursorDeletionFlushed);
        if (!isPortable)
            TryRemoveLock(directory, control, StoreNames.ConsumerLock(name));
        return existed;
    }

    /// <summary>The lock of the name may be a new file, while a consumer holds the one that was removed.</summary>
    private static void ThrowIfHeld(HeldDirectory directory, string name)
    {
        try
        {
            using PlatformFile? cursor = directory.Open(StoreNames.Cursor(name), FileOpening.ReadWrite);
            if (cursor is not null)
                CursorFile.TakeAlone(directory, cursor);
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.EACCES)
        {
            // Another user's cursor in a folder that is shared: whoever may remove it may do so.
        }
    }

    /// <summary>Step 3, on Linux: for any lock of a name that the caller holds.</summary>
    public static void TryRemoveLock(HeldDirectory directory, ControlPage control, string lockName)
    {
        using PlatformLock? open = OpenLock.TryTake(directory, OpenWaitMax);
        // P35 acquire: set under `open`; pairs with P35 release in StoreOpening.
        if (open is null || SharedWord.ReadAcquire(control.HasPollers) != 0)
            return;
        try
        {
            _ = directory.Delete(lockName);
        }
        catch (QueueDiskException)
        {
            // It stays: its existence means nothing.
        }
    }
}
