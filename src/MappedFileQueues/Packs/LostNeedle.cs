using System.Buffers;

namespace MappedFileQueues.Packs;

/// <summary>
/// Tells from what is left of a needle which one it was. A damaged stretch that is one needle long has most of its bytes left, and
/// neighbours that say the rest: so one spoiled field of the header, or a spoiled key, does not make every other key doubtful.
/// What is found is certain, because it fits a checksum.
/// </summary>
internal static class LostNeedle
{
    /// <summary>
    /// The header of the one needle that filled a stretch, put right; null when there were several, or too little is left.
    /// </summary>
    /// <param name="volume">The volume.</param>
    /// <param name="position">Where the stretch begins.</param>
    /// <param name="end">Where the next needle stands.</param>
    /// <param name="sequence">The sequence that the needle would have had.</param>
    /// <param name="before">The needle before it, if any.</param>
    /// <param name="after">The needle behind it, if any.</param>
    public static byte[]? HeaderOf(
        Volume volume, long position, long end, ulong sequence, NeedleLayout before, NeedleLayout after)
    {
        long length = end - position;
        if (length is < NeedleLayout.HeaderLength + NeedleLayout.FooterLength or > NeedleLayout.LengthMax)
            return null;
        byte[] bytes = ArrayPool<byte>.Shared.Rent((int)length);
        try
        {
            Span<byte> needle = bytes.AsSpan(0, (int)length);
            return volume.File.ReadAt(needle, position) == length
                ? HeaderOf(needle, volume.Seed, position, [sequence], [before.Synced, after.Synced])
                : null;
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }

    private static byte[]? HeaderOf(
        ReadOnlySpan<byte> bytes, uint seed, long position, ReadOnlySpan<ulong> sequences, ReadOnlySpan<long> synced)
    {
        NeedleLayout raw = NeedleLayout.ReadUnchecked(bytes);
        uint stored = NeedleLayout.StoredHeaderChecksum(bytes);
        Span<byte> header = stackalloc byte[NeedleLayout.HeaderLength];

        // A field of the header is spoiled, and the key is not: with the right value of the field the checksum fits.
        foreach ((int keyLength, int dataLength) in Lengths(raw, bytes.Length))
        {
            uint keyCrc = NeedleLayout.ContentCrc(bytes.Slice(NeedleLayout.HeaderLength, keyLength));
            NeedleLayout tried = raw with { KeyLength = keyLength, DataLength = dataLength };
            foreach (NeedleKind kind in (ReadOnlySpan<NeedleKind>)[NeedleKind.Value, NeedleKind.Tombstone])
            {
                foreach (ulong sequence in (ReadOnlySpan<ulong>)[raw.Sequence, .. sequences])
                {
                    foreach (long position8 in (ReadOnlySpan<long>)[raw.Synced, .. synced])
                    {
                        NeedleLayout candidate = tried with { Kind = kind, Sequence = sequence, Synced = position8 };
                        if (candidate.WriteHeader(header, seed, position, keyCrc) == stored)
                            return header.ToArray();
                    }
                }
            }
        }

        bool isWholeLength = NeedleLayout.TryRead(bytes, out NeedleLayout needle) && needle.Length == bytes.Length;
        if (!isWholeLength)
            return null;

        // The checksum itself is spoiled: the one that the header should have fits the footer.
        uint ownKeyCrc = NeedleLayout.ContentCrc(bytes.Slice(NeedleLayout.HeaderLength, needle.KeyLength));
        uint computed = needle.WriteHeader(header, seed, position, ownKeyCrc);
        uint dataCrc = NeedleLayout.ContentCrc(bytes.Slice(needle.DataAt, needle.DataLength));
        ReadOnlySpan<byte> end = bytes[(needle.DataAt + needle.DataLength)..];
        if (needle.IsEndValid(end, computed, dataCrc))
            return header.ToArray();

        // The key is spoiled: header and footer agree, and the checksum knows the key that it was.
        return needle.IsEndValid(end, stored, dataCrc) ? bytes[..NeedleLayout.HeaderLength].ToArray() : null;
    }

    /// <summary>The lengths as they stand there, and what one would be if the other is right, for a needle of this length.</summary>
    private static List<(int Key, int Data)> Lengths(NeedleLayout raw, int needleLength)
    {
        List<(int Key, int Data)> lengths = [];
        int body = needleLength - NeedleLayout.HeaderLength - NeedleLayout.FooterLength;
        Add(raw.KeyLength, raw.DataLength);
        for (int sum = body; sum > body - NeedleLayout.Unit; sum--)
        {
            Add(raw.KeyLength, sum - raw.KeyLength);
            Add(sum - raw.DataLength, raw.DataLength);
        }

        return lengths;

        void Add(int key, int data)
        {
            bool isPossible = key is >= 0 and <= NeedleLayout.KeyLengthMax && data is >= 0 and <= NeedleLayout.DataLengthMax
                && new NeedleLayout(NeedleKind.Value, 0, key, data, 0).Length == needleLength && !lengths.Contains((key, data));
            if (isPossible)
                lengths.Add((key, data));
        }
    }
}
