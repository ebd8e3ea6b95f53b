using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Format;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>Appends at the level Group, over the edges of some segments.</summary>
internal sealed class AppendAgain(ProducerMode mode) : RepeatScenario
{
    private const int AppendedCount = 12;

    public override MappedFileQueue Open(SimServices os)
    {
        MappedFileQueueOptions options = Options(os);
        options.ProducerMode = mode;
        return new MappedFileQueue(options);
    }

    protected override void Begin(MappedFileQueue queue) => AppendUnnumbered(queue, AppendedCount, DurabilityLevel.Group);

    public override void Again(MappedFileQueue queue) => Append(queue, AppendedCount, DurabilityLevel.Group);
}

/// <summary>Flushes what several appends have left.</summary>
internal sealed class FlushAgain : RepeatScenario
{
    protected override void Begin(MappedFileQueue queue)
    {
        AppendUnnumbered(queue, 9);
        queue.Flush();
    }

    public override void Again(MappedFileQueue queue) => AppendAndFlush(queue, 1);
}

/// <summary>Removes all that may go, and appends into the files that become free.</summary>
internal sealed class TrimAgain : RepeatScenario
{
    private const int AppendedCount = 40;

    private long _kept;
    private int _keptCount;

    /// <summary>The files are used again.</summary>
    public bool Recycles { get; init; }

    /// <summary>As in a snapshot, or a store of an earlier version.</summary>
    public bool HasNoRecord { get; init; }

    /// <summary>The process that dies appends too, and may leave a file that was to become its next segment.</summary>
    public bool AppendsBefore { get; init; }

    /// <summary>Nothing is appended: an append flushes names too.</summary>
    public bool EndsThere { get; init; }

    /// <summary>Nothing of what is removed was flushed.</summary>
    public bool IsUnflushed { get; init; }

    public override void SetUp(MappedFileQueue queue)
    {
        queue.SetRetention(new RetentionOptions { MaxBytes = 100 * SegmentLength, Recycle = Recycles });
        if (IsUnflushed)
            Append(queue, AppendedCount);
        else
            AppendAndFlush(queue, AppendedCount);
        queue.OpenConsumer(Consumer, QueueStart.Latest).Dispose();
    }

    public override void SetUp(SimDisk disk)
    {
        if (!HasNoRecord)
            return;
        disk.Remove(StoreNames.LogStart);
        disk.FlushFolder(StoreNames.Offsets);
    }

    protected override void Begin(MappedFileQueue queue)
    {
        queue.Trim(long.MaxValue);
        if (AppendsBefore)
            AppendUnnumbered(queue, 12);
    }

    public override void Again(MappedFileQueue queue)
    {
        _kept = queue.Trim(long.MaxValue);
        _keptCount = Count;
        if (!EndsThere)
            AppendAndFlush(queue, AppendedCount);
    }

    public override void Check(MappedFileQueue queue)
    {
        if (queue.GetInfo().LogStart is var oldest && oldest != _kept)
            throw new LabViolation($"All before {_kept} was removed, and the log begins at {oldest}");
        CheckMessages(Acknowledged, _keptCount);
    }
}
