using System.Collections.Concurrent;
using System.Globalization;
using System.Runtime.InteropServices;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// What tells the key of a needle that cannot be read: it fits the header's checksum (then the key itself is spoiled), or it
/// stands
/// in the key's place (then something else is).
/// </summary>
/// <param name="Header">The needle's header, its lengths and its checksum put right.</param>
/// <param name="KeyCrc">The CRC of what stands in the key's place.</param>
internal sealed record NeedleTrace(byte[] Header, uint KeyCrc);

/// <summary>
/// A stretch of a volume, or whole volumes, that held needles which nobody can read any more.
/// </summary>
/// <param name="Name">The volume, or the numbers that no volume has.</param>
/// <param name="Position">Where the stretch begins; behind all needles when the volume is missing.</param>
/// <param name="Length">In bytes; 0 when the volume, or its end, is missing.</param>
/// <param name="Trace">
/// What is left of the one needle that stood here, when it was one: then only its key may be hidden. Null: any key may be. Where
/// several keys may have been its, there is a stretch for each.
/// </param>
internal sealed record HiddenStretch(VolumeName Name, long Position, long Length, NeedleTrace? Trace)
{
    /// <summary>The position of a stretch that is a missing volume.</summary>
    public const long WholeVolume = long.MaxValue;

    /// <summary>In words of 8 bytes.</summary>
    public const int WordCount = 9;

    public NeedlePosition Place => new(Name.Last, Position);

    /// <summary>Whether the key's newest value or deletion may have stood here.</summary>
    public bool MayHold(ReadOnlySpan<byte> key, Guid packId)
    {
        if (Trace is null)
            return true;
        uint keyCrc = NeedleLayout.ContentCrc(key);
        return NeedleLayout.ReadUnchecked(Trace.Header).KeyLength == key.Length && (keyCrc == Trace.KeyCrc
            || NeedleLayout.StoredHeaderChecksum(Trace.Header) == NeedleLayout.HeaderChecksum(
                NeedleLayout.VolumeSeed(packId, Name.Last, Name.Generation), Position, Trace.Header, keyCrc));
    }

    /// <summary>The same for users.</summary>
    public PackDamage ToDamage() => PackDamage.At(Name, Position == WholeVolume ? 0 : Position, Length,
        Position == WholeVolume
            ? "The volume is missing. What was put or deleted there is lost, and older values are doubtful."
        : Length == 0 ? "The volume is shorter than it was. What stood at its end is lost, and older values are doubtful."
        : Trace is null ? "No valid needle stands here. What was put or deleted here is lost, and older values are doubtful."
        : "The header or the key of an object is damaged. A get of its key says so.");

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

    public static HiddenStretch FromWords(ReadOnlySpan<ulong> words) => new(
        new VolumeName((uint)words[0], (uint)(words[0] >> 32), (uint)words[1]),
        (long)words[2],
        (long)words[3],
        words[1] >> 32 == 0 ? null : new NeedleTrace(MemoryMarshal.AsBytes(words[5..]).ToArray(), (uint)words[4]));
}

/// <summary>A place in the order in which needles were written, before and after any compaction.</summary>
/// <param name="Number">The volume's last number.</param>
/// <param name="Position">The position in it.</param>
internal readonly record struct NeedlePosition(uint Number, long Position)
{
    public bool IsBefore(NeedlePosition other) =>
        Number < other.Number || (Number == other.Number && Position < other.Position);
}

/// <summary>
/// What damage hides: a key whose newest known needle lies before a stretch that may have held a newer one has a value that
/// nobody
/// knows. It says so until it is put or deleted again. Changed by whoever may change the index; asked by any thread.
/// </summary>
internal sealed class HiddenNeedles(string packPath, Guid packId)
{
    /// <summary>
    /// Where the newest tombstone of a key stands that was deleted behind a stretch: the index keeps no deleted keys, and
    /// these are
    /// known to be gone.
    /// </summary>
    private readonly ConcurrentDictionary<ulong, NeedlePosition> _deleted = [];

    private HiddenStretch[] _stretches = [];

    /// <summary>True answers as if nothing were hidden.</summary>
    public bool IsIgnored { get; init; }

    public bool IsEmpty => Volatile.Read(ref _stretches).Length == 0;

    public IReadOnlyList<HiddenStretch> Stretches => Volatile.Read(ref _stretches);

    public IReadOnlyCollection<KeyValuePair<ulong, NeedlePosition>> Deleted => [.. _deleted];

    public void Add(HiddenStretch stretch) => Volatile.Write(ref _stretches, [.. _stretches, stretch]);

    /// <summary>A key was deleted, by its hash.</summary>
    public void OnDeleted(ulong hash, NeedlePosition tombstone)
    {
        if (!IsEmpty)
            _deleted[hash] = tombstone;
    }

    /// <summary>A key was put: the index knows where.</summary>
    public void OnPut(ulong hash)
    {
        if (!IsEmpty)
            _deleted.TryRemove(hash, out _);
    }

    /// <summary>The stretch that may hold a newer needle of the key than the index knows; null when there is none.</summary>
    /// <param name="key">The key.</param>
    /// <param name="hash">Its hash.</param>
    /// <param name="known">Where its value stands; null when the index has none.</param>
    public HiddenStretch? Find(ReadOnlySpan<byte> key, ulong hash, NeedlePosition? known)
    {
        HiddenStretch[] stretches = Volatile.Read(ref _stretches);
        if (stretches.Length == 0)
            return null;
        NeedlePosition newest = known ?? (_deleted.TryGetValue(hash, out NeedlePosition deleted) ? deleted : default);
        foreach (HiddenStretch stretch in stretches)
        {
            if (newest.IsBefore(stretch.Place) && stretch.MayHold(key, packId))
                return stretch;
        }

        return null;
    }

    /// <summary>Throws when the key may have a newer value than the one that was found, or one although none was found.</summary>
    /// <exception cref="QueueCorruptException">It may.</exception>
    public void Check(ReadOnlySpan<byte> key, ulong hash, NeedlePosition? known)
    {
        if (!IsIgnored && Find(key, hash, known) is { } stretch)
            throw Error(stretch);
    }

    /// <summary>The error for a key, or a pack, that has something in this stretch.</summary>
    public QueueCorruptException Error(HiddenStretch stretch)
    {
        bool isMissing = stretch.Length == 0;
        long position = stretch.Position == HiddenStretch.WholeVolume ? 0 : stretch.Position;
        string place = string.Create(CultureInfo.InvariantCulture,
            $"path={packPath}, file={stretch.Name.Path}, position={position}, length={stretch.Length}");
        string what = stretch.Trace is null ? "may have stood" : "stood";
        return new QueueCorruptException(
            $"The newest value of an object, or its deletion, {what} in a part of the pack that is "
            + $"{(isMissing ? "missing" : "damaged")}: {place}. Put or delete the object again, or restore the file; "
            + "with AllowStaleValues the pack answers with what it knows.",
            stretch.Name.Path,
            position);
    }
}
