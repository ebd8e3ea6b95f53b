using System.Collections;
using MappedFileQueues.Format;
using MappedFileQueues.Inspection;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tool.Repair;

/// <summary>
/// Finds messages without checksums behind damage. Nothing proves one of them; but a row of headers, each where the one before
/// ends, that leads exactly to a place where a frame is known to begin, is no accident. This is good enough for a repair that an
/// operator asks for and looks at, not for a reader.
/// </summary>
internal static class ChainSearch
{
    /// <summary>A shorter row may be an accident.</summary>
    private const int FramesMin = 2;

    /// <summary>The first offset behind the damage from which headers lead to the limit; -1 when there is none.</summary>
    /// <param name="store">The store.</param>
    /// <param name="damage">Where the damage begins.</param>
    /// <param name="limit">The end of the segment, or an offset in it where a frame is known to begin.</param>
    public static long Find(ReadOnlyStore store, long damage, long limit)
    {
        long start = store.Window.StartOf(damage);
        using PlatformFile? file = store.Directory.Open(StoreNames.Segment(start), FileOpening.Read);
        if (file is null || limit <= damage)
            return -1;
        int count = (int)((limit - damage) / FrameHeader.Size);
        var scanner = new SegmentScanner(file, start, store.Meta.SegmentLength, store.Checksum);
        ulong[] headers = new ulong[count];
        for (int index = 0; index < count; index++)
            headers[index] = scanner.HeaderAt(damage - start + ((long)index * FrameHeader.Size));

        // From the limit backwards: how many frames lead from each place to it.
        int[] lengths = new int[count + 1];
        var leads = new BitArray(count + 1) { [count] = true };
        int first = -1;
        for (int index = count - 1; index > 0; index--)
        {
            ulong header = headers[index];
            long next = index + (FrameHeader.FrameLength(FrameHeader.Length(header)) / FrameHeader.Size);
            if (next > count || !leads[(int)next] || !IsPossible(store, header, damage + ((long)index * FrameHeader.Size), limit))
                continue;
            leads[index] = true;
            lengths[index] = lengths[(int)next] + 1;
            if (lengths[index] >= FramesMin)
                first = index;
        }

        return first < 0 ? -1 : damage + ((long)first * FrameHeader.Size);
    }

    /// <summary>A message with a checksum would have been found by it; so only those without one are of interest here.</summary>
    private static bool IsPossible(ReadOnlyStore store, ulong header, long offset, long limit)
    {
        if (!FrameHeader.IsPlausible(header, limit - offset))
            return false;
        FrameState state = FrameHeader.State(header);
        int length = FrameHeader.Length(header);
        return state == FrameState.Padding
            ? header == store.Checksum.PaddingHeader(offset, FrameHeader.FrameLength(length))
            : FrameHeader.IsMessage(state) && !FrameHeader.HasChecksum(state)
                && (store.FixedLength < 0 || length == store.FixedLength);
    }
}
