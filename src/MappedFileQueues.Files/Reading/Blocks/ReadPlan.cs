namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// Where the next read begins and how long it is. The first read after opening or a seek is short, and each one that was filled
/// makes the next one longer: so a small file takes little memory, and a large one few calls. Used with the lock held.
/// </summary>
/// <param name="lengthMax">The longest read, in bytes.</param>
internal sealed class ReadPlan(int lengthMax)
{
    private const int FirstLength = 64 * 1024;
    private const int Growth = 4;

    private int _nextLength = Math.Min(FirstLength, lengthMax);

    /// <summary>Where the next read begins.</summary>
    public long Position { get; private set; }

    /// <summary>The largest length seen: a file that ends before it was truncated.</summary>
    public long LengthSeen { get; set; }

    /// <summary>The next read begins here, and is short.</summary>
    public void Restart(long position)
    {
        Position = position;
        _nextLength = Math.Min(FirstLength, lengthMax);
    }

    /// <summary>
    /// How much to read next, <paramref name="max"/> at most if given: never much more than the file is known to hold.
    /// </summary>
    public int NextLength(int max = int.MaxValue)
    {
        int length = Math.Min(_nextLength, max);

        // One byte more than the rest: a read that is not full has met the end.
        long rest = Math.Max(LengthSeen - Position, 0) + 1;
        return rest < length ? (int)((rest + ReadBlock.PageLength - 1) & -ReadBlock.PageLength) : length;
    }

    /// <summary>A block was read from here on.</summary>
    public void Advance(int count) => Position += count;

    /// <summary>A read of the planned length gave so much: a full one makes the next one longer.</summary>
    public void Grow(int count, int length)
    {
        if (count == length && length == _nextLength)
            _nextLength = (int)Math.Min((long)_nextLength * Growth, lengthMax);
    }
}
