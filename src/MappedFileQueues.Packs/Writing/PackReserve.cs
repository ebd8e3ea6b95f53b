using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// Room that a pack keeps for a full disk, in a file of zeros (docs/PACKS.md section 4). Deletes and compactions are the way out,
/// and both have to write first: deletes get one half of it, compactions all. Until it is whole again no value is put, which
/// would only take what a compaction has freed. One thread at a time uses it: with the appender's gate, or before others know the
/// pack.
/// </summary>
internal sealed class PackReserve(HeldDirectory directory)
{
    private const long LengthMin = 64 * 1024;
    private const long Step = 4096;

    /// <summary>As a part of what the pack holds, and of a volume at most: 1/64.</summary>
    private const int Part = 64;

    private long _length;

    /// <summary>Whether a compaction has it.</summary>
    private bool _isLent;

    /// <summary>Whether the disk has no room for all of it.</summary>
    public bool IsShort { get; private set; }

    /// <summary>Makes the file as long as a pack of this length should have it, if there is room.</summary>
    public void Keep(long packLength, long volumeLength)
    {
        _length = Math.Max(LengthMin, Math.Min(packLength, volumeLength) / Part / Step * Step);
        _isLent = false;
        Restore();
    }

    /// <summary>Tries to make up for what was given; false as long as something is missing.</summary>
    public bool TryRestore()
    {
        if (IsShort && !_isLent)
            Restore();
        return !IsShort;
    }

    /// <summary>Gives a step back to the disk, for a delete; false if nothing is left for deletes.</summary>
    public bool TryGive() => TryCut(length => length > _length / 2 ? Math.Max(0, length - Step) : length);

    /// <summary>Gives everything, for a compaction, until <see cref="Keep"/>.</summary>
    public void Lend()
    {
        _isLent = true;
        _ = TryCut(static _ => 0);
    }

    private void Restore()
    {
        try
        {
            using PlatformFile file = directory.Open(PackNames.Reserve, FileOpening.ReadWriteOrCreate)!;
            long before = file.Length;
            if (before != _length)
                file.SetLength(_length);
            try
            {
                if (before < _length)
                    file.Allocate(before, _length - before);
                IsShort = false;
            }
            catch (QueueDiskException)
            {
                file.SetLength(before);
                throw;
            }
        }
        catch (QueueDiskException error)
        {
            // Of anything but a full disk the next put or sync tells.
            IsShort = DiskErrors.IsFull(error.Errno);
        }
    }

    private bool TryCut(Func<long, long> cut)
    {
        try
        {
            using PlatformFile? file = directory.Open(PackNames.Reserve, FileOpening.ReadWrite);
            long before = file?.Length ?? 0;
            long length = cut(before);
            if (length == before)
                return false;
            file!.SetLength(length);
            return IsShort = true;
        }
        catch (QueueDiskException)
        {
            return false;
        }
    }
}
