using MappedFileQueues.Engine;
using MappedFileQueues.Log.Opening;

namespace MappedFileQueues.Tool;

/// <summary>
/// Opens a store of either kind. Each public queue opens one kind, by the type that the caller has at compile time. Here the
/// store's own meta page names the kind, and structs are bytes.
/// </summary>
internal static class AttachedStore
{
    /// <summary>Attaches to a store that is there; a missing one is not created.</summary>
    public static StoreEngine Open(MappedFileQueueOptions options, Action<CorruptionSkippedEventArgs>? onSkipped = null)
    {
        StoreMeta meta = FindMeta(options.StorePath) ?? throw Missing(options.StorePath);
        options.CreateIfMissing = false;
        return new StoreEngine(options, meta.Kind, meta.StructSize, meta.LayoutFingerprint, onSkipped);
    }

    public static ToolException Missing(string storePath) =>
        new($"There is no store: path={SystemPath.Full(storePath)}. Correct the path; `mfq produce` creates a store.");

    /// <summary>What the store's meta page says; null if there is no store.</summary>
    public static StoreMeta? FindMeta(string storePath)
    {
        using HeldDirectory? directory =
            CurrentPlatform.Services.OpenDirectory(SystemPath.Full(storePath), create: false, mode: null);
        return directory is null ? null : StoreMetaFile.Read(directory);
    }

    /// <summary>Removes a store that a command made and could not append to; the command tells why.</summary>
    public static void RemoveUnused(string storePath, bool keepsFolder)
    {
        try
        {
            StoreDeletion.DeleteUnused(SystemPath.Full(storePath), keepsFolder);
        }
        catch (MappedFileQueueException)
        {
            // Another process uses it, or it was not even made.
        }
    }
}
