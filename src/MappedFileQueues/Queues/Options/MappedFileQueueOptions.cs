using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues;

/// <summary>
/// How a queue opens its store and behaves. A queue copies the options when it is created; later changes have no effect on it.
/// </summary>
public class MappedFileQueueOptions
{
    /// <summary>The store's directory. Checked when a queue is created.</summary>
    public string StorePath { get; set; } = "";

    /// <summary>
    /// Whether a missing store is created; default true. When false, a missing store causes a
    /// <see cref="QueueNotFoundException"/>.
    /// </summary>
    public bool CreateIfMissing { get; set; } = true;

    /// <summary>
    /// Length of a segment file in bytes, rounded up to whole pages of 4,096; default 64 MiB. A message fits when its length + 8
    /// is at most this. The store keeps the length it was created with; reopening ignores this value.
    /// </summary>
    public long SegmentSize { get; set; } = 64L * 1024 * 1024;

    /// <summary>
    /// How many bytes ahead of the tail a background thread allocates and touches, in growing steps; default 8 MiB. The lead
    /// grows to 64 MiB for a producer that outruns it.
    /// </summary>
    public long PrepareAhead { get; set; } = 8L * 1024 * 1024;

    /// <summary>
    /// How long a waiting consumer spins before it sleeps; default 50 us, about the cost of a futex wake. 0 never spins;
    /// <see cref="Timeout.InfiniteTimeSpan"/> never sleeps. Treated as 0 when the process may use fewer than two CPUs.
    /// </summary>
    public TimeSpan ConsumerSpinWaitDuration { get; set; } = TimeSpan.FromMicroseconds(50);

    /// <summary>
    /// The longest time a sleeping consumer goes without looking again; default 1 s. Wake-ups do not depend on it.
    /// </summary>
    public TimeSpan ConsumerRetryInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// When above 0, every N-th message of a producer is flushed before its Produce returns, as in 1.x, at any level; default 0.
    /// </summary>
    public long ProducerForceFlushIntervalCount { get; set; }

    /// <summary>Who may produce; default <see cref="ProducerMode.Shared"/>.</summary>
    public ProducerMode ProducerMode { get; set; } = ProducerMode.Shared;

    /// <summary>
    /// What the disk must have done when Produce returns; default <see cref="DurabilityLevel.Interval"/>. The level decides what
    /// a power loss may lose; a killed process loses nothing at any level. Processes on one store may use different levels, and a
    /// call may choose its own (<see cref="ProduceOptions.Durability"/>).
    /// </summary>
    public DurabilityLevel Durability { get; set; } = DurabilityLevel.Interval;

    /// <summary>
    /// The longest time until published messages are flushed at the levels Interval and Group; default 1 s. Every queue that has
    /// the store open flushes while there is something to flush. Infinite: a queue flushes only when it is disposed.
    /// </summary>
    public TimeSpan FlushInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// Whether, at the level Group, a background thread writes zeros to the room ahead of the tail instead of only allocating it;
    /// default true. A flush then costs no more than on a file that is reused. False writes each block once instead of twice,
    /// which spares flash, and makes flushes slower.
    /// </summary>
    public bool PreallocateByWriting { get; set; } = true;

    /// <summary>Whether reading verifies the CRC-32C that each message carries; by default it does.</summary>
    public ChecksumMode Checksum { get; set; } = ChecksumMode.WriteAndVerify;

    /// <summary>
    /// Whether each message that this queue produces gets the time of <see cref="TimeProvider"/> into its
    /// <see cref="MessageHeaders"/>, unless it has one; default false. It takes 16 bytes a message. The system's clock is read
    /// once in some milliseconds. Finding messages by time works without it.
    /// </summary>
    public bool StampTime { get; set; }

    /// <summary>
    /// Whether each message that this queue produces gets the trace of <see cref="System.Diagnostics.Activity.Current"/> into its
    /// <see cref="MessageHeaders"/>, unless it has one; default false. It takes 40 bytes a message, and the trace state.
    /// </summary>
    public bool StampTraceContext { get; set; }

    /// <summary>
    /// What consumers and readers of this queue do where the log is damaged; default <see cref="CorruptionPolicy.Throw"/>. The
    /// other policies step over the damage and raise CorruptionSkipped on the queue, or on the reader itself. Producers never
    /// step over damage.
    /// </summary>
    public CorruptionPolicy Corruption { get; set; } = CorruptionPolicy.Throw;

    /// <summary>
    /// What the store keeps of its past; default null: the store's own policy stays. Otherwise this policy becomes the store's,
    /// for every process, when a queue is created; see <see cref="MappedFileQueue.SetRetention"/>.
    /// </summary>
    public RetentionOptions? Retention { get; set; }

    /// <summary>
    /// How many bytes the producers of this queue may be ahead of the slowest consumer with a stored offset; default 0: without
    /// limit. Counted are whole frames: each message plus 8 bytes, rounded up to 8, and the rest of a segment that is passed.
    /// Every consumer of the store counts, also a closed or dead one, until <see cref="MappedFileQueue.DeleteConsumer"/> or the
    /// retention policy ends it. A store without consumers has no limit. A message or batch that is longer than the limit is
    /// appended once everything before it is consumed. It costs the append path nothing, and a consumer's Commit some
    /// nanoseconds.
    /// </summary>
    public long MaxUnconsumedBytes { get; set; }

    /// <summary>
    /// What Produce does when consumers are <see cref="MaxUnconsumedBytes"/> behind; default <see cref="FullMode.Wait"/>.
    /// </summary>
    public FullMode FullMode { get; set; } = FullMode.Wait;

