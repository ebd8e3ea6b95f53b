using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// Finds where the log continues after a damaged frame, inside its segment. A checksum covers the frame's own offset, so a frame
/// that fits its place was written there as a frame. In this order:
/// <code>
/// 1 the damaged header is plausible, and a good frame is where it ends: continue there. But a message with a damaged length may
///   hide others: then continue with the first whole frame in between. Padding hides none: it may contain the frames of a batch
///   that was never published
/// 2 the header's high half is the checksum of padding up to some good frame: its low half is damaged, continue with that frame
/// 3 the first whole frame after it, but never inside a claim: the content of a living owner's claim is not published yet (the
///   search is blocked until it is), the content of a dead one's never will be
/// </code>
/// It uses positioned reads: beyond what is allocated a load from the mapping could fault. One search sees one moment; the log
/// may grow meanwhile.
/// </summary>
/// <param name="log">The log to search.</param>
/// <param name="segment">The damaged frame's segment.</param>
/// <param name="limit">A frame that begins or ends above this offset does not count.</param>
/// <param name="passed">The start of a frame that a walker reached; a free place there is the end of the log.</param>
internal sealed class FrameSearch(LogView log, SegmentMapping segment, long limit, long passed)
{
    /// <summary>
    /// A checksum passes by chance once in 2^32 times. After this many candidates a frame counts only if a good one follows it.
    /// </summary>
    private const int TrustAloneMax = 1024;

    private const int ZerosPiece = 4096;

    private readonly SegmentScanner _words = new(segment.File, segment.Start, segment.SegmentLength, log.Checksum);
    private readonly SegmentScanner _landings = new(segment.File, segment.Start, segment.SegmentLength, log.Checksum);
    private readonly long _end = Math.Min(limit - segment.Start, segment.Usable);
    private int _candidateCount;

    /// <summary>A living owner's claim is in the way.</summary>
    public bool IsBlocked { get; private set; }

    /// <summary>The offset of the next frame, or of the segment's end; -1 when none is certain.</summary>
    public long Find(long at)
    {
        long position = at - segment.Start;
        ulong header = _words.HeaderAt(position);
        long found = FindLanding(header, position);
        if (found >= 0 && FrameHeader.State(header) != FrameState.Padding)
        {
            long hidden = FindWhole(position, found);
            if (hidden >= 0 && FindPaddedEnd(header, position) is >= 0 and var paddedEnd)
                return segment.Start + paddedEnd;
            found = hidden >= 0 ? hidden : found;
        }
        else if (found < 0)
        {
            found = FindPaddedEnd(header, position);
            if (found < 0)
                found = FindWhole(position, _end);
        }

        return found < 0 || IsBlocked ? -1 : segment.Start + found;
    }

    private long FindLanding(ulong header, long position)
    {
        if (!FrameHeader.IsPlausible(header, segment.SegmentLength - position)
            || FrameHeader.State(header) == FrameState.Claimed)
            return -1;
        long end = position + FrameHeader.FrameLength(FrameHeader.Length(header));
        return IsGood(end) ? end : -1;
    }

    private long FindPaddedEnd(ulong header, long position)
    {
        if (header == 0)
            return -1;
        long last = Math.Min(segment.SegmentLength, position + FrameHeader.FrameLength(FrameHeader.PayloadLengthMax));
        for (long end = position + FrameHeader.Size; end <= last; end += FrameHeader.Size)
        {
            ulong padding = log.Checksum.PaddingHeader(segment.Start + position, end - position);
            if (FrameHeader.HighHalf(padding) == FrameHeader.HighHalf(header) && IsGood(end))
                return end;
        }

        return -1;
    }

    /// <summary>The first whole frame after a position that ends at or before another.</summary>
    private long FindWhole(long position, long end)
    {
        var sums = new RangeChecksum(segment.File, segment.Start, position, log.Checksum);
        for (long at = position + FrameHeader.Size; at < end; at += FrameHeader.Size)
        {
            ulong header = _words.HeaderAt(at);
            if (header == 0)
            {
                // Piece by piece: looking further ahead would refill the buffer at each free word.
                long pieceEnd = Math.Min(end, at + ZerosPiece);
                long next = _words.FindNonZero(at, pieceEnd);
                // Where the file ends within a word, that word counts as free.
                at = Math.Max(at, (next < 0 ? pieceEnd : next & ~(FrameHeader.Size - 1L)) - FrameHeader.Size);
                continue;
            }

            if (!FrameHeader.IsPlausible(header, end - at))
                continue;
            if (FrameHeader.State(header) == FrameState.Claimed)
            {
                ClaimOwner owner = log.OwnerOf(header);
                IsBlocked |= owner == ClaimOwner.Living;
                if (IsBlocked)
                    return -1;
                if (owner == ClaimOwner.Dead)
                    at += FrameHeader.FrameLength(FrameHeader.Length(header)) - FrameHeader.Size;
            }
            else if (IsTrusted(header, at, sums))
            {
                return at;
            }
        }

        return -1;
    }

    private bool IsTrusted(ulong header, long position, RangeChecksum sums)
    {
        _candidateCount++;
        return sums.Matches(header, position)
            && (_candidateCount <= TrustAloneMax || IsGood(position + FrameHeader.FrameLength(FrameHeader.Length(header))));
    }

    /// <summary>Whether a frame can be trusted to begin there, or the segment to end.</summary>
    public bool IsGood(long position)
    {
        if (position == segment.SegmentLength || segment.Start + position == passed)
            return true;
        ulong header = position < _end ? _landings.HeaderAt(position) : 0;
        if (!FrameHeader.IsPlausible(header, segment.SegmentLength - position))
            return false;
        return FrameHeader.State(header) == FrameState.Claimed
            ? log.OwnerOf(header) != ClaimOwner.Nobody
            : _landings.IsWhole(header, position);
    }
}
