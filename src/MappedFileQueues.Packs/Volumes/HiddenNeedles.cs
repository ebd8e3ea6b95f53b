using System.Collections.Concurrent;
using System.Globalization;
using System.Runtime.InteropServices;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// What identifies the key of a needle that cannot be read. Either the key fits the header's checksum (then the stored key is
/// damaged), or it is the stored key (then another part is damaged).
/// </summary>
/// <param name="Header">The needle's header, with its lengths and its checksum corrected.</param>
/// <param name="KeyCrc">The CRC of the bytes in the key's place.</param>
internal sealed record NeedleTrace(byte[] Header, uint KeyCrc);

/// <summary>A stretch of a volume, or whole volumes, whose needles can no longer be read.</summary>
/// <param name="Name">The volume, or the numbers that no volume has.</param>
/// <param name="Position">Where the stretch begins; after all needles if the volume is missing.</param>
/// <param name="Length">In bytes; 0 if the volume, or its end, is missing.</param>
/// <param name="Trace">
/// What is left of the needle, if the stretch was one needle: then it hides only that needle's key. Null: it may hide any key. If
/// several keys fit, there is one stretch for each.
/// </param>
internal sealed record HiddenStretch(VolumeName Name, long Position, long Length, NeedleTrace? Trace)
{
    /// <summary>The position of a stretch that stands for a missing volume.</summary>
    public const long WholeVolume = long.MaxValue;

    /// <summary>The length of a stretch in a checkpoint, in words of 8 bytes.</summary>
    public const int WordCount = 9;

    public NeedlePosition Place => new(Name.Last, Position);

    /// <summary>Whether the stretch may have held the key's newest value or deletion.</summary>
    public bool MayHold(ReadOnlySpan<byte> key, Guid packId)
    {
        if (Trace is null)
            return true;
        uint keyCrc = NeedleLayout.ContentCrc(key);
        return NeedleLayout.ReadUnchecked(Trace.Header).KeyLength == key.Length && (keyCrc == Trace.KeyCrc
            || NeedleLayout.StoredHeaderChecksum(Trace.Header) == NeedleLayout.HeaderChecksum(
                NeedleLayout.VolumeSeed(packId, Name.Last, Name.Generation), Position, Trace.Header, keyCrc));
    }

    /// <summary>Describes the stretch for users.</summary>
    public PackDamage ToDamage() => PackDamage.At(Name, Position == WholeVolume ? 0 : Position, Length,
        Position == WholeVolume
            ? "The volume is missing. Its puts and deletes are lost, and older values are doubtful."
        : Length == 0 ? "The volume is shorter than it was. Puts and deletes at its end are lost, and older values are doubtful."
        : Trace is null ? "There is no valid needle here. The puts and deletes here are lost, and older values are doubtful."
        : "The header or the key of an object is damaged. A get of its key throws an exception.");

    public ulong[] ToWords()
    {
        ulong[] words = new ulong[WordCount];
        words[0] = Name.First | ((ulong)Name.Last << 32);
        words[1] = Name.Generation | (Trace is null ? 0 : 1UL << 32);
        (words[2], words[3]) = ((ulong)Position, (ulong)Length);
        if (Trace is not null)
        {
            words[4] = Trace.KeyCrc;
            Trace.Header.CopyTo(MemoryMarshal.AsBytes(words.AsSpan(5)));
        }

        return words;
    }

    public static HiddenStretch? FromWords(ReadOnlySpan<ulong> words)
    {
        var stretch = new HiddenStretch(
            new VolumeName((uint)words[0], (uint)(words[0] >> 32), (uint)words[1]),
            (long)words[2],
            (long)words[3],
            words[1] >> 32 == 0 ? null : new NeedleTrace(MemoryMarshal.AsBytes(words[5..]).ToArray(), (uint)words[4]));
        bool isPossible = stretch.Name.IsPossible && stretch.Length is >= 0 and <= NeedleLayout.SyncedMax
            && (stretch.Position is >= 0 and <= NeedleLayout.SyncedMax
                || (stretch.Position == WholeVolume && stretch.Length == 0));
        return isPossible ? stretch : null;
    }
}

/// <summary>A place in the order in which needles were written. Compactions keep this order.</summary>
/// <param name="Number">The volume's last number.</param>
/// <param name="Position">The position in the volume.</param>
internal readonly record struct NeedlePosition(uint Number, long Position)
{
    public bool IsBefore(NeedlePosition other) =>
        Number < other.Number || (Number == other.Number && Position < other.Position);
}

