namespace MappedFileQueues.CrashLab.Processes;

/// <summary>What kind of store a storm is about; follows from its seed, so that each process of the storm knows it.</summary>
internal sealed class StormPlan
{
    private static readonly int[] s_segmentLengths = [4096, 8192, 65536, 512 * 1024];

    public StormPlan(int seed)
    {
        var random = new Random(seed ^ 0x2125);
        SegmentLength = 4096 << random.Next(5);
        if (random.Next(2) == 0)
            return;
        SegmentLength = s_segmentLengths[random.Next(s_segmentLengths.Length)];
        bool drops = random.Next(2) == 0;
        Retention = new RetentionOptions
        {
            MaxBytes = SegmentLength * (long)random.Next(1, 5),
            KeepUnconsumed = !drops || random.Next(2) == 0,
            UnconsumedBytesMax = drops ? SegmentLength * (long)random.Next(2, 9) : null,
            Recycle = random.Next(8) != 0,
        };
    }

    public int SegmentLength { get; }

    /// <summary>The store's policy; null: it keeps everything.</summary>
    public RetentionOptions? Retention { get; }

    /// <summary>A consumer that is behind may lose messages.</summary>
    public bool Drops => Retention is { } policy && (!policy.KeepUnconsumed || policy.UnconsumedBytesMax is not null);
}
