using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.Frames;

/// <summary>
/// The steps in which a walk through the log asks for its pages (<see cref="SegmentMapping.MakeReadable"/>). Each step is twice
/// the one before, up to 1 MiB, so that the system calls cost next to nothing per message; after a jump the steps start over.
/// Beyond the frames known to be written it maps what is in memory: a reader that follows would meet a page fault each 64 KiB.
/// Otherwise the steps stay small there: the preparer brings in the pages ahead of a producer, and knows the right pieces.
/// </summary>
/// <param name="first">The first step: a power of two, <see cref="ForReading"/> or <see cref="ForWalking"/>.</param>
internal struct PageSteps(long first)
{
    /// <summary>What the system maps at once of the pages in memory, aligned (mm/memory.c, fault_around_bytes).</summary>
    public const long ForReading = 64 * 1024;

    /// <summary>One page: most walks belong to a flush and end after a few messages.</summary>
    public const long ForWalking = 4096;

    private const long StepMax = 1024 * 1024;

    private long _step;
    private long _end;

    /// <summary>Asks for the pages of a segment; see <see cref="SegmentMapping.MakeReadable"/>.</summary>
    /// <param name="segment">The segment.</param>
    /// <param name="from">The position to begin at.</param>
    /// <param name="needed">The pages must be there up to here.</param>
    /// <param name="limit">The pages may be requested up to here.</param>
    /// <param name="written">An offset: frames are known to be there up to here.</param>
    /// <returns>The position up to which the pages are there.</returns>
    public long MakeReadable(SegmentMapping segment, long from, long needed, long limit, long written)
    {
        bool goesOn = _step != 0 && Math.Abs(segment.Start + from - _end) <= _step;
        _step = goesOn ? Math.Min(_step * 2, StepMax) : first;
        written -= segment.Start;
        long unit = Math.Min(_step, ForReading);
        long end = Math.Min((from + _step) & -unit, limit);
        if (end > written)
        {
            // A step of one unit is no longer than what is asked for otherwise.
            long cached = _step > unit ? segment.CachedTo(from, end) : 0;
            end = cached >= needed ? cached : Math.Min(end, (Math.Max(from, written) + unit) & -unit);
        }

        long there = segment.MakeReadable(from, needed, Math.Max(needed, end));
        _end = segment.Start + there;
        return there;
    }
}
