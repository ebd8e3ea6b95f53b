namespace MappedFileQueues.RabbitMQ;

/// <summary>What a <see cref="StreamFetcher"/> fetches, and how.</summary>
public sealed class StreamFetcherOptions : BridgeOptions
{
    /// <summary>
    /// How many broker messages may be on the way, and in memory while the local disk is slow: fewer for long records. Default
    /// 1,000.
    /// </summary>
    public ushort Prefetch { get; set; } = 1000;

    /// <summary>
    /// The longest time for which the place in the stream is not written down. After a crash, what was appended since then is
    /// read again and compared. Default 1 s.
    /// </summary>
    public TimeSpan PositionInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// The length of the segments of a store that the fetcher makes. Default 128 MiB, which takes every record that a forwarder
    /// sends by default.
    /// </summary>
    public long SegmentSize { get; set; } = 128L * 1024 * 1024;

    /// <summary>When what is appended is on the local disk. Default: at intervals.</summary>
    public DurabilityLevel Durability { get; set; } = DurabilityLevel.Interval;

    internal override void Check()
    {
        base.Check();
        ArgumentOutOfRangeException.ThrowIfLessThan(Prefetch, 2, nameof(Prefetch));
        CheckTime(PositionInterval, TimeSpan.Zero, nameof(PositionInterval));
        new MappedFileQueueOptions { StorePath = StorePath, SegmentSize = SegmentSize, Durability = Durability }.Validate();
    }
}
