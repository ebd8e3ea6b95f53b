using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Queues;

/// <summary>
/// The options of the stores that are measured: the defaults, but for what the figure is about. Raw loops flush nothing, so these
/// do not either.
/// </summary>
internal static class BenchStore
{
    private const long SegmentLengthMin = 64L << 20;

    /// <summary>A store whose first segment holds all the messages, so that nothing but appends is measured.</summary>
    public static MappedFileQueueOptions InOneSegment(
        string path, long count, ProducerMode mode, ChecksumMode checksum = ChecksumMode.WriteAndVerify) => new()
        {
            StorePath = path,
            SegmentSize = SegmentLengthFor(count),
            ProducerMode = mode,
            Checksum = checksum,
            Durability = DurabilityLevel.PageCache,
        };

    /// <summary>Segments of the default length.</summary>
    public static MappedFileQueueOptions InDefaultSegments(
        string path, ProducerMode mode, ChecksumMode checksum = ChecksumMode.WriteAndVerify) => new()
        {
            StorePath = path,
            ProducerMode = mode,
            Checksum = checksum,
            Durability = DurabilityLevel.PageCache,
        };

    /// <summary>
    /// Segments of the default length; its reader spins for ever, being a process that does nothing else. With one CPU it
    /// waits as by default: there it would only keep the producer from running.
    /// </summary>
    public static MappedFileQueueOptions Spinning(string path, ProducerMode mode)
    {
        MappedFileQueueOptions options = new()
        {
            StorePath = path,
            ProducerMode = mode,
            Durability = DurabilityLevel.PageCache,
        };
        if (Environment.ProcessorCount > 1)
            options.ConsumerSpinWaitDuration = Timeout.InfiniteTimeSpan;
        return options;
    }

    /// <summary>Whole mebibytes, with room for the frame that does not fit.</summary>
    public static long SegmentLengthFor(long count) =>
        Math.Max(SegmentLengthMin, ((count + 1) * Message64.FrameLength + (1 << 20)) >> 20 << 20);

    /// <summary>
    /// How many messages fill a store whose size the figure's name says; a shorter run fills it with what it was asked for.
    /// </summary>
    public static long CountFor(long messages, long fullCount) =>
        messages >= BenchSettings.MessagesDefault ? fullCount : Math.Min(messages, fullCount);

    /// <summary>Removes a store that nobody has open.</summary>
    public static void Delete(string path) => Directory.Delete(path, recursive: true);
}
