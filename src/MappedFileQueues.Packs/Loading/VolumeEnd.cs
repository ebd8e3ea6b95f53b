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

    /// <summary>How many bytes all decisions about a volume may look at, for each byte that is scanned.</summary>
    private const int LookFactor = 4;

    /// <summary>
    /// What is left of it. Only forged needles use it up: they may overlap, and each stop would read up to the volume's end.
    /// </summary>
    private long _left = LookFactor * (Math.Max(0, end - covered) + NeedleLayout.LengthMax);

    /// <summary>The needle that <see cref="NextValid"/> has found, or the end, and its sequence.</summary>
    private long _next = -1;
    private ulong _nextSequence;
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
        if (!TrySpendOnHeader(position, out NeedleLayout promised) || promised.Length <= end - position)
            return false;
        using var scanner = new VolumeScanner(volume, position, end, VolumeScanner.LookLength);
        return scanner.TryLook(out NeedleLayout needle) && needle.Length > end - position;
    }

    /// <summary>
    /// The next valid needle after this position, or the end. One that was found from an earlier position is the next one from
    /// here too: positions and sequences only rise.
    /// </summary>
    private long NextValid(long position)
    {
        if (_next > position && (_next >= end || _nextSequence > core.Sequence))
            return _next;
        using var scanner = new VolumeScanner(volume, Math.Max(position, _next), end);
        bool isFound = scanner.TryResync(core.Sequence, wholeNeedle: true);
        _next = scanner.Position;
        _nextSequence = isFound && scanner.TryNext(core.Sequence, wholeNeedle: false) ? scanner.Needle.Sequence : 0;
        return _next;
    }

    private bool IsThereNow(long position)
    {
        if (!TrySpendOnHeader(position, out _))
            return false;
        using var again = new VolumeScanner(
            volume, position, Math.Min(volume.File.Length, volume.EndsAt), VolumeScanner.LookLength);
        return again.TryNext(core.Sequence, wholeNeedle: true);
    }

    private bool TrySpend(long length)
    {
        _left -= length;
        return _left >= 0;
    }

    /// <summary>Whether there may be a header here, and its key may be looked at.</summary>
    private bool TrySpendOnHeader(long position, out NeedleLayout promised)
    {
        Span<byte> header = stackalloc byte[NeedleLayout.HeaderLength];
        promised = default;
        return volume.File.ReadAt(header, position) == header.Length && NeedleLayout.TryRead(header, out promised)
            && TrySpend(promised.DataAt);
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
        if (!TrySpend(until - position))
            return false;
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
        using (var scanner = new VolumeScanner(volume, position, end, VolumeScanner.LookLength))
        {
            if (TrySpendOnHeader(position, out _) && scanner.TryLook(out NeedleLayout needle))
                return needle.Length <= end - position;
        }

        // It is read once, and checked with several lengths.
        long length = end - position;
        return length <= NeedleLayout.LengthMax && TrySpend(LookFactor * length)
            && LostNeedle.TracesOf(volume, position, end).Count > 0;
    }
}
