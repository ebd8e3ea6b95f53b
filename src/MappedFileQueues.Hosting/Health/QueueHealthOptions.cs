using MappedFileQueues.Hosting.Queues;

namespace MappedFileQueues.Hosting;

/// <summary>
/// From where on a queue is not healthy. Read from the section `MappedFileQueues:QUEUE:Health`; what the code sets overrides it.
/// They are checked when the application starts.
/// </summary>
public sealed class QueueHealthOptions
{
    /// <summary>A consumer or a group that is further behind is degraded, in bytes of the log; default null, never.</summary>
    public long? LagBytesMax { get; set; }

    /// <summary>
    /// A consumer or a group whose oldest message has been there for longer is degraded; default null, never. As exact as
    /// <see cref="HostedQueueOptions.WatchInterval"/>, and counted from the start of this process.
    /// </summary>
    public TimeSpan? LagTimeMax { get; set; }

    /// <summary>Less free space on the store's disk is degraded, in bytes; default 256 MiB. 0: never.</summary>
    public long FreeBytesMin { get; set; } = 256L * 1024 * 1024;

    /// <summary>
    /// Messages that have been waiting for the disk for longer are unhealthy; default 1 minute. Not looked at when the queue's
    /// level is <see cref="DurabilityLevel.PageCache"/>, at which nobody flushes by itself.
    /// </summary>
    [TimeRange("00:00:00", "365.00:00:00")]
    public TimeSpan UnflushedTimeMax { get; set; } = TimeSpan.FromMinutes(1);

    /// <summary>A message that was begun that long ago and is not finished blocks all readers: degraded; default 10 s.</summary>
    [TimeRange("00:00:00", "365.00:00:00")]
    public TimeSpan ClaimTimeMax { get; set; } = TimeSpan.FromSeconds(10);
}
