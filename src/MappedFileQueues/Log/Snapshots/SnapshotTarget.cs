using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Snapshots;

/// <summary>
/// The directory that a snapshot is made in. From its first file on, and before anything else, it holds the finished meta page
/// under a name that no opener reads (<see cref="StoreNames.UnfinishedSnapshot"/>). One rename at the end makes it a store.
/// <code>
/// step                                              killed after it
/// 1 make the directory, take its `open` lock        an empty directory
/// 2 write the meta page under that name, flush      no store; openers refuse it by name, the next snapshot clears it
/// 3 segments, cursors, checkpoint, each synced      the same
/// 4 flush the directories                           the same
/// 5 rename the page to `queue.meta`                 the snapshot is there; a power loss may take the rename back
/// 6 flush the directory                             -
/// </code>
/// The lock keeps openers that wait to make a store here, and other snapshots, away until the end. An error undoes it all.
/// </summary>
internal sealed class SnapshotTarget(HeldDirectory directory, PlatformLock open, StoreMeta meta, bool isNew) : IDisposable
{
    /// <summary>The folders whose files have names that users gave.</summary>
    private static readonly string[] s_namedFolders = [StoreNames.Consumers, StoreNames.Groups, StoreNames.Producers];

    public HeldDirectory Directory => directory;

    /// <summary>Steps 1 and 2.</summary>
    public static SnapshotTarget Begin(LogStore source, string path, StoreMeta meta)
    {
        ThrowIfInside(source.Path, path);
        bool isNew;
        using (HeldDirectory? there = source.Os.OpenDirectory(path, create: false, mode: null))
        {
            isNew = there is null;
            if (there is not null)
                ThrowIfUsed(there);
        }

        string sourceMeta = Path.Combine(source.Path, StoreNames.Meta);
        // The users that share the source share the snapshot.
        UnixFileMode? mode = source.Settings.UnixCreateMode ?? (isNew ? CreateModes.SharedAs(sourceMeta) : null);
        HeldDirectory directory = source.Os.OpenDirectory(path, create: true, mode)!;
        PlatformLock? open = null;
        SnapshotTarget? target = null;
        try
        {
            // The name is a whole path, so it means the source's page.
            directory.AdoptModeOf(sourceMeta);
            if (isNew)
                directory.AdoptOwner();
            directory.AvoidCopyOnWrite("");
            directory.CreateSubdirectory(StoreNames.Locks);
            open = OpenLock.Take(directory, source.Settings.LockTimeout, source.ThrowIfClosing);
            // Once more: another process may have come first.
            ThrowIfUsed(directory);
            target = new SnapshotTarget(directory, open, meta, isNew);
            target.Mark();
            return target;
        }
        catch
        {
            target?.Undo();
            if (target is null && open is not null && isNew)
                WholeFile.TryDelete(directory, StoreNames.OpenLock);
            open?.Dispose();
            directory.Dispose();
            // Only while they are empty: whatever is in them by now belongs to another process.
            Remove(Path.Combine(path, StoreNames.Locks), withContent: false);
            if (isNew)
                Remove(path, withContent: false);
            throw;
        }
    }

    /// <summary>Writes a small file of a folder that only some stores have, and syncs it.</summary>
    public void Add(string name, byte[] content)
    {
        _ = Directory.CreateSubdirectory(StoreNames.Producers);
        using PlatformFile file = Directory.Open(name, FileOpening.ReadWriteOrCreate)!;
        file.WriteAt(content, 0);
        file.Sync();
    }

    /// <summary>Steps 4 to 6.</summary>
    public void Finish()
    {
        Directory.FlushEntries(StoreNames.CommitLog);
        foreach (string folder in s_namedFolders)
            Directory.FlushEntriesIfThere(folder);

        Directory.FlushEntries(StoreNames.Offsets);
        Directory.FlushEntries("");
        ProtocolSteps.Reach(ProtocolStep.SnapshotCopied);
        if (!Directory.RenameWithoutReplacing(StoreNames.UnfinishedSnapshot, StoreNames.Meta))
            throw new QueueInUseException(
                $"A process created a store here without the `open` lock: path={Directory.Path}. Choose another folder.");
        ProtocolSteps.Reach(ProtocolStep.SnapshotRenamed);
        Directory.FlushEntries("");
    }

