using System.Globalization;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// Finds the needle of a key. The index gives the places at which it may be, mostly one, and the needle there holds the key. For
/// any thread. The result is the newest value at some moment during the call.
/// </summary>
internal sealed class PackLookup(PackIndex index, VolumeTable volumes, HiddenNeedles hidden, KeyHash keyHash)
{
    private const int CandidatesExpected = 8;

    public ulong HashOf(ReadOnlySpan<byte> key) => keyHash.Of(key);

    /// <summary>
    /// Looks up a key. If it is found, <paramref name="read"/> holds header and key (with <paramref name="wholeNeedle"/> also the
    /// rest, unless that is large), and <paramref name="entry"/> is its entry in the index. Damage at a place that may be the
    /// key's is an exception, because the key may exist. With <paramref name="passDamage"/> the result is false instead, and the
    /// entry is that of the damaged place, or 0 without one; and hidden needles are not checked.
    /// </summary>
    /// <exception cref="PackCorruptException">
    /// A needle that may be the key's is damaged, or damage may hide a newer needle of the key.
    /// </exception>
    /// <exception cref="ObjectDisposedException">The key was not found, and the pack is disposed.</exception>
    public bool TryFind(
        ReadOnlySpan<byte> key, ulong hash, bool wholeNeedle, bool passDamage, ref NeedleRead read, out ulong entry)
    {
        Span<ulong> own = stackalloc ulong[CandidatesExpected];
        while (true)
        {
            Span<ulong> found = own;
            int count = index.Find(hash, ref found, out int version);
            ulong unreadable = 0;
            for (int i = 0; i < count; i++)
            {
                entry = found[i];
                NeedleMatch match = Look(key, entry, wholeNeedle, passDamage, ref read);
                if (match == NeedleMatch.Same)
                {
                    if (!passDamage && !hidden.IsEmpty)
                        hidden.Check(key, hash, new NeedlePosition(read.Volume.Name.Last, read.Position));
                    return true;
                }

                if (match == NeedleMatch.Damaged)
                    unreadable = entry;
            }

            // A compaction may have moved the needle after the lookup in the index, and another volume may have taken the slot.
            // Then another key's needle is at this place.
            if (count > 0 && index.ShardOf(hash).Version != version)
                continue;
            volumes.ThrowIfDisposed();
            entry = unreadable;
            if (unreadable != 0 && !passDamage)
                throw Damaged(unreadable);
            HiddenStretch? hiding = passDamage ? null : hidden.FindUnlessIgnored(key, hash, known: null);
            if (hiding is null)
                return false;

            // A put of a deleted key may have come after the lookup in the index.
            if (index.ShardOf(hash).Version == version)
                throw hidden.Error(hiding);
        }
    }

    /// <summary>The exception for a needle that cannot be read.</summary>
    public static PackCorruptException Damaged(Volume volume, long position) => new(
        string.Create(CultureInfo.InvariantCulture, $"An object is damaged: file={volume.File.Path}, position={position}. ")
        + "Other objects can be read; `mfq pack verify` lists all damage. Put the object again, or restore the file.",
        volume.Name.Path,
        position);

    private NeedleMatch Look(ReadOnlySpan<byte> key, ulong entry, bool wholeNeedle, bool passDamage, ref NeedleRead read)
    {
        Volume? volume = volumes.At(index.Layout.Slot(entry));
        if (volume is null || !volume.TryAcquire())
            return NeedleMatch.Damaged;
        int readLength = IndexEntry.ReadLength(index.Layout.SizeClass(entry));
        try
        {
            return read.Look(volume, index.Layout.Position(entry), readLength, key, wholeNeedle);
        }
        catch (QueueDiskException) when (passDamage)
        {
            return NeedleMatch.Damaged;
        }
    }

    private Exception Damaged(ulong entry)
    {
        int slot = index.Layout.Slot(entry);
        long position = index.Layout.Position(entry);
        return volumes.At(slot) is { } volume ? Damaged(volume, position) : new PackCorruptException(
            string.Create(CultureInfo.InvariantCulture, $"The volume of an object is missing: slot={slot}, position={position}. ")
            + "Restore the pack's files.",
            PackNames.Volumes,
            position);
    }
}
