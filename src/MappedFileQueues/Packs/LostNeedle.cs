using System.Buffers;

namespace MappedFileQueues.Packs;

/// <summary>
/// Tells from what is left of a needle which one it was. A damaged stretch that is one needle long has most of its bytes left, and
/// neighbours that say the rest: so one spoiled field of the header, or a spoiled key, does not make every other key doubtful.
/// What is found fits a checksum.
/// </summary>
internal static class LostNeedle
{
    /// <summary>
    /// What tells the key of the one needle that filled a stretch; null when there were several, or too little is left.
    /// </summary>
    /// <param name="volume">The volume.</param>
    /// <param name="position">Where the stretch begins.</param>
    /// <param name="end">Where the next needle stands.</param>
    /// <param name="sequence">The sequence that the needle would have had.</param>
    /// <param name="before">The needle before it, if any.</param>
    /// <param name="after">The needle behind it, if any.</param>
    public static NeedleTrace? TraceOf(
        Volume volume, long position, long end, ulong sequence, NeedleLayout before, NeedleLayout after)
    {
        long length = end - position;
        if (length is < NeedleLayout.LengthMin or > NeedleLayout.LengthMax)
            return null;
        byte[] head = new byte[Math.Min(length, NeedleLayout.HeaderLength + NeedleLayout.KeyLengthMax)];
        if (volume.File.ReadAt(head, position) < head.Length)
            return null;
        return ByField(head, (int)length, volume.Seed, position, [sequence], [before.Synced, after.Synced])
            ?? ByFooter(head, (int)length, volume, position);
    }

    /// <summary>A field of the header is spoiled, and the key is not: with the right value of the field the checksum fits.</summary>
    private static NeedleTrace? ByField(
        ReadOnlySpan<byte> head, int length, uint seed, long position, ReadOnlySpan<ulong> sequences, ReadOnlySpan<long> synced)
    {
        NeedleLayout raw = NeedleLayout.ReadUnchecked(head);
        uint stored = NeedleLayout.StoredHeaderChecksum(head);
        byte[] header = new byte[NeedleLayout.HeaderLength];
        foreach ((int keyLength, int dataLength) in Lengths(raw, length))
        {
            uint keyCrc = NeedleLayout.ContentCrc(head.Slice(NeedleLayout.HeaderLength, keyLength));
            foreach (NeedleKind kind in (ReadOnlySpan<NeedleKind>)[NeedleKind.Value, NeedleKind.Tombstone])
            {
                foreach (ulong sequence in (ReadOnlySpan<ulong>)[raw.Sequence, .. sequences])
                {
                    foreach (long upTo in (ReadOnlySpan<long>)[raw.Synced, .. synced])
                    {
                        var candidate = new NeedleLayout(kind, sequence, keyLength, dataLength, upTo);
                        if (candidate.WriteHeader(header, seed, position, keyCrc) == stored)
                            return new NeedleTrace(header, keyCrc);
                    }
                }
            }
        }

        return null;
    }

    /// <summary>
    /// The lengths are right. Either the checksum is spoiled: the one that the header should have fits the footer. Or header and
    /// footer agree on it, and the key is spoiled, which the checksum knows, or a field whose right value nobody knows.
    /// </summary>
    private static NeedleTrace? ByFooter(ReadOnlySpan<byte> head, int length, Volume volume, long position)
    {
        bool isWholeLength = NeedleLayout.TryRead(head, out NeedleLayout needle) && needle.Length == length;
        if (!isWholeLength)
            return null;
        byte[] bytes = ArrayPool<byte>.Shared.Rent(length);
        try
        {
            Span<byte> whole = bytes.AsSpan(0, length);
            if (volume.File.ReadAt(whole, position) < length)
                return null;
            uint dataCrc = NeedleLayout.ContentCrc(whole.Slice(needle.DataAt, needle.DataLength));
            ReadOnlySpan<byte> end = whole[(needle.DataAt + needle.DataLength)..];
            byte[] header = new byte[NeedleLayout.HeaderLength];
            uint keyCrc = NeedleLayout.ContentCrc(whole.Slice(NeedleLayout.HeaderLength, needle.KeyLength));
            uint computed = needle.WriteHeader(header, volume.Seed, position, keyCrc);
            if (needle.IsEndValid(end, computed, dataCrc))
                return new NeedleTrace(header, keyCrc);
            return needle.IsEndValid(end, NeedleLayout.StoredHeaderChecksum(whole), dataCrc)
                ? new NeedleTrace(whole[..NeedleLayout.HeaderLength].ToArray(), keyCrc)
                : null;
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
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
