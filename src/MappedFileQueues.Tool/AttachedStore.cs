using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tool;

/// <summary>
/// Opens a store of either kind. Each public queue opens one kind, by the type that the caller has at compile time. Here the
/// store's own meta page names the kind, and structs are bytes.
/// </summary>
internal static class AttachedStore
{
    /// <summary>Attaches to a store that is there; a missing one is not created.</summary>
    public static QueueCore Open(MappedFileQueueOptions options, Action<CorruptionSkippedEventArgs>? onSkipped = null)
    {
        StoreMeta meta = ReadMeta(options.StorePath);
        options.CreateIfMissing = false;
        return new QueueCore(options, meta.Kind, meta.StructSize, meta.LayoutFingerprint, onSkipped);
    }

    private static StoreMeta ReadMeta(string storePath)
    {
        string path = Path.GetFullPath(storePath);
        using HeldDirectory? directory = CurrentPlatform.Services.OpenDirectory(path, create: false, mode: null);
        return (directory is null ? null : StoreMetaFile.Read(directory))
            ?? throw new ToolException($"There is no store: path={path}. Correct the path; `mfq produce` creates a store.");
    }
}
