using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// `queue.meta`: reads it and checks it against the request, or creates it once, under the `open` lock: written under a
/// temporary name, synced, renamed without replacing, then the directory is synced. Before it exists, the folder holds only
/// empty directories and locks.
/// </summary>
internal static class StoreMetaFile
{
    private const string Temporary = StoreNames.Meta + WholeFile.TemporarySuffix;

    /// <summary>
    /// The page; null when the folder holds none. Throws <see cref="QueueFormatException"/> when it is damaged or of another
    /// version.
    /// </summary>
    public static StoreMeta? Read(HeldDirectory directory)
    {
        using PlatformFile? file = directory.Open(StoreNames.Meta, FileOpening.Read);
        if (file is null)
            return null;
        byte[] bytes = new byte[StoreMeta.Length + 1];
        int read = file.ReadAt(bytes, 0);
        return StoreMeta.Parse(bytes.AsSpan(0, read), file.Path);
    }

    public static StoreMeta Create(HeldDirectory directory, StoreRequest request, LogSettings settings, Guid boot,
        PlatformLock openLock)
    {
        ThrowIfHalfDone(directory);
        // In this order: a deletion removes the locks first, and the mark of a half-deleted store last.
        if (!openLock.IsInPlace)
            throw new QueueDeletedException(
                $"The store was deleted while this call waited to open it: path={directory.Path}. Open it again.");
        var meta = new StoreMeta(request.Kind, request.SegmentLength, request.StructSize, request.LayoutFingerprint,
            settings.StoreId ?? Guid.NewGuid(), settings.TimeProvider.GetUtcNow());
        WholeFile.Write(directory, StoreNames.Meta, file => file.WriteAt(meta.ToBytes(), 0));
        try
        {
            // The checkpoint comes first: a store with a meta page and no checkpoint has lost its checkpoint. The record names
            // the boot, because it stands in for a control page that is damaged, or that a dead opener was writing.
            new CheckpointFile(directory, meta.StoreId).Create(boot);
            new CheckpointFile(directory, meta.StoreId, StoreNames.LogStart).Create(boot);
            directory.FlushEntries(StoreNames.Offsets);
            ProtocolSteps.Reach(ProtocolStep.MetaWritten);
            if (!directory.RenameWithoutReplacing(Temporary, StoreNames.Meta))
                throw new QueueInUseException(
                    $"A process created a store here without the `open` lock: path={directory.Path}. Open it again.");
        }
        catch
        {
            WholeFile.TryDelete(directory, Temporary);
            throw;
        }

        ProtocolSteps.Reach(ProtocolStep.MetaRenamed);
        directory.FlushEntries("");
        return meta;
    }

    /// <summary>Refuses a store of another kind or struct.</summary>
    public static void ThrowIfOther(StoreMeta meta, StoreRequest request, string path)
    {
        if (meta.Kind != request.Kind)
            throw new QueueFormatException($"The store holds {Describe(meta.Kind)}, not {Describe(request.Kind)}: path={path}. "
                + (meta.Kind == StoreKind.Struct ? "Open it as MappedFileQueue<T>." : "Open it as MappedFileQueue."));
        if (!meta.Holds(request.StructSize, request.LayoutFingerprint))
            throw new QueueFormatException($"The store holds another struct: path={path}, structSize={meta.StructSize}, "
                + $"expected={request.StructSize}, layout={meta.LayoutFingerprint:x16}, "
                + $"expected={request.LayoutFingerprint:x16}. "
                + "Open it with the struct that made it (same fields, types and offsets).");
    }

    /// <summary>
    /// Refuses to create a store in a folder with other content: a 1.x folder, or files that are not a store's. The remains of a
    /// crash during creation (our directories, locks, temporary files) are accepted.
    /// </summary>
    public static void ThrowIfForeign(HeldDirectory directory, StoreRequest request)
    {
        ThrowIfHalfDone(directory);
        IReadOnlyList<string> names = directory.List("");
        bool isOldVersion = directory.List(StoreNames.Offsets).Any(name => name.EndsWith(".offset", StringComparison.Ordinal))
            || directory.List(StoreNames.CommitLog).Any(name => name.Length == 20 && name.All(char.IsAsciiDigit));
        if (isOldVersion)
            throw new QueueFormatException($"The folder holds a store of MappedFileQueues 1.x: path={directory.Path}. "
                + $"Nothing was written. Open another folder: `mfq import-v1 {directory.Path} {directory.Path}-2 "
                + (request.Kind == StoreKind.Struct ? $"--struct-size {request.StructSize}" : "--stream")
                + "` fills it with the messages (docs/guide/moving.md).");
        string? foreign = names.FirstOrDefault(name =>
            name is not (StoreNames.CommitLog or StoreNames.Offsets or StoreNames.Locks or Temporary));
        foreign ??= directory.List(StoreNames.CommitLog).Select(name => $"{StoreNames.CommitLog}/{name}").FirstOrDefault();
        // Another process may have created the store since the check above: then these files belong to it.
        if (foreign is not null && directory.Identify(StoreNames.Meta) is null)
            throw new QueueFormatException($"The folder is not empty and holds no store: path={directory.Path}, found={foreign}. "
                + $"Choose an empty folder, or restore {StoreNames.Meta}; nothing was written.");
    }

    /// <summary>
    /// No store may be created in the middle of a deletion, or in what an unfinished snapshot has left: its recovery would find
    /// another log's frames, and zero segments that the snapshot's source still uses.
    /// </summary>
    private static void ThrowIfHalfDone(HeldDirectory directory)
    {
        if (directory.Identify(StoreNames.UnfinishedSnapshot) is not null)
            throw new QueueFormatException($"The folder holds an unfinished snapshot: path={directory.Path}, "
                + $"found={StoreNames.UnfinishedSnapshot}. Take the snapshot again, or remove the folder; nothing was written.");
        if (directory.Identify(StoreNames.DeletedMeta) is not null)
            throw new QueueDeletedException($"The store is being deleted, or a deletion was interrupted: path={directory.Path}, "
                + $"found={StoreNames.DeletedMeta}. Call MappedFileQueue.Delete again, then open it.");
    }

    private static string Describe(StoreKind kind) => kind == StoreKind.Struct ? "structs" : "messages of any length";
}
