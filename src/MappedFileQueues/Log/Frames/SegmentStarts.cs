namespace MappedFileQueues.Log.Frames;

/// <summary>
/// The starts of a store's segments, in order. Neither a SortedSet nor a List: the runtime has no precompiled code for either
/// with numbers, and a fresh process would compile some sixty methods before its first message.
/// </summary>
internal sealed class SegmentStarts
{
    private long[] _starts = new long[16];

    public int Count { get; private set; }

    /// <summary>The first start; there must be one.</summary>
    public long Min => Count > 0 ? _starts[0] : throw new InvalidOperationException("There is no segment.");

    /// <summary>The last start; there must be one.</summary>
    public long Max => Count > 0 ? _starts[Count - 1] : throw new InvalidOperationException("There is no segment.");

    public bool Contains(long start)
    {
        int place = PlaceOf(start);
        return place < Count && _starts[place] == start;
    }

    public void Add(long start)
    {
        if (Contains(start))
            return;
        if (Count == _starts.Length)
        {
            long[] larger = new long[2 * Count];
            Array.Copy(_starts, larger, Count);
            _starts = larger;
        }

        int place = PlaceOf(start);
        Array.Copy(_starts, place, _starts, place + 1, Count - place);
        _starts[place] = start;
        Count++;
    }

    public void Remove(long start)
    {
        if (!Contains(start))
            return;
        int place = PlaceOf(start);
        Count--;
        Array.Copy(_starts, place + 1, _starts, place, Count - place);
    }

    /// <summary>The starts at or above an offset, in order; a copy.</summary>
    public long[] From(long offset)
    {
        int place = PlaceOf(offset);
        long[] found = new long[Count - place];
        Array.Copy(_starts, place, found, 0, found.Length);
        return found;
    }

    /// <summary>The index of the first start that is not below.</summary>
    private int PlaceOf(long start)
    {
        // Not the generic one, which a fresh process would compile.
        int found = Array.BinarySearch((Array)_starts, 0, Count, start);
        return found < 0 ? ~found : found;
    }
}
