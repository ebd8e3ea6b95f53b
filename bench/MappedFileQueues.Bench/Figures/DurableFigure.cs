using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Messages a second that threads, or tasks, append at the level Group, each waiting until its message is on disk, beside as many
/// threads that write and flush blocks of files of their own. The default options but for the level. The messages go into the
/// middle of a segment: its start is flushed faster where the system caches files in pieces that grow. Both write to blocks that
/// nobody has written before, or, in a store that recycles its segments, to blocks that have been written.
/// </summary>
internal sealed class DurableFigure(
    ChildContext context, int callerCount, bool isAsynchronous = false, bool isRecycled = false)
{
    public const string RecycledName = "durable_recycled";

    /// <summary>Callers share flushes, so they get more done in the same time.</summary>
    private const int SharingMax = 16;

    /// <summary>What is in the store before.</summary>
    public const long FilledLength = 32L << 20;

    /// <summary>A store that recycles keeps so much, and goes around several times before.</summary>
    private const long KeptLength = 256L << 20;
    private const long RecycledLength = (640L << 20) + FilledLength;

    private int EachCount => CountFor(context.Messages) * Math.Clamp(callerCount / 2, 1, SharingMax) / callerCount;

    private int MessageCount => EachCount * callerCount;

    /// <summary>So many flushes take a second or less.</summary>
    public static int CountFor(long messages) => (int)Math.Clamp(messages / 1000, 128, 4000);

    public IReadOnlyList<Samples> Measure()
    {
        const int WarmUpCount = 2;
        int rawMax = EachCount * (context.Repetitions + 1) + WarmUp.CallsMax * WarmUpCount;
        RawSync[] raw = [.. Enumerable.Range(0, callerCount)
            .Select(i => new RawSync(context.Path($"raw-{i}"), rewrites: isRecycled, rawMax))];
        string path = context.Path("store");
        Samples samples;
        using (MappedFileQueue<Message64> queue = Open(path))
        {
            if (isRecycled)
                queue.SetRetention(new RetentionOptions { MaxBytes = KeptLength });
            MappedFileProducer<Message64> producer = queue.Producer;
            Fill(producer, isRecycled && context.Messages >= BenchSettings.MessagesDefaultQuick ? RecycledLength : FilledLength);
            WarmUp.UntilCompiled(() =>
            {
                raw[0].Run(WarmUpCount);
                Append(producer, WarmUpCount);
            });
            samples = Interleaved.Run(
                context.Task.Role,
                "msg/s",
                context.Repetitions,
                () => InThreads(i => raw[i].Run(EachCount)),
                () => MeasureQueue(queue));
        }

        foreach (RawSync file in raw)
            file.Dispose();
        // The next figure's store has the same place.
        BenchStore.Delete(path);
        return [samples];
    }

    /// <summary>
    /// `raw_fdatasync`: bare flushes of a block that is rewritten, beside those of blocks never written before.
    /// </summary>
    public static IReadOnlyList<Samples> MeasureRaw(ChildContext context)
    {
        int count = CountFor(context.Messages);
        using RawSync rewritten = new(context.Path("raw"), rewrites: true, countMax: 1);
        using RawSync fresh = new(context.Path("raw-new"), rewrites: false, countMax: count * (context.Repetitions + 1));
        return [Interleaved.Run(
            context.Task.Role, "1/s", context.Repetitions, () => fresh.Measure(count), () => rewritten.Measure(count))];
    }

    public static MappedFileQueue<Message64> Open(string path) =>
        new(new MappedFileQueueOptions { StorePath = path, Durability = DurabilityLevel.Group });

    public static void Append(MappedFileProducer<Message64> producer, int count)
    {
        Message64 message = Message64.Create();
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)i;
            producer.Produce(ref message);
        }
    }

    public static void Fill(MappedFileProducer<Message64> producer, long length)
    {
        Message64[] batch = [.. Enumerable.Repeat(Message64.Create(), 4096)];
        while (producer.Offset < length)
            producer.ProduceBatch(batch);
    }

    private double MeasureQueue(MappedFileQueue<Message64> queue)
    {
        MappedFileProducer<Message64> producer = queue.Producer;
        double rate = isAsynchronous
            ? AppendInTasks(producer, EachCount).GetAwaiter().GetResult()
            : InThreads(_ => Append(producer, EachCount));
        if (queue.ConfirmedOffset != producer.Offset)
            throw new ToolException($"Messages that were acknowledged are not confirmed: figure={context.Task.Role}.");
        return rate;
    }

    private async Task<double> AppendInTasks(MappedFileProducer<Message64> producer, int each)
    {
        long started = Clock.Now;
        await Task.WhenAll(Enumerable.Range(0, callerCount).Select(_ => Task.Run(() => AppendAsync(producer, each))));
        return MessageCount * 1e9 / Clock.Nanoseconds(Clock.Now - started);
    }

    public static async Task AppendAsync(MappedFileProducer<Message64> producer, int count)
    {
        Message64 message = Message64.Create();
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)i;
            await producer.ProduceAsync(message);
        }
    }

    /// <summary>The rate of all callers together; each gets its number.</summary>
    private double InThreads(Action<int> run)
    {
        using Barrier start = new(callerCount + 1);
        Thread[] threads = [.. Enumerable.Range(0, callerCount).Select(i => new Thread(() =>
        {
            start.SignalAndWait();
            run(i);
        }))];
        foreach (Thread thread in threads)
            thread.Start();
        start.SignalAndWait();
        long started = Clock.Now;
        foreach (Thread thread in threads)
            thread.Join();
        return MessageCount * 1e9 / Clock.Nanoseconds(Clock.Now - started);
    }
}
