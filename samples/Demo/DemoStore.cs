using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Demo;

/// <summary>The demo's store: how it is created and opened, and what the demo reads of it from outside.</summary>
internal static class DemoStore
{
    /// <summary>The consumer's name in the store.</summary>
    public const string ConsumerName = "demo";

    /// <summary>
    /// The largest payload that any store accepts is slightly smaller than this, because the frame's header counts too.
    /// </summary>
    public const int LineLengthMax = SegmentSizeMax - FrameOverheadMax;

    private const int SegmentSizeMax = 1 << 28;
    private const int FrameOverheadMax = 64;

    /// <summary>So small that the demo's lines fill several segments.</summary>
    private const int SegmentSize = 16 * 1024 * 1024;

    /// <summary>Creates the store, with segments that can hold the longest line.</summary>
    public static void Create(DemoFolder folder, InputPlan plan)
    {
        if (LongLines.FirstFileAbove(plan.Files, LineLengthMax) is { } file)
        {
            throw new ToolException(
                $"A line is too long for a message: limit={LineLengthMax}, file={file.Path}. Name other files.");
        }

        bool isLong = LongLines.FirstFileAbove(plan.Files, SegmentSize - FrameOverheadMax) is not null;
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = folder.StorePath,
            SegmentSize = isLong ? SegmentSizeMax : SegmentSize,
        });
    }

    /// <summary>Opens the existing store.</summary>
    public static MappedFileQueue Open(DemoFolder folder) =>
        new(new MappedFileQueueOptions { StorePath = folder.StorePath, CreateIfMissing = false });

    /// <summary>Counts the messages that are published and that the consumer has not committed, by reading them.</summary>
    public static long CountUnread(DemoFolder folder)
    {
        MappedFileConsumerInfo? consumer = StoreInspector.Inspect(folder.StorePath).Consumers
            .FirstOrDefault(consumer => consumer.Name == ConsumerName);
        QueueStart committed = consumer is null ? QueueStart.Earliest : QueueStart.FromOffset(consumer.Offset);
        using MappedFileReader reader = MappedFileReader.Open(folder.StorePath, committed);
        long count = 0;
        while (reader.TryRead(out _))
            count++;
        return count;
    }

    /// <summary>Adds the disk space of the store.</summary>
    public static void AddTo(Report report, DemoFolder folder)
    {
        MappedFileQueueInfo info = StoreInspector.Inspect(folder.StorePath);
        report.Add("segments", $"{Report.Number(info.SegmentCount)} of {Report.Bytes(info.SegmentSize)}");
        report.Add("store on disk", Report.Bytes(info.BytesOnDisk));
    }
}
