using MappedFileQueues.Hosting.Queues;

namespace MappedFileQueues.Hosting;

/// <summary>
/// The options of a queue in an application: those of every queue, and what the application does with it. They are read from the
/// section `MappedFileQueues:NAME`; what the code sets overrides it. They are checked when the application starts.
/// </summary>
public sealed class HostedQueueOptions : MappedFileQueueOptions
{
    /// <summary>
    /// Whether the queue is opened when the application starts, so that an error ends the start; default true. False: on first
    /// use.
    /// </summary>
    public bool OpenAtStart { get; set; } = true;

    /// <summary>
    /// How often the store is looked at: for what other processes did to it (the log), and for lag in time and the age of
    /// unflushed messages, which are as exact as this. From 100 ms to a day; default 5 s. A look reads the headers of the
    /// messages since the last checkpoint, some milliseconds at most with segments of 64 MiB.
    /// </summary>
    [TimeRange("00:00:00.1000000", "1.00:00:00")]
    public TimeSpan WatchInterval { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Whether traces go with the messages; default true. Each message that is produced gets the trace of the current activity,
    /// as <see cref="MappedFileQueueOptions.StampTraceContext"/> says; without an activity it gets none.
    /// </summary>
    public bool PropagateTraces { get; set; } = true;

    /// <summary>
    /// Whether this process reports the metrics of the store, which are the same from every process; default true. Set it to
    /// false in all processes but one to have them once.
    /// </summary>
    public bool ReportStore { get; set; } = true;
}
