using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Contract;

/// <summary>
/// Makes an empty, closed store one whose log begins at a later segment, as if everything before it had been removed.
/// </summary>
internal static class LaterLog
{
    public static void Begin(string storePath, long start)
    {
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(storePath, create: false, mode: null)!;
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        Guid boot = CurrentPlatform.Services.Boot.Stored;
        directory.Rename(StoreNames.Segment(0), StoreNames.Segment(start));
        new CheckpointFile(directory, meta.StoreId).WriteBoth(start, epoch: 0, boot);
        CheckpointFile.RecordLogStart(directory, meta, start, epoch: 0, boot);
        directory.Delete(StoreNames.Control);
    }
}
