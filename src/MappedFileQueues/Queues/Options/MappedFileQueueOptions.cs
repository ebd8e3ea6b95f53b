using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;

namespace MappedFileQueues;

/// <summary>
/// How a queue opens its store and behaves. A queue copies the options when it is made; changing them later changes nothing.
/// </summary>
public class MappedFileQueueOptions
{
    private const long Page = 4096;

    /// <summary>The store's directory. Checked when a queue is made.</summary>
    public string StorePath { get; set; } = "";

    /// <summary>
    /// Whether a missing store is made; default true. When false, a missing store is a <see cref="QueueDiskException"/>.
    /// </summary>
    public bool CreateIfMissing { get; set; } = true;

    /// <summary>
    /// Length of a segment file in bytes, rounded up to whole pages of 4,096; default 64 MiB. Belongs to the store once it is
    /// made: on reopening the stored length counts. A message fits when its length + 8 is at most this.
    /// </summary>
    public long SegmentSize { get; set; } = 64L * 1024 * 1024;

    /// <summary>
    /// Bytes that are allocated and touched ahead of the tail, by a background thread, in growing steps; default 8 MiB. The
    /// lead grows to 64 MiB for a producer that outruns it.
    /// </summary>
    public long PrepareAhead { get; set; } = 8L * 1024 * 1024;

    /// <summary>
    /// How long a waiting consumer burns CPU before it sleeps; default 50 us, about what a futex wake costs. 0 never spins;
    /// <see cref="Timeout.InfiniteTimeSpan"/> always does. Taken as 0 where less than two CPUs may be used.
    /// </summary>
    public TimeSpan ConsumerSpinWaitDuration { get; set; } = TimeSpan.FromMicroseconds(50);

    /// <summary>A sleeping consumer looks again at the latest after this; default 1 s. Wake-ups do not depend on it.</summary>
    public TimeSpan ConsumerRetryInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// When above 0, every N-th message of a producer flushes before its Produce returns, as in 1.x, whatever the level; default
    /// 0.
    /// </summary>
    public long ProducerForceFlushIntervalCount { get; set; }

    /// <summary>Who may produce; default <see cref="ProducerMode.Shared"/>.</summary>
    public ProducerMode ProducerMode { get; set; } = ProducerMode.Shared;

    /// <summary>
    /// When Produce returns with respect to the disk; default <see cref="DurabilityLevel.Interval"/>. At every level a killed
    /// process loses nothing; the level says what a power cut may take. Processes on one store may use different ones, and a call
    /// may name its own (<see cref="ProduceOptions.Durability"/>).
    /// </summary>
    public DurabilityLevel Durability { get; set; } = DurabilityLevel.Interval;

