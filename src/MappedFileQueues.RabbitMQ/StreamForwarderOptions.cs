using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;

namespace MappedFileQueues.RabbitMQ;

/// <summary>What a <see cref="StreamForwarder"/> forwards, and how.</summary>
public sealed class StreamForwarderOptions : BridgeOptions
{
    /// <summary>The length of an envelope that is full, when nothing else is said: 64 KiB.</summary>
    public const int PackLengthDefault = 64 * 1024;

    private const int PackLengthMax = 128 * 1024 * 1024;
    private const int WindowMax = 65536;

    /// <summary>A broker makes no stream whose segments are longer (rabbit_amqqueue.erl).</summary>
    private const long StreamSegmentLengthMax = 3_000_000_000;

    /// <summary>The name of the store's consumer whose cursor follows the confirms. Default <c>bridge</c>.</summary>
    public string ConsumerName { get; set; } = "bridge";

    /// <summary>
    /// How many bytes of records go into one broker message; a longer record has one of its own. 0: one record a broker message.
    /// Default 64 KiB, at most 128 MiB.
    /// </summary>
    public int PackLength { get; set; } = PackLengthDefault;

    /// <summary>How long a record waits for others while earlier ones are not confirmed yet. Default 5 ms.</summary>
    public TimeSpan PackTime { get; set; } = TimeSpan.FromMilliseconds(5);

    /// <summary>
    /// The most broker messages that are not confirmed yet. Default 256, at most 65,536. With records of 64 MiB in sum it is full
    /// too.
    /// </summary>
    public int Window { get; set; } = 256;

    /// <summary>
    /// Whether records leave only once they are on the local disk, which the forwarder flushes for that. Default true: a power
    /// loss then never takes back what the stream holds. False saves the flush.
    /// </summary>
    public bool DurableOnly { get; set; } = true;

    /// <summary>How the broker keeps forwarders of one store from running at the same time.</summary>
    public StreamLockKind Lock { get; set; }

    /// <summary>
    /// Another store, for records that the broker refuses or that are too long, which <see cref="DeadLetter"/> reads. Default
    /// none: the forwarder stops at such a record. A forwarder that dies at the wrong moment puts a record there twice.
    /// </summary>
    public string? DeadLetterPath { get; set; }

    /// <summary>
    /// A longer record is not offered to the broker. Default 128 MiB less 1 KiB, what a broker takes by default before RabbitMQ
    /// 4; that one takes 16 MiB, and may be told otherwise (max_message_size).
    /// </summary>
    public int RecordLengthMax { get; set; } = (128 * 1024 * 1024) - 1024;

    /// <summary>For a stream that the forwarder makes: how many bytes the broker keeps. Default: all.</summary>
    public long? StreamMaxLength { get; set; }

    /// <summary>For a stream that the forwarder makes: how long the broker keeps a segment. Default: for ever.</summary>
    public TimeSpan? StreamMaxAge { get; set; }

    /// <summary>
    /// For a stream that the forwarder makes: the length of its segments, at most 3,000,000,000. Default: the broker's, 500 MB.
    /// </summary>
    public long? StreamSegmentLength { get; set; }

    /// <summary>
    /// How long the token of the lock is kept before it is given back and got again. The broker ends a channel that keeps a
    /// message without a word for its <c>consumer_timeout</c>, 30 minutes by default.
    /// </summary>
    internal TimeSpan TokenAgeMax { get; set; } = TimeSpan.FromMinutes(5);

    internal override void Check()
    {
        base.Check();
        ArgumentOutOfRangeException.ThrowIfNegative(PackLength, nameof(PackLength));
        ArgumentOutOfRangeException.ThrowIfGreaterThan(PackLength, PackLengthMax, nameof(PackLength));
        CheckTime(PackTime, TimeSpan.Zero, nameof(PackTime));
        ArgumentOutOfRangeException.ThrowIfLessThan(Window, 1, nameof(Window));
        ArgumentOutOfRangeException.ThrowIfGreaterThan(Window, WindowMax, nameof(Window));
        ArgumentOutOfRangeException.ThrowIfLessThan(StreamMaxLength ?? 1, 1, nameof(StreamMaxLength));
        ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(
            StreamMaxAge ?? TimeSpan.MaxValue, TimeSpan.Zero, nameof(StreamMaxAge));
        ArgumentOutOfRangeException.ThrowIfLessThan(StreamSegmentLength ?? 1, 1, nameof(StreamSegmentLength));
        ArgumentOutOfRangeException.ThrowIfGreaterThan(
            StreamSegmentLength ?? 1, StreamSegmentLengthMax, nameof(StreamSegmentLength));
        ThrowIfUndefined(Lock, nameof(Lock));
        ArgumentOutOfRangeException.ThrowIfLessThan(RecordLengthMax, 1, nameof(RecordLengthMax));
        ArgumentException.ThrowIfNullOrEmpty(ConsumerName, nameof(ConsumerName));
        if (!StoreNames.IsValidConsumer(ConsumerName))
            throw new ArgumentException($"ConsumerName is {StoreNames.NameRule}: name=\"{ConsumerName}\".");

        if (DeadLetterPath is { } path && StorePaths.AreSame(path, StorePath))
        {
            throw new ArgumentException($"DeadLetterPath is the store itself: a refused record would be forwarded again. "
                + $"path={StorePath}, dead letters={path}. Name another store.");
        }
    }
}

/// <summary>What holds the lock of a forwarder at the broker.</summary>
public enum StreamLockKind
{
    /// <summary>A quorum queue with a single active consumer and one token. Right for one node and for clusters.</summary>
    Quorum = 0,

    /// <summary>
    /// An exclusive consumer of a classic queue. Right for one node only. One that stands by looks every second or two whether
    /// the queue is free.
    /// </summary>
    Classic = 1,
}
