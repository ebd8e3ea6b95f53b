using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// `poison`: a sync has failed since the store was last recovered. The bit in the control page tells every attached process and
/// the next opener the same; the file also survives a reboot.
/// </summary>
internal static class PoisonFile
{
    public static bool Exists(HeldDirectory directory) => directory.Identify(StoreNames.Poison) is not null;

    /// <summary>Creates the file, if the failed disk still accepts it.</summary>
    public static void Make(HeldDirectory directory)
    {
        if (PlantedFaults.Has(PlantedFault.PoisonNotShared))
            return;
        try
        {
            directory.Open(StoreNames.Poison, FileOpening.ReadWriteOrCreate)?.Dispose();
        }
        catch (QueueDiskException)
        {
            // The disk is read-only by now, or no descriptor is free. The caller reports its own error, and the bit remains.
        }
    }
}