/// <summary>
/// The needles that damage hides. If a key's newest known needle is before a stretch that may have held a newer one, the key's
/// value is unknown, and a get of the key is an exception until it is put or deleted again. Only a caller that may change the
/// index may make changes; any thread may ask.
/// </summary>
internal sealed class HiddenNeedles(string packPath, Guid packId)
{
    /// <summary>
    /// The newest tombstone of each key that was deleted after a stretch. The index keeps no deleted keys, and these are known to
    /// be deleted.
    /// </summary>
    private readonly ConcurrentDictionary<ulong, NeedlePosition> _deleted = [];

    private Known _known = new([], 0);

    /// <summary>Whether answers ignore the hidden needles.</summary>
    public bool IsIgnored { get; init; }

    public bool IsEmpty => Volatile.Read(ref _known).Count == 0;

    public IReadOnlyList<HiddenStretch> Stretches => Volatile.Read(ref _known).Stretches;

    public IReadOnlyCollection<KeyValuePair<ulong, NeedlePosition>> Deleted => [.. _deleted];

    public void Add(HiddenStretch stretch)
    {
        (HiddenStretch[] room, int count) = _known;
        if (count == room.Length)
            Array.Resize(ref room, Math.Max(4, 2 * count));
        room[count] = stretch;
        Volatile.Write(ref _known, new Known(room, count + 1));
    }

    /// <summary>
    /// Forgets the stretches of these numbers, before which nothing is left: what they may have hidden is gone with the rest.
    /// </summary>
    public void Remove(VolumeName evicted)
    {
        HiddenStretch[] kept = [.. Stretches.Where(stretch => !stretch.Name.Overlaps(evicted))];
        Volatile.Write(ref _known, new Known(kept, kept.Length));
    }

    /// <summary>Records that the key with this hash was deleted.</summary>
    public void OnDeleted(ulong hash, NeedlePosition tombstone)
    {
        if (!IsEmpty)
            _deleted[hash] = tombstone;
    }

    /// <summary>Records that the key with this hash was put: the index has its place.</summary>
    public void OnPut(ulong hash)
    {
        if (!IsEmpty)
            _deleted.TryRemove(hash, out _);
    }

    /// <summary>The stretch that may hold a newer needle of the key than the index has; null if there is none.</summary>
    /// <param name="key">The key.</param>
    /// <param name="hash">Its hash.</param>
    /// <param name="known">The place of the key's value; null if the index has none.</param>
    public HiddenStretch? Find(ReadOnlySpan<byte> key, ulong hash, NeedlePosition? known)
    {
        Known stretches = Volatile.Read(ref _known);
        if (stretches.Count == 0)
            return null;
        NeedlePosition newest = known ?? (_deleted.TryGetValue(hash, out NeedlePosition deleted) ? deleted : default);
        foreach (HiddenStretch stretch in stretches.Stretches)
        {
            if (newest.IsBefore(stretch.Place) && stretch.MayHold(key, packId))
                return stretch;
        }

        return null;
    }

    /// <summary>
    /// Throws if the key may have a newer value than the one that was found, or a value although none was found.
    /// </summary>
    /// <exception cref="PackCorruptException">The key may have such a value.</exception>
    public void Check(ReadOnlySpan<byte> key, ulong hash, NeedlePosition? known)
    {
        if (FindUnlessIgnored(key, hash, known) is { } stretch)
            throw Error(stretch);
    }

    /// <summary>As <see cref="Find"/>, for an answer; null if answers ignore the hidden needles.</summary>
    public HiddenStretch? FindUnlessIgnored(ReadOnlySpan<byte> key, ulong hash, NeedlePosition? known) =>
        IsIgnored ? null : Find(key, hash, known);

    /// <summary>The exception for a key, or a pack, that may have a needle in this stretch.</summary>
    public PackCorruptException Error(HiddenStretch stretch)
    {
        bool isMissing = stretch.Length == 0;
        long position = stretch.Position == HiddenStretch.WholeVolume ? 0 : stretch.Position;
        string place = string.Create(CultureInfo.InvariantCulture,
            $"path={packPath}, file={stretch.Name.Path}, position={position}, length={stretch.Length}");
        string what = stretch.Trace is null ? "may have been" : "was";
        return new PackCorruptException(
            $"The newest value of an object, or its deletion, {what} in a part of the pack that is "
            + $"{(isMissing ? "missing" : "damaged")}: {place}. Put or delete the object again, or restore the file; "
            + "with AllowStaleValues the pack answers with what it knows.",
            stretch.Name.Path,
            position);
    }

    /// <summary>The stretches at one moment. A later one may have more in the room after the count.</summary>
    private sealed record Known(HiddenStretch[] Room, int Count)
    {
        public ArraySegment<HiddenStretch> Stretches => new(Room, 0, Count);
    }
}
