using System.Buffers;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs.Volumes;

/// <summary>
/// Finds out from the remains of a needle which key it had. A damaged stretch that is one needle long has most of its bytes left.
/// So one damaged field of the header, or a damaged key, does not make every other key doubtful.
/// </summary>
internal static class LostNeedle
{
    /// <summary>
    /// Finds what identifies the key of the one needle that filled a stretch; empty if there were several needles, or if too
    /// little is left. The footer shows whether lengths, header checksum and data are right. If they are, either the key is
    /// damaged, and the header checksum still fits the right one, or something else is damaged, and the stored key is right.
    /// Other header fields are not guessed: the key's CRC is part of a CRC, so a bit of the key may have the same effect on it as
    /// a bit of a field. There are several results if zeros may be data or padding: one of them is right.
    /// </summary>
    /// <param name="volume">The volume.</param>
    /// <param name="position">Where the stretch begins.</param>
    /// <param name="end">Where the next needle begins.</param>
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

        // Only the checksum is damaged.
        if (needle.IsEndValid(end, computed, dataCrc))
            return new NeedleTrace(header, keyCrc);
        uint stored = NeedleLayout.StoredHeaderChecksum(bytes);
        if (!needle.IsEndValid(end, stored, dataCrc))
            return null;
        NeedleLayout.WriteHeaderChecksum(header, stored);
        return new NeedleTrace(header, keyCrc);
    }

    /// <summary>The stored lengths, and the value of each if the other is right, for a needle of this length.</summary>
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
