namespace MappedFileQueues.Packs.Format;

/// <summary>The names of a pack's files, relative to its directory.</summary>
internal static class PackNames
{
    public const string Meta = "pack.meta";
    public const string Volumes = "volumes";
    public const string Checkpoint = "index.checkpoint";
    public const string Synced = "synced";
    public const string Reserve = "reserve";
    public const string Locks = "locks";
    public const string WriterLock = "locks/writer";
    public const string Salvage = "salvage";
    public const string Poison = "poison";
}
