using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>
/// What one consumer has read and skipped: every message begins where the one before ended, or where the next segment begins; the
/// numbers of each producer have no gap but where the queue reported one, and that report begins and ends where reading did.
/// </summary>
internal sealed class SoakLedger
{
    private const long FrameLengthMin = 24;

    private readonly long[] _last = new long[SoakPlan.ProducerCount];
    private readonly bool[] _mayJump = new bool[SoakPlan.ProducerCount];
    private long _next;
    private long _jumped;

    public long ReadCount { get; private set; }

    public long SkippedBytes { get; private set; }

    public int GapCount { get; private set; }

    /// <summary>The offset after the last message, or after the last gap.</summary>
    public long Next => _next;

    /// <summary>The last number of a producer.</summary>
    public long LastOf(int producer) => _last[producer];

    public void NoteMessage(ReadOnlySpan<byte> message, long offset)
    {
        (int producer, long number) = SoakMessage.Read(message, offset);
        ThrowIfElsewhere(offset, "a message");
        long missing = number - _last[producer] - 1;
        if (missing != 0 && (missing < 0 || !_mayJump[producer]))
            throw new LabViolation($"message {number} of producer {producer} at {offset} follows {_last[producer]}");
        _jumped += missing;
        if (_jumped * FrameLengthMin > SkippedBytes)
            throw new LabViolation($"{_jumped} messages are missing, but only {SkippedBytes} bytes were reported as skipped");
        _mayJump[producer] = false;
        _last[producer] = number;
        _next = offset + 8 + ((message.Length + 7) & ~7);
        ReadCount++;
    }

    public void NoteGap(long from, long to)
    {
        ThrowIfElsewhere(from, "a gap");
        if (to < from)
            throw new LabViolation($"a gap from {from} back to {to}");
        Array.Fill(_mayJump, true);
        SkippedBytes += to - from;
        GapCount++;
        _next = to;
    }

    /// <summary>At the end: the last message of each producer was read, unless a gap reaches to the end.</summary>
    public void ThrowIfNotAt(long end)
    {
        if (_next != end && !IsNextSegment(end))
            throw new LabViolation($"the log ends at {end}, and reading at {_next}");
    }

    private void ThrowIfElsewhere(long offset, string what)
    {
        if (offset != _next && !IsNextSegment(offset))
            throw new LabViolation($"{what} at {offset}, where {_next} would be next");
    }

    /// <summary>The rest of a segment may be padding.</summary>
    private bool IsNextSegment(long offset) => offset % SoakPlan.SegmentLength == 0
        && _next < offset && _next >= offset - SoakPlan.SegmentLength;
}
