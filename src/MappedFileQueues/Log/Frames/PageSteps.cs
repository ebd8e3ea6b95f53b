using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// In which steps somebody who goes through the log asks for its pages (<see cref="SegmentMapping.MakeReadable"/>). Each step is
/// twice the one before, up to 1 MiB, so that the calls of the system cost nothing a message; after a jump it begins anew. Behind
/// what is known to be written the steps stay small: pages ahead of a producer are for its preparer to bring in, which knows in
/// which pieces.
/// </summary>
/// <param name="first">The first step: a power of two, <see cref="ForReading"/> or <see cref="ForWalking"/>.</param>
internal struct PageSteps(long first)
{
    /// <summary>What the system maps at once of what is in memory, aligned (mm/memory.c, fault_around_bytes).</summary>
    public const long ForReading = 64 * 1024;

    /// <summary>A page: most walks are those of a flush, and over after a few messages.</summary>
    public const long ForWalking = 4096;

    private const long StepMax = 1024 * 1024;

    private long _step;
    private long _end;

    /// <summary>Asks for the pages of a segment; see <see cref="SegmentMapping.MakeReadable"/>.</summary>
    /// <param name="segment">Which.</param>
    /// <param name="from">The position to begin at.</param>
    /// <param name="needed">So far they have to be there.</param>
    /// <param name="limit">So far they may be asked for.</param>
    /// <param name="written">An offset: up to here frames are known to stand.</param>
    /// <returns>Up to which position they are there.</returns>
    public long MakeReadable(SegmentMapping segment, long from, long needed, long limit, long written)
    {
        bool goesOn = _step != 0 && Math.Abs(segment.Start + from - _end) <= _step;
        _step = goesOn ? Math.Min(_step * 2, StepMax) : first;
        written -= segment.Start;
        long unit = Math.Min(_step, ForReading);
        long end = (from + _step) & -unit;
        if (end > written)
            end = Math.Min(end, (Math.Max(from, written) + unit) & -unit);
        long there = segment.MakeReadable(from, needed, Math.Max(needed, Math.Min(end, limit)));
        _end = segment.Start + there;
        return there;
    }
}
