using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Sequences;

/// <summary>
/// Finds the highest sequence of each producer in a part of the log, by the header blocks of its messages. Reads with positioned
/// reads, beside living producers. What damage hides is passed over: then a message may come twice, and none is lost.
/// </summary>
internal sealed class SequenceScan(HeldDirectory directory, StoreMeta meta)
{
    /// <summary>
    /// Walks from offsets that should be frames' starts to another one. What a producer's file says has no checksum, and damage
    /// may be between two of them: so a walk begins at each, and ends where it meets a later one.
    /// </summary>
    /// <param name="from">Where to begin; one or more.</param>
    /// <param name="to">Where to end.</param>
    /// <param name="highest">Has the ids that are looked for, and gets their highest sequence.</param>
    public void Run(IReadOnlyCollection<long> from, long to, Dictionary<ulong, ulong> highest)
    {
        long first = from.Min();
        foreach (long start in LogStartSearch.List(directory, meta).From(meta.StartOf(first)))
        {
            if (start >= to)
                break;
            using PlatformFile? file = directory.Open(StoreNames.Segment(start), FileOpening.Read);
            // Removed meanwhile, after its messages went into the files of their producers.
            if (file is null)
                continue;
            var scanner = new SegmentScanner(file, start, meta.SegmentLength, meta.Checksum);
            SortedSet<long> places = [.. from.Where(offset => meta.StartOf(offset) == start).Select(offset => offset - start)];
            if (start > first)
                places.Add(0);
            foreach (long place in places)
            {
                long position = place;
                while (start + position < to && scanner.TryReadHeader(position, out ulong header))
                {
                    if (FrameHeader.IsExtended(header))
                        Note(scanner, header, position, highest);
                    position += FrameHeader.FrameLength(FrameHeader.Length(header));
                    if (places.Contains(position))
                        break;
                }
            }
        }
    }

    private static void Note(SegmentScanner scanner, ulong header, long position, Dictionary<ulong, ulong> highest)
    {
        if (!scanner.TryReadHeaders(header, position, out MessageHeadersView headers)
            || (headers.Fields & HeaderField.Producer) == 0
            || !highest.TryGetValue(headers.ProducerId, out ulong before))
            return;
        (ulong id, ulong sequence) = (headers.ProducerId, headers.Sequence);
        // Verified: a sequence that is too high would make messages pass for repetitions.
        if (sequence > before && scanner.IsWhole(header, position))
            highest[id] = sequence;
    }
}