    /// <summary>
    /// At the levels Interval and Group: what is published is flushed at the latest after this, by every queue that has the store
    /// open, while there is something to flush; default 1 s. Infinite: only when a queue is disposed.
    /// </summary>
    public TimeSpan FlushInterval { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// At the level Group, room ahead of the tail is really written with zeros, in the background, instead of only allocated, so
    /// that a flush costs what it costs on a file that is used again; default true. False writes each block once instead of
    /// twice, for flash that wears out, and flushes take longer.
    /// </summary>
    public bool PreallocateByWriting { get; set; } = true;

    /// <summary>Whether messages carry a CRC-32C and whether reading verifies it; default both.</summary>
    public ChecksumMode Checksum { get; set; } = ChecksumMode.WriteAndVerify;

    /// <summary>
    /// What consumers and readers of this queue do where the log is damaged; default <see cref="CorruptionPolicy.Throw"/>. The
    /// others step over it and raise the queue's (a reader's own) CorruptionSkipped event. Producers never step over damage.
    /// </summary>
    public CorruptionPolicy Corruption { get; set; } = CorruptionPolicy.Throw;

    /// <summary>
    /// How long to wait for a consumer's name or the producers' lock that another holds; default 0, at once a <see
    /// cref="QueueInUseException"/>.
    /// </summary>
    public TimeSpan LockTimeout { get; set; } = TimeSpan.Zero;

    /// <summary>
    /// The permissions of what is made, on Unix, whatever the umask: read and write bits for files, and the right to enter for
    /// directories. Default null. Then a directory that is made is 0700; the first files of a store get the read and write bits
    /// of its directory, less what the umask takes and never the right of others to write; and all later ones, whichever process
    /// makes them, get those of `queue.meta`, so that those who share a store do not lock each other out.
    /// </summary>
    public UnixFileMode? UnixCreateMode { get; set; }

    /// <summary>
    /// Opens stores on network and FUSE file systems, whose locks and mappings are not dependable between machines; default
    /// false.
    /// </summary>
    public bool DangerouslyAllowFileSystem { get; set; }

    /// <summary>The clock; default the system's.</summary>
    public TimeProvider TimeProvider { get; set; } = TimeProvider.System;

    /// <summary>For tests that compare bytes: the identity of a store that is made; null for a random one.</summary>
    internal Guid? StoreId { get; set; }

    internal LogSettings ToSettings()
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(StorePath);
        ArgumentNullException.ThrowIfNull(TimeProvider);
        Check(SegmentSize is > 0 and <= StoreMeta.SegmentLengthMax, nameof(SegmentSize), SegmentSize,
            $"from 1 to {StoreMeta.SegmentLengthMax}");
        Check(PrepareAhead >= 0, nameof(PrepareAhead), PrepareAhead, "0 or more");
        Check(ProducerForceFlushIntervalCount >= 0, nameof(ProducerForceFlushIntervalCount),
            ProducerForceFlushIntervalCount, "0 or more");
        CheckTime(ConsumerSpinWaitDuration, nameof(ConsumerSpinWaitDuration));
        CheckTime(LockTimeout, nameof(LockTimeout));
        Check(ConsumerRetryInterval > TimeSpan.Zero || ConsumerRetryInterval == Timeout.InfiniteTimeSpan,
            nameof(ConsumerRetryInterval), ConsumerRetryInterval, "more than zero, or infinite");
        // Not Enum.IsDefined: a fresh process would compile it once for each enum before its first message.
        Check(ProducerMode is >= ProducerMode.Shared and <= ProducerMode.Exclusive,
            nameof(ProducerMode), ProducerMode, "a defined mode");
        Check(Checksum is >= ChecksumMode.WriteAndVerify and <= ChecksumMode.None, nameof(Checksum), Checksum, "a defined mode");
        Check(Corruption is >= CorruptionPolicy.Throw and <= CorruptionPolicy.SkipSegment,
            nameof(Corruption), Corruption, "a defined policy");
        Check(Durability is >= DurabilityLevel.PageCache and <= DurabilityLevel.Group,
            nameof(Durability), Durability, "a defined level");
        Check(FlushInterval > TimeSpan.Zero || FlushInterval == Timeout.InfiniteTimeSpan,
            nameof(FlushInterval), FlushInterval, "more than zero, or infinite");
        return new LogSettings
        {
            PrepareAhead = PrepareAhead,
            SpinDuration = Environment.ProcessorCount < 2 ? TimeSpan.Zero : ConsumerSpinWaitDuration,
            RetryInterval = ConsumerRetryInterval,
            FlushesAtIntervals = Durability != DurabilityLevel.PageCache,
            FlushInterval = FlushInterval == Timeout.InfiniteTimeSpan ? TimeSpan.MaxValue : FlushInterval,
            WritesAhead = Durability == DurabilityLevel.Group && PreallocateByWriting,
            FlushEveryCount = ProducerForceFlushIntervalCount,
            Exclusive = ProducerMode == ProducerMode.Exclusive,
            WriteChecksum = Checksum != ChecksumMode.None,
            VerifyChecksum = Checksum == ChecksumMode.WriteAndVerify,
            LockTimeout = LockTimeout == Timeout.InfiniteTimeSpan ? TimeSpan.MaxValue : LockTimeout,
            UnixCreateMode = UnixCreateMode,
            TimeProvider = TimeProvider,
            StoreId = StoreId,
        };
    }

    internal StoreRequest ToRequest(StoreKind kind, int structSize, ulong fingerprint) => new(
        Path.GetFullPath(StorePath), kind, structSize, fingerprint, (SegmentSize + Page - 1) / Page * Page,
        CreateIfMissing, DangerouslyAllowFileSystem);

    private static void CheckTime(TimeSpan value, string name) =>
        Check(value >= TimeSpan.Zero || value == Timeout.InfiniteTimeSpan, name, value, "zero or more, or infinite");

    private static void Check(bool isValid, string name, object value, string allowed)
    {
        if (!isValid)
            throw new ArgumentOutOfRangeException(name, value, $"{name} must be {allowed}.");
    }
}

/// <summary>Who may produce into a store at one time.</summary>
public enum ProducerMode
{
    /// <summary>Any number of threads and processes.</summary>
    Shared,

    /// <summary>One producer in one process, used by one thread at a time; faster, because nothing has to be claimed.</summary>
    Exclusive,
}

/// <summary>What is done with checksums.</summary>
public enum ChecksumMode
{
    /// <summary>Written by producers, verified by consumers.</summary>
    WriteAndVerify,

    /// <summary>Written by producers, not verified by this queue's consumers.</summary>
    WriteOnly,

    /// <summary>Neither. After a power cut, messages without a checksum count only as far as the last checkpoint.</summary>
    None,
}
