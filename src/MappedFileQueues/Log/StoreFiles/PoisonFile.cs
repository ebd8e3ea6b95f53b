using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// `poison`: a sync has failed since the store was last recovered. The bit in the control page says the same to every process
/// that is attached, and to the next opener; the file says it beyond a reboot too.
/// </summary>
internal static class PoisonFile
{
    public static bool Exists(HeldDirectory directory) => directory.Identify(StoreNames.Poison) is not null;

    /// <summary>Leaves the file, if the disk that failed still takes it.</summary>
    public static void Make(HeldDirectory directory)
    {
#if MFQ_PLANTED
        if (Memory.PlantedFaults.Has(Memory.PlantedFault.PoisonNotShared))
            return;
#endif
        try
        {
            directory.Open(StoreNames.Poison, FileOpening.ReadWriteOrCreate)?.Dispose();
        }
        catch (QueueDiskException)
        {
            // Read-only by now, or no descriptor free. The caller's own error is the one to report, and the bit remains.
        }
    }
}
