using System.Globalization;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Index;

/// <summary>
/// Finds the needle of a key: the index names the places it may be at, mostly one, and the needle there says whose it is. Any
/// thread. What is found is the newest value at some moment during the call.
/// </summary>
internal sealed class PackLookup(PackIndex index, VolumeTable volumes, HiddenNeedles hidden, KeyHash keyHash)
{
    private const int CandidatesExpected = 8;

    public ulong HashOf(ReadOnlySpan<byte> key) => keyHash.Of(key);

    /// <summary>
    /// Looks a key up; when it is there, <paramref name="read"/> holds header and key (with <paramref name="wholeNeedle"/> the
    /// rest too, unless it is large), and the entry is the one of the index. Damage at a place that may be the key's is an
    /// exception, because nobody can say then that the key is not there. With <paramref name="passDamage"/> the result is false
    /// instead, and the entry is the one of that place; 0 when there is none; and what damage hides is not asked for.
    /// </summary>
    /// <exception cref="QueueCorruptException">
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

            // A compaction may have moved the needle after the index was asked, and another volume may have taken the slot: then
            // another key's needle stands where this one's was.
            if (count > 0 && index.ShardOf(hash).Version != version)
                continue;
            volumes.ThrowIfDisposed();
            entry = unreadable;
            if (unreadable != 0 && !passDamage)
                throw Damaged(unreadable);
            if (!passDamage && !hidden.IsEmpty)
                hidden.Check(key, hash, known: null);
            return false;
        }
    }

    /// <summary>The error for a needle that cannot be read.</summary>
    public static QueueCorruptException Damaged(Volume volume, long position) => new(
        string.Create(CultureInfo.InvariantCulture, $"An object is damaged: file={volume.File.Path}, position={position}. ")
        + "The others can be read; `mfq pack verify` lists all damage. Put the object again, or restore the file.",
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
        return volumes.At(slot) is { } volume ? Damaged(volume, position) : new QueueCorruptException(
            string.Create(CultureInfo.InvariantCulture, $"The volume of an object is gone: slot={slot}, position={position}. ")
            + "Restore the pack's files.",
            PackNames.Volumes,
            position);
    }
}