    /// <summary>
    /// After an error: leaves what was there before, as far as the disk still allows it. What it cannot remove is no store.
    /// </summary>
    public void Undo()
    {
        try
        {
            // Only the last flush has failed: no opener has had the lock since the rename.
            if (Directory.Identify(StoreNames.Meta) is not null)
                Directory.Rename(StoreNames.Meta, StoreNames.UnfinishedSnapshot);
            Clear();
            foreach (string name in (string[])[.. s_namedFolders, StoreNames.Offsets, StoreNames.CommitLog])
                Remove(Path.Combine(Directory.Path, name), withContent: false);
            open.Dispose();
            Remove(Path.Combine(Directory.Path, StoreNames.Locks), withContent: true);
            Directory.Delete(StoreNames.UnfinishedSnapshot + WholeFile.TemporarySuffix);
            Directory.Delete(StoreNames.UnfinishedSnapshot);
            if (isNew)
                Remove(Directory.Path, withContent: false);
        }
        catch (QueueDiskException)
        {
            // The caller has an error to report. The next snapshot to this folder clears it.
        }
    }

    public void Dispose()
    {
        open.Dispose();
        Directory.Dispose();
    }

    private void Mark()
    {
        if (Directory.Identify(StoreNames.UnfinishedSnapshot) is not null)
            Clear();
        WholeFile.Replace(Directory, StoreNames.UnfinishedSnapshot, file => file.WriteAt(meta.ToBytes(), 0));
        ProtocolSteps.Reach(ProtocolStep.SnapshotBegun);
        foreach (string name in StoreNames.Directories)
            Directory.CreateSubdirectory(name);
    }

    /// <summary>Removes the files of an unfinished snapshot, except for the page that marks it.</summary>
    private void Clear()
    {
        foreach (string folder in (string[])[StoreNames.CommitLog, .. s_namedFolders])
            Directory.DeleteWhere(folder, static _ => true);

        string[] files =
        [
            StoreNames.Cursor(""), StoreNames.Checkpoint, StoreNames.LogStart,
            StoreNames.Retention, StoreNames.Retention + WholeFile.TemporarySuffix,
            StoreNames.Index, StoreNames.Index + WholeFile.TemporarySuffix,
        ];
        foreach (string name in files)
            Directory.Delete(name);
    }

    /// <summary>
    /// Refuses a folder that holds anything but the remains of an unfinished snapshot, or empty folders of a store.
    /// </summary>
    private static void ThrowIfUsed(HeldDirectory directory)
    {
        IReadOnlyList<string> names = directory.List("");
        if (names.Contains(StoreNames.Meta) || names.Contains(StoreNames.DeletedMeta))
            throw new QueueFormatException($"The target of the snapshot holds a store: path={directory.Path}. "
                + "Choose a new or empty folder; nothing was written.");
        bool isUnfinished = names.Contains(StoreNames.UnfinishedSnapshot);
        string? found = names.FirstOrDefault(name => !IsOfSnapshot(name));
        if (!isUnfinished)
            found ??= directory.List(StoreNames.CommitLog).Select(name => $"{StoreNames.CommitLog}/{name}")
                .Concat(s_namedFolders.SelectMany(folder => directory.List(folder).Select(name => $"{folder}/{name}")))
                .FirstOrDefault();
        if (found is not null)
            throw new QueueFormatException($"The target of the snapshot is not empty: path={directory.Path}, found={found}. "
                + "Choose a new or empty folder; nothing was written.");
    }

    private static bool IsOfSnapshot(string name) => name
        is StoreNames.CommitLog or StoreNames.Offsets or StoreNames.Locks or StoreNames.UnfinishedSnapshot
        or StoreNames.UnfinishedSnapshot + WholeFile.TemporarySuffix
        or StoreNames.Retention or StoreNames.Retention + WholeFile.TemporarySuffix;

    /// <summary>The deletion of the source would take it along.</summary>
    private static void ThrowIfInside(string storePath, string path)
    {
        if (StorePaths.IsInside(storePath, path))
            throw new QueueFormatException(
                $"The target of the snapshot is in the store itself: path={path}, store={storePath}. Choose another folder.");
    }

    /// <summary>Removes a folder for a caller that already has an error to report.</summary>
    private static void Remove(string path, bool withContent)
    {
        try
        {
            System.IO.Directory.Delete(path, recursive: withContent);
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            // An opener that waits here has made its lock's file again, or the disk refuses. What is left is no store.
        }
    }
}
