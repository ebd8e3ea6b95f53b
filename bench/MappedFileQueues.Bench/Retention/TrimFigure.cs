using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Retention;

/// <summary>
/// `trim`: microseconds for each segment that one `Trim` of many removes, beside bare deletions of as many such files.
/// `trim_call`: microseconds for a `Trim` that removes one segment, beside a bare flush, since each has to note on disk what
/// it removes.
/// </summary>
internal sealed class TrimFigure(ChildContext context)
{
    public const string Name = "trim";
    public const string CallName = "trim_call";

    private const int SegmentLength = 256 << 10;
    private const int FullCount = 1000;

    /// <summary>Calls that remove one segment each; the rest goes at once.</summary>
    private const int Calls = 32;

    private readonly List<double> _callTimes = [];
    private readonly List<double> _flushTimes = [];

    private int Count => (int)Math.Clamp(context.Messages / (BenchSettings.MessagesDefault / FullCount), 2 * Calls, FullCount);

    public IReadOnlyList<Samples> Measure()
    {
        Samples each = Interleaved.Run(Name, "us", context.Repetitions, MeasureRaw, MeasureTrim);
        return [each, new Samples(CallName, "us", [.. _flushTimes], [.. _callTimes])];
    }

    private double MeasureRaw()
    {
        using (RawSync sync = new(context.Path("flushed"), rewrites: true, countMax: 1))
            _flushTimes.Add(1e6 / sync.Measure(Calls));
        byte[] content = new byte[SegmentLength];
        string[] paths = [.. Enumerable.Range(0, Count).Select(i => context.Path($"raw-{i}"))];
        foreach (string path in paths)
            File.WriteAllBytes(path, content);
        long start = Clock.Now;
        foreach (string path in paths)
            File.Delete(path);
        return Clock.NanosecondsEach(start, Count) / 1000;
    }

    private double MeasureTrim()
    {
        string path = context.Path("store");
        double microseconds;
        using (MappedFileQueue<Message64> queue = new(new MappedFileQueueOptions
        {
            StorePath = path,
            SegmentSize = SegmentLength,
            Durability = DurabilityLevel.PageCache,
        }))
        {
            Message64 message = Message64.Create();
            for (ulong i = 0; queue.Producer.Offset < (long)Count * SegmentLength; i++)
            {
                message.Number = i;
                queue.Producer.Produce(ref message);
            }

            long start = Clock.Now;
            for (int i = 1; i <= Calls; i++)
                Trim(queue, i);
            _callTimes.Add(Clock.NanosecondsEach(start, Calls) / 1000);
            start = Clock.Now;
            Trim(queue, Count);
            microseconds = Clock.NanosecondsEach(start, Count - Calls) / 1000;
        }

        BenchStore.Delete(path);
        return microseconds;
    }

    private static void Trim(MappedFileQueue<Message64> queue, int segments)
    {
        long before = (long)segments * SegmentLength;
        if (queue.Trim(before) != before)
            throw new ToolException($"A trim kept more than it was asked for: before={before}.");
    }
}