    /// <summary>
    /// How long to wait for a consumer's name or the producers' lock while another process or queue holds it. Default 0: a
    /// <see cref="QueueInUseException"/> at once, or after 50 ms, in which a program that only copies the files is passed over.
    /// </summary>
    public TimeSpan LockTimeout { get; set; } = TimeSpan.Zero;

    /// <summary>
    /// The Unix permissions of new files and directories, whatever the umask: read and write bits for files, plus the right to
    /// enter for directories. Up to 0777, with read and write for the owner. Configuration writes them in octal: 600 or 0640.
    /// Default null. With null, a new directory gets 0700. The first files of a store get the read and
    /// write bits of its directory, minus what the umask removes, and never write access for others. All later files, whichever
    /// process creates them, get the bits of `queue.meta`, so that processes sharing a store do not lock each other out.
    /// </summary>
    public UnixFileMode? UnixCreateMode { get; set; }

    /// <summary>
    /// Whether stores may be on network and FUSE file systems, whose locks and mappings are not dependable between machines;
    /// default false.
    /// </summary>
    public bool DangerouslyAllowFileSystem { get; set; }

    /// <summary>
    /// The clock. Default: the system's. Where it throws, the queue itself goes by the time that it told last; a message that is
    /// to be stamped (<see cref="StampTime"/>) is refused.
    /// </summary>
    public TimeProvider TimeProvider { get; set; } = TimeProvider.System;

    /// <summary>The identity of a new store, for tests that compare bytes; null for a random one.</summary>
    internal Guid? StoreId { get; set; }

    /// <summary>
    /// The store whose users share this one too when its folder is made: it gets their rights, group and owner. Null: nobody's.
    /// </summary>
    internal string? RightsOf { get; set; }

    /// <summary>The operating system that the queue sees, for MappedFileQueues.Testing; null for the process's own.</summary>
    internal OperatingSystemServices? Platform { get; set; }

    /// <summary>
    /// Throws if an option is out of range, as the constructor of a queue does. Touches no file.
    /// </summary>
    /// <exception cref="ArgumentException">An option cannot be used; the parameter's name is that of the option.</exception>
    public void Validate()
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(StorePath);
        ArgumentNullException.ThrowIfNull(TimeProvider);
        Check(SegmentSize is > 0 and <= StoreMeta.SegmentLengthMax, SegmentSize, $"from 1 to {StoreMeta.SegmentLengthMax}");
        Check(PrepareAhead >= 0, PrepareAhead, "0 or more");
        Check(ProducerForceFlushIntervalCount >= 0, ProducerForceFlushIntervalCount, "0 or more");
        CheckTime(ConsumerSpinWaitDuration);
        CheckTime(LockTimeout);
        Check(ConsumerRetryInterval > TimeSpan.Zero || ConsumerRetryInterval == Timeout.InfiniteTimeSpan,
            ConsumerRetryInterval, "more than zero, or infinite");
        // Not Enum.IsDefined: a fresh process would compile it once for each enum before its first message.
        Check(ProducerMode is >= ProducerMode.Shared and <= ProducerMode.Exclusive, ProducerMode, "a defined mode");
        Check(Checksum is >= ChecksumMode.WriteAndVerify and <= ChecksumMode.WriteOnly, Checksum, "a defined mode");
        Check(Corruption is >= CorruptionPolicy.Throw and <= CorruptionPolicy.SkipSegment, Corruption, "a defined policy");
        Check(Durability is >= DurabilityLevel.PageCache and <= DurabilityLevel.Group, Durability, "a defined level");
        Check(FlushInterval > TimeSpan.Zero || FlushInterval == Timeout.InfiniteTimeSpan,
            FlushInterval, "more than zero, or infinite");
        Check(MaxUnconsumedBytes >= 0, MaxUnconsumedBytes, "0 or more");
        Check(FullMode is >= FullMode.Wait and <= FullMode.Throw, FullMode, "a defined mode");
        Check(UnixCreateMode is not { } mode || CreateModes.IsUsable(mode), UnixCreateMode, CreateModes.Expected);
        Retention?.ThrowIfInvalid();
    }

    private static void CheckTime(TimeSpan value, [CallerArgumentExpression(nameof(value))] string name = "") =>
        Check(value >= TimeSpan.Zero || value == Timeout.InfiniteTimeSpan, value, "zero or more, or infinite", name);

    private static void Check(
        bool isValid, object? value, string allowed, [CallerArgumentExpression(nameof(value))] string name = "")
    {
        if (!isValid)
            throw new ArgumentOutOfRangeException(name, value, $"{name} must be {allowed}.");
    }
}

/// <summary>Which producers a store admits at the same time.</summary>
public enum ProducerMode
{
    /// <summary>Any number of threads and processes.</summary>
    Shared,

    /// <summary>One producer in one process, used by one thread at a time. Faster, because nothing has to be claimed.</summary>
    Exclusive,
}

/// <summary>
/// What a producer does when consumers are too far behind (<see cref="MappedFileQueueOptions.MaxUnconsumedBytes"/>).
/// </summary>
public enum FullMode
{
    /// <summary>It waits until a consumer commits, is deleted or reset, or is dropped by the retention policy.</summary>
    Wait,

    /// <summary>It throws a <see cref="QueueFullException"/>.</summary>
    Throw,
}

/// <summary>How checksums are used.</summary>
public enum ChecksumMode
{
    /// <summary>Producers write them, consumers verify them.</summary>
    WriteAndVerify,

    /// <summary>Producers write them, this queue's consumers do not verify them.</summary>
    WriteOnly,
}
