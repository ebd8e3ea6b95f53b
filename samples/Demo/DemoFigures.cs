namespace MappedFileQueues.Demo;

/// <summary>Latencies of the sampled messages of one part of a run, in stopwatch ticks, sorted.</summary>
internal sealed class LatencySample(List<long> sorted)
{
    /// <summary>How many messages were sampled.</summary>
    public int Count => sorted.Count;

    /// <summary>The latency that this share of the messages did not exceed.</summary>
    public TimeSpan Percentile(double share) => sorted.Count == 0
        ? TimeSpan.Zero
        : System.Diagnostics.Stopwatch.GetElapsedTime(0, sorted[Math.Max(0, (int)Math.Ceiling(share * sorted.Count) - 1)]);
}

/// <summary>Computes rate and latency from the times that both sides recorded.</summary>
internal sealed class DemoFigures
{
    private readonly long[] _sent;
    private readonly long[] _received;

    /// <summary>Loads the times of a finished run.</summary>
    public DemoFigures(DemoFolder folder)
    {
        _sent = MessageTimes.Load(folder.SentTimesPath);
        _received = MessageTimes.Load(folder.ReceivedTimesPath);
    }

    /// <summary>From right before the append to right after the read, for the messages of some parts.</summary>
    public LatencySample Latencies(IEnumerable<DemoBurst> parts)
    {
        List<long> latencies = [.. parts.SelectMany(part => Slots(part)).Select(slot => _received[slot] - _sent[slot])];
        latencies.Sort();
        return new LatencySample(latencies);
    }

    /// <summary>
    /// How long a part took, from the first message sent to the last one received; null if too little was recorded.
    /// </summary>
    public TimeSpan? Duration(DemoBurst part)
    {
        long first = long.MaxValue;
        long last = long.MinValue;
        foreach (int slot in Slots(part))
            (first, last) = (Math.Min(first, _sent[slot]), Math.Max(last, _received[slot]));
        return last > first ? System.Diagnostics.Stopwatch.GetElapsedTime(first, last) : null;
    }

    private IEnumerable<int> Slots(DemoBurst part)
    {
        long end = Math.Min(MessageTimes.SlotOf(part.To.Messages), Math.Min(_sent.Length, _received.Length));
        for (long slot = MessageTimes.SlotOf(part.From.Messages); slot < end; slot++)
        {
            if (_sent[slot] != 0 && _received[slot] >= _sent[slot])
                yield return (int)slot;
        }
    }
}
