using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Loading;

/// <summary>
/// Decides, where no needle stands in the volume that takes puts, whether the volume ends there (a write that was torn, or is
/// under way) or is damaged: cases 4 to 7 of docs/PACKS.md section 5. What follows is the rule that nothing is taken for an end
/// behind which a valid needle stands, unless a power cut can have left just that.
/// </summary>
/// <param name="core">The pack.</param>
/// <param name="volume">The volume.</param>
/// <param name="end">Up to here the scan looks: beside a writer the file grows.</param>
/// <param name="covered">Everything before it was on disk, as the checkpoint says.</param>
/// <param name="hasLock">Nobody writes meanwhile.</param>
internal sealed class VolumeEnd(PackCore core, Volume volume, long end, long covered, bool hasLock)
{
    /// <summary>What a disk writes as a whole or not at all.</summary>
    private const int SectorLength = 512;

    private SyncedMark? _mark;
    private bool _isMemoryWhole;
    private long? _syncedBehind;

    /// <summary>Whether this place, at which no needle stands, is damaged.</summary>
    public bool IsDamage(long position)
    {
        if (IsUnderWay(position))
            return false;
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.PackDamageIsEnd))
            return false;
#endif
        long next = NextValid(position);
        if (_mark is null)
        {
            _mark = SyncedMark.Read(core.Directory, core.Meta.PackId);
            _isMemoryWhole = _mark.IsMemoryWhole(core.Directory);
        }

        bool isSynced = position < Math.Max(covered, _mark.SyncedOf(volume.Name));
        bool isDamage = isSynced || (next < end
            ? _isMemoryWhole || !MayBeUnwritten(position, next) || SyncedBehind(next) > position
            : hasLock && (_isMemoryWhole
                ? !MayBeBeginning(position)
                : IsAllThere(position) && !MayBeUnwritten(position, end)));

        // The needle may have been in the making when it was looked at, and whole before all this was found, the mark above
        // all. So it is read once more, as far as the file reaches by now: the system lengthens it page by page.
        return isDamage && !IsThereNow(position);
    }

    /// <summary>A valid header of a needle that goes on behind the end of the file: nothing stands behind it.</summary>
    private bool IsUnderWay(long position)
    {
        using var scanner = new VolumeScanner(volume, position, end);
        return scanner.TryLook(out NeedleLayout needle) && needle.Length > end - position;
    }

    private long NextValid(long position)
    {
        using var scanner = new VolumeScanner(volume, position, end);
        scanner.TryResync(core.Sequence, wholeNeedle: true);
        return scanner.Position;
    }

    private bool IsThereNow(long position)
    {
        using var again = new VolumeScanner(volume, position, Math.Min(volume.File.Length, volume.EndsAt));
        return again.TryNext(core.Sequence, wholeNeedle: true);
    }

    /// <summary>
    /// The furthest that a needle from here on says was on disk when it was written. Found once: it is that of the last one.
    /// </summary>
    private long SyncedBehind(long next)
    {
        if (_syncedBehind is { } known)
            return known;
        long synced = 0;
        using var scanner = new VolumeScanner(volume, next, end);
        ulong sequence = core.Sequence;
        while (!scanner.IsAtEnd)
        {
            if (scanner.TryNext(sequence, wholeNeedle: true))
                (synced, sequence) = (Math.Max(synced, scanner.Needle.Synced), scanner.Needle.Sequence);
            else
                scanner.TryResync(sequence, wholeNeedle: true);
        }

        _syncedBehind = synced;
        return synced;
    }

    /// <summary>
    /// Whether a power cut can have spoiled the needle here: it leaves whole sectors as they were before, and behind the end
    /// of the
    /// volume that is zeros. Where no sector is so, something else has changed the bytes.
    /// </summary>
    private bool MayBeUnwritten(long position, long next)
    {
        byte[] sector = new byte[SectorLength];
        long extent = NeedleLayout.HeaderLength;
        List<long> starts = [position];
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.PackCutIsDamage))
            return false;
#endif
        Span<byte> header = stackalloc byte[NeedleLayout.HeaderLength];
        if (volume.File.ReadAt(header, position) == header.Length && NeedleLayout.TryRead(header, out NeedleLayout needle))
        {
            extent = needle.Length;

            // A long needle is written in three parts, each of which may have been all that a sector had got. The padding before
            // the footer is zeros in any case: a sector that ends in it lacks nothing.
            if (needle.Length > NeedleSource.OneWriteMax)
                starts.AddRange([position + needle.DataAt, position + needle.Length - NeedleLayout.FooterLength]);
        }

        long until = Math.Min(next, position + extent);
        for (long at = position / SectorLength * SectorLength; at < until; at += SectorLength)
        {
            int read = volume.File.ReadAt(sector, at);
            ReadOnlySpan<byte> bytes = sector.AsSpan(0, read);
            foreach (long start in starts.Append(at).Where(start => start >= position && start >= at && start < at + read))
            {
                if (!bytes[(int)(start - at)..].ContainsAnyExcept((byte)0))
                    return true;
            }
        }

        return false;
    }

    /// <summary>
    /// Whether what stands from here to the end can be the beginning of a needle, which is what a killed process leaves of a
    /// write.
    /// </summary>
    private bool MayBeBeginning(long position)
    {
        long rest = end - position;
        if (rest < NeedleLayout.HeaderLength)
            return true;
        Span<byte> header = stackalloc byte[NeedleLayout.HeaderLength];
        return volume.File.ReadAt(header, position) == header.Length && NeedleLayout.TryRead(header, out NeedleLayout needle)
            && needle.DataAt > rest && !IsAllThere(position);
    }

    /// <summary>Whether a needle had been written here as a whole.</summary>
    private bool IsAllThere(long position)
    {
        using var scanner = new VolumeScanner(volume, position, end);
        return scanner.TryLook(out NeedleLayout needle)
            ? needle.Length <= end - position
            : LostNeedle.TracesOf(volume, position, end).Count > 0;
    }
}
