using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Loading;

/// <summary>
/// Decides at a position without a needle, in the volume that takes puts, whether the volume ends there (in a write that was torn
/// or is under way) or is damaged: cases 4 to 7 of docs/PACKS.md section 5. The rule is that a volume does not end before a valid
/// needle, unless a power loss can have left exactly that.
/// </summary>
/// <param name="core">The pack.</param>
/// <param name="volume">The volume.</param>
/// <param name="end">The scan reads up to here: beside a writer the file grows.</param>
/// <param name="covered">Everything before this position was on disk, according to the checkpoint.</param>
/// <param name="hasLock">Whether the caller holds the writer's lock, so there is no other writer.</param>
internal sealed class VolumeEnd(PackCore core, Volume volume, long end, long covered, bool hasLock)
{
    /// <summary>What a disk writes completely or not at all.</summary>
    private const int SectorLength = 512;

    private SyncedMark? _mark;
    private bool _isMemoryWhole;
    private long? _syncedAfter;

    /// <summary>Whether this position, which has no needle, is damaged.</summary>
    public bool IsDamage(long position)
    {
        if (IsUnderWay(position))
            return false;
        if (PlantedFaults.Has(PlantedFault.PackDamageIsEnd))
            return false;
        long next = NextValid(position);
        if (_mark is null)
        {
            _mark = SyncedMark.Read(core.Directory, core.Meta.PackId);
            _isMemoryWhole = _mark.IsMemoryWhole(core.Directory);
        }

        bool isSynced = position < Math.Max(covered, _mark.SyncedOf(volume.Name));
        bool isDamage = isSynced || (next < end
            ? _isMemoryWhole || !MayBeUnwritten(position, next) || SyncedAfter(next) > position
            : hasLock && (_isMemoryWhole
                ? !MayBeBeginning(position)
                : IsAllThere(position) && !MayBeUnwritten(position, end)));

        // The needle may have been incomplete at the first look and complete before the end of these checks, in particular before
        // the mark was read. So it is read once more, up to the current end of the file: the system lengthens a file page by
        // page.
        return isDamage && !IsThereNow(position);
    }

    /// <summary>
    /// Whether there is a valid header of a needle that continues beyond the end of the file: nothing can follow it.
    /// </summary>
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
    /// The highest position that a needle from here on gives as synced when it was written. Found once: the last needle's is the
    /// same.
    /// </summary>
    private long SyncedAfter(long next)
    {
        if (_syncedAfter is { } known)
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

        _syncedAfter = synced;
        return synced;
    }

    /// <summary>
    /// Whether a power loss can have spoiled the needle here. A power loss leaves whole sectors as they were before, and beyond
    /// the end of the volume they were zeros. If no sector is like that, something else changed the bytes.
    /// </summary>
    private bool MayBeUnwritten(long position, long next)
    {
        byte[] sector = new byte[SectorLength];
        long extent = NeedleLayout.HeaderLength;
        List<long> starts = [position];
        if (PlantedFaults.Has(PlantedFault.PackCutIsDamage))
            return false;
        Span<byte> header = stackalloc byte[NeedleLayout.HeaderLength];
        if (volume.File.ReadAt(header, position) == header.Length && NeedleLayout.TryRead(header, out NeedleLayout needle))
        {
            extent = needle.Length;

            // A long needle is written in three parts, and a sector may have received only the earlier ones: then it is zeros
            // from the beginning of a later part on. The padding before the footer is zeros in any case: a sector that ends in it
            // is complete.
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
    /// Whether the bytes from here to the end can be the beginning of a needle, which is what a killed process leaves of a write.
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

    /// <summary>Whether a needle was written here completely.</summary>
    private bool IsAllThere(long position)
    {
        using var scanner = new VolumeScanner(volume, position, end);
        return scanner.TryLook(out NeedleLayout needle)
            ? needle.Length <= end - position
            : LostNeedle.TracesOf(volume, position, end).Count > 0;
    }
}
