using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// Room that a pack keeps for a full disk, in a file of zeros (docs/PACKS.md section 4). Deletes and compactions are the way out,
/// and both have to write first: they get what this file gives back. Nothing depends on it: where it cannot be made, they fail as
/// puts do. One thread at a time changes it: with the appender's gate, or before others know the pack.
/// </summary>
internal sealed class PackReserve(HeldDirectory directory)
{
    private const long LengthMin = 64 * 1024;
    private const long Step = 4096;

    /// <summary>As a part of what the pack holds, and of a volume at most: 1/64.</summary>
    private const int Part = 64;

    /// <summary>Makes the file as long as a pack of this length should have it; leaves it as it is if there is no room.</summary>
    public void Keep(long packLength, long volumeLength)
    {
        long length = Math.Max(LengthMin, Math.Min(packLength, volumeLength) / Part / Step * Step);
        try
        {
            using PlatformFile file = directory.Open(PackNames.Reserve, FileOpening.ReadWriteOrCreate)!;
            long before = file.Length;
            if (before == length)
                return;
            file.SetLength(length);
            try
            {
                file.Allocate(0, length);
            }
            catch (QueueDiskException)
            {
                file.SetLength(before);
            }
        }
        catch (QueueDiskException)
        {
            // It may be possible after the next checkpoint.
        }
    }

    /// <summary>Gives a step back to the disk, or everything; false if nothing was left.</summary>
    public bool TryGive(bool everything)
    {
        try
        {
            using PlatformFile? file = directory.Open(PackNames.Reserve, FileOpening.ReadWrite);
            long length = file?.Length ?? 0;
            if (length > 0)
                file!.SetLength(everything ? 0 : Math.Max(0, length - Step));
            return length > 0;
        }
        catch (QueueDiskException)
        {
            return false;
        }
    }
}
