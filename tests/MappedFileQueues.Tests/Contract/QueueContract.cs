using MappedFileQueues.Threads;

namespace MappedFileQueues.Tests.Contract;

/// <summary>
/// What every queue promises, whatever its kind, its producer mode and its platform: one class of tests, run for each of them, in
/// tiny, small and default segments, with one queue and with two on one path. Its parts: reading, producing, waiting, life,
/// offsets, status.
/// </summary>
public abstract partial class QueueContract
{
    public enum Segments
    {
        /// <summary>4 KiB: rolls all the time.</summary>
        Tiny,

        /// <summary>64 KiB.</summary>
        Small,

        /// <summary>What the options say by themselves.</summary>
        Default,
    }

    private readonly QueueKind _kind;
    private readonly ProducerMode _mode;
    private readonly bool _portable;

    private protected QueueContract(QueueKind kind, ProducerMode mode, bool portable)
    {
        _kind = kind;
        _mode = mode;
        _portable = portable;
    }

    /// <summary>Segment length, and whether two queues share the path.</summary>
    public static TheoryData<Segments, bool> Places => new()
    {
        { Segments.Tiny, false },
        { Segments.Tiny, true },
        { Segments.Small, false },
        { Segments.Default, true },
    };

    private static CancellationToken Deadline => new CancellationTokenSource(Eventually.DefaultDeadline).Token;

    /// <summary>For tests that something is not on disk yet: on a loaded machine a second may pass between two lines.</summary>
    private static void NoInterval(MappedFileQueueOptions options) => options.FlushInterval = Timeout.InfiniteTimeSpan;

    private QueuePair Open(Segments segments, bool two, Action<MappedFileQueueOptions>? configure = null)
    {
        PlatformScope.Use(_portable);
        // One class of each platform works on the disk: which calls it gets does not depend on the kind or the mode, and a disk
        // without a journal takes half a test's processor time to find free inodes among those of deleted files.
        bool onDisk = two && _kind == QueueKind.Message && _mode == ProducerMode.Exclusive;
        return new QueuePair(_kind, two, inMemory: !onDisk, options =>
        {
            options.ProducerMode = _mode;
            if (segments != Segments.Default)
                options.SegmentSize = segments == Segments.Tiny ? 4096 : 64 * 1024;
            else if (_portable || !onDisk)
                // All of a segment is written when it is made there: the 64 MiB of the default are tried on the disk.
                options.SegmentSize = 1024 * 1024;
            configure?.Invoke(options);
        });
    }

    /// <summary>Enough messages for many rolls in tiny segments.</summary>
    private const int Many = 500;

    private static IEnumerable<long> Numbers(long from, int count)
    {
        for (int i = 0; i < count; i++)
            yield return from + i;
    }

    private static List<long> ProduceMany(ProducerUnderTest producer, int count, long from = 0)
    {
        List<long> offsets = [];
        foreach (long number in Numbers(from, count))
            offsets.Add(producer.Produce(number));
        return offsets;
    }
}

[Trait("Category", "Slow")]
public sealed class StructSharedContract() : QueueContract(QueueKind.Struct, ProducerMode.Shared, portable: false);

[Trait("Category", "Slow")]
public sealed class StructExclusiveContract() : QueueContract(QueueKind.Struct, ProducerMode.Exclusive, portable: false);

public sealed class MessageSharedContract() : QueueContract(QueueKind.Message, ProducerMode.Shared, portable: false);

[Trait("Category", "Slow")]
public sealed class MessageExclusiveContract() : QueueContract(QueueKind.Message, ProducerMode.Exclusive, portable: false);

[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class PortableStructSharedContract() : QueueContract(QueueKind.Struct, ProducerMode.Shared, portable: true);

[Trait("Category", "Slow")]
public sealed class PortableStructExclusiveContract() : QueueContract(QueueKind.Struct, ProducerMode.Exclusive, portable: true);

[Trait("Category", "Slow")]
public sealed class PortableMessageSharedContract() : QueueContract(QueueKind.Message, ProducerMode.Shared, portable: true);

[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class PortableMessageExclusiveContract() : QueueContract(QueueKind.Message, ProducerMode.Exclusive, portable: true);
