using System.Buffers;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// Tells from what is left of a needle which key it had. A damaged stretch that is one needle long has most of its bytes left: so
/// one spoiled field of the header, or a spoiled key, does not make every other key doubtful.
/// </summary>
internal static class LostNeedle
{
    /// <summary>
    /// What tells the key of the one needle that filled a stretch; nothing when there were several, or too little is left. The
    /// footer says whether lengths, header checksum and data are right. Then what is spoiled is either the key, which the
    /// checksum
    /// still knows, or something else, and the key is what stands in its place. Other fields of the header are not guessed: the
    /// key's CRC is a part of a CRC, and a bit of the key may be worth the same as one of a field. Several answers, where
    /// zeros may be data or not: one of them is right.
    /// </summary>
    /// <param name="volume">The volume.</param>
    /// <param name="position">Where the stretch begins.</param>
    /// <param name="end">Where the next needle stands.</param>
    public static IReadOnlyList<NeedleTrace> TracesOf(Volume volume, long position, long end)
    {
        long length = end - position;
        byte[] header = new byte[NeedleLayout.HeaderLength];
        if (length is < NeedleLayout.LengthMin or > NeedleLayout.LengthMax
            || volume.File.ReadAt(header, position) < header.Length)
            return [];
        NeedleLayout raw = NeedleLayout.ReadUnchecked(header);
        List<(int Key, int Data)> lengths = Lengths(raw, (int)length);
        if (lengths.Count == 0)
            return [];
        List<NeedleTrace> traces = [];
        byte[] bytes = ArrayPool<byte>.Shared.Rent((int)length);
        try
        {
            Span<byte> needle = bytes.AsSpan(0, (int)length);
            if (volume.File.ReadAt(needle, position) < length)
                return [];
            foreach ((int keyLength, int dataLength) in lengths)
            {
                NeedleLayout tried = raw with { KeyLength = keyLength, DataLength = dataLength };
                if (TraceOf(needle, tried, volume.Seed, position) is { } trace)
                    traces.Add(trace);
            }

            return traces;
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }

    private static NeedleTrace? TraceOf(ReadOnlySpan<byte> bytes, NeedleLayout needle, uint seed, long position)
    {
        uint dataCrc = NeedleLayout.ContentCrc(bytes.Slice(needle.DataAt, needle.DataLength));
        uint keyCrc = NeedleLayout.ContentCrc(bytes.Slice(NeedleLayout.HeaderLength, needle.KeyLength));
        ReadOnlySpan<byte> end = bytes[(needle.DataAt + needle.DataLength)..];
        byte[] header = new byte[NeedleLayout.HeaderLength];
        uint computed = needle.WriteHeader(header, seed, position, keyCrc);

        // The checksum alone is spoiled.
        if (needle.IsEndValid(end, computed, dataCrc))
            return new NeedleTrace(header, keyCrc);
        uint stored = NeedleLayout.StoredHeaderChecksum(bytes);
        if (!needle.IsEndValid(end, stored, dataCrc))
            return null;
        NeedleLayout.WriteHeaderChecksum(header, stored);
        return new NeedleTrace(header, keyCrc);
    }

    /// <summary>The lengths as they stand there, and what one would be if the other is right, for a needle of this
    /// length.</summary>
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
