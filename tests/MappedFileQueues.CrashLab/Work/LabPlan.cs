using MappedFileQueues.Memory;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>What kind of store a seed makes, and who uses it how.</summary>
internal sealed record LabPlan
{
    /// <summary>Many segments with few messages.</summary>
    private const int LengthKindOfRetaining = 4;

    private static readonly int[] s_segmentLengths = [4096, 4096, 8192, 16384, 65536];
    private static readonly int[] s_retainingLengths = [4096, 8192, 16384, 16384];
    private static readonly int[] s_fixedLengths = [8, 24, 56, 120, 504];
    private static readonly DurabilityLevel[] s_levels =
        [DurabilityLevel.PageCache, DurabilityLevel.PageCache, DurabilityLevel.Interval, DurabilityLevel.Group];

    private static readonly int[] s_flushCounts = [0, 0, 0, 0, 1, 3];

    /// <summary>
    /// How much of a recycled segment is zeroed before it gets its name: tiny, so that tiny segments have a rest.
    /// </summary>
    private const int TinyFirstBlocks = 4096;

    public LabPlan(Random random, bool retains = false)
    {
        SegmentLength = s_segmentLengths[random.Next(s_segmentLengths.Length)];
        IsExclusive = random.Next(3) == 0;
        Checksum = random.Next(6) == 0 ? ChecksumMode.WriteOnly : ChecksumMode.WriteAndVerify;
        HasFence = random.Next(2) == 0;
        ProcessCount = random.Next(1, 4);
        LengthKind = random.Next(4);
        FixedLength = s_fixedLengths[random.Next(s_fixedLengths.Length)];
        FlushCount = s_flushCounts[random.Next(s_flushCounts.Length)];
        ConsumerCount = random.Next(1, 3);
        Level = s_levels[random.Next(s_levels.Length)];
        HasDurableReader = random.Next(3) == 0;
        if (!retains)
            return;
        SegmentLength = s_retainingLengths[random.Next(s_retainingLengths.Length)];
        LengthKind = random.Next(3) == 0 ? LengthKind : LengthKindOfRetaining;
        ProcessCount = random.Next(2, 4);
        FirstBlocks = random.Next(8) == 0 ? 0 : TinyFirstBlocks;
        Retention = MakeRetention(random);
    }

    public int SegmentLength { get; }

    public bool IsExclusive { get; }

    public ChecksumMode Checksum { get; }

    public bool HasFence { get; }

    public int ProcessCount { get; }

    public int LengthKind { get; }

    public int FixedLength { get; }

    /// <summary>As the option of that name; 0: no counted flushes.</summary>
    public int FlushCount { get; }

    public int ConsumerCount { get; }

    public DurabilityLevel Level { get; }

    /// <summary>The first consumer sees only what is on disk.</summary>
    public bool HasDurableReader { get; }

    /// <summary>What is kept; null: everything, and nobody trims.</summary>
    public RetentionOptions? Retention { get; }

    /// <summary>As the engine's constant of that name; 0: that.</summary>
    public int FirstBlocks { get; }

    /// <summary>A consumer that is behind may lose messages.</summary>
    public bool Drops => Retention is { } policy && (!policy.KeepUnconsumed || policy.UnconsumedBytesMax is not null);

    /// <summary>An append may wait for a flush, which waits for the claims of the living.</summary>
    public bool Waits => FlushCount > 0 || Level == DurabilityLevel.Group;

    public int LengthMax => SegmentLength - 8;

    public int NextLength(Random random) => LengthKind switch
    {
        0 => FixedLength,
        1 => random.Next(100),
        2 => random.Next(600),
        LengthKindOfRetaining => random.Next(LengthMax / 3),
        _ => random.Next(12) == 0 ? random.Next(LengthMax + 1) : random.Next(300),
    };

    /// <summary>For this thread, from here on.</summary>
    public void Apply() => PlantedFaults.FirstBlocks = FirstBlocks;

    public MappedFileQueueOptions Options(string path, Guid storeId, bool isExclusive) => new()
    {
        StorePath = path,
        SegmentSize = SegmentLength,
        ProducerMode = isExclusive ? ProducerMode.Exclusive : ProducerMode.Shared,
        Checksum = Checksum,
        ConsumerSpinWaitDuration = TimeSpan.Zero,
        ProducerForceFlushIntervalCount = FlushCount,
        Durability = Level,
        FlushInterval = TimeSpan.FromHours(1),
        StoreId = storeId,
    };

    public override string ToString() =>
        $"segment={SegmentLength}, mode={(IsExclusive ? "Exclusive" : "Shared")}, checksum={Checksum}, fence={HasFence}, "
        + $"processes={ProcessCount}, lengths={LengthKind}, flushEvery={FlushCount}, level={Level}"
        + (Retention is null ? "" : $", first={FirstBlocks}, {Retention}");

    private RetentionOptions MakeRetention(Random random) => new()
    {
        MaxBytes = random.Next(5) == 0 ? null : SegmentLength * (long)random.Next(1, 5),
        KeepUnconsumed = random.Next(4) != 0,
        UnconsumedBytesMax = random.Next(3) == 0 ? SegmentLength * (long)random.Next(1, 5) : null,
        Recycle = random.Next(6) != 0,
    };
}
