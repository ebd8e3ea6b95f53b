using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Retention;

/// <summary>
/// Appending for as long as one likes on a disk that does not fill up: the default options and a policy that keeps 256 MiB, from
/// an ordinary loop, with nothing prepared by hand. `append_recycled`: nanoseconds for each message, beside the prefaulted copy.
/// `append_recycled_p9999`: the pause that one append in 10,000 exceeds, beside a bare log whose files are zeroed and used again.
/// `append_recycled_disk`: the most that the store took on the disk, beside what the policy keeps.
/// </summary>
internal sealed class RecycledAppendFigure(ChildContext context)
{
    public const string Name = "append_recycled";
    public const string PauseName = "append_recycled_p9999";
    public const string DiskName = "append_recycled_disk";
    public const string RawRole = "raw_recycled";

    private const long FullCount = 100_000_000;
    private const long KeptLength = 256L << 20;
    private const long DiskMax = 512L << 20;
    private const double Mebibyte = 1 << 20;

    private readonly List<double> _diskUse = [];
    private Message64 _message = Message64.Create();

    private long Count => BenchStore.CountFor(context.Messages, FullCount);

    public IReadOnlyList<Samples> Measure()
    {
        Samples mean = Interleaved.Run(Name, "ns", context.Repetitions, MeasureCopy, MeasureMean);
        Samples pause = Interleaved.Run(PauseName, "us", context.Repetitions, MeasureRawPause, MeasurePause);
        double[] kept = [.. _diskUse.Select(_ => KeptLength / Mebibyte)];
        return [mean, pause, new Samples(DiskName, "MiB", kept, [.. _diskUse])];
    }

    /// <summary>The twin of `append_recycled` in bench/limits.c.</summary>
    public static IReadOnlyList<Samples> MeasureRaw(ChildContext context)
    {
        Message64 message = Message64.Create();
        return [Interleaved.Run(Name, "ns", context.Repetitions, MeasureOne, null)];

        double MeasureOne()
        {
            using RawRecycledLog log = new(context.Task.Directory);
            long start = Clock.Now;
            log.Append(ref message, context.Messages);
            double nanoseconds = Clock.NanosecondsEach(start, context.Messages);
            log.Check(context.Messages);
            return nanoseconds;
        }
    }

    private unsafe double MeasureCopy()
    {
        using RawFile file = RawFile.Create(context.Path("raw"), RawFile.LengthFor(context.Messages), allocates: true);
        file.TouchForWriting();
        long start = Clock.Now;
        RawLoops.Copy(file.Start, ref _message, 0, context.Messages);
        double nanoseconds = Clock.NanosecondsEach(start, context.Messages);
        Sums.Check("raw copy", RawLoops.Read(file.Start, context.Messages), Message64.ExpectedSum(context.Messages));
        return nanoseconds;
    }

    private double MeasureMean()
    {
        long count = Count;
        return InStore(count, queue =>
        {
            Message64 message = Message64.Create();
            MappedFileProducer<Message64> producer = queue.Producer;
            long start = Clock.Now;
            for (long i = 0; i < count; i++)
            {
                message.Number = (ulong)i;
                producer.Produce(ref message);
            }

            return Clock.NanosecondsEach(start, count);
        });
    }

    private double MeasureRawPause()
    {
        long[] took = new long[context.Messages];
        using RawRecycledLog log = new(context.Task.Directory);
        log.Append(ref _message, took);
        log.Check(took.Length);
        return Pause(took);
    }

    private double MeasurePause()
    {
        long[] took = new long[context.Messages];
        return InStore(took.Length, queue =>
        {
            Message64 message = Message64.Create();
            MappedFileProducer<Message64> producer = queue.Producer;
            for (int i = 0; i < took.Length; i++)
            {
                long start = Clock.Now;
                message.Number = (ulong)i;
                producer.Produce(ref message);
                took[i] = Clock.Now - start;
            }

            return Pause(took);
        });
    }

    private static double Pause(long[] took) => Clock.Nanoseconds(Quantiles.Of(took, 0.9999)) / 1000;

    private double InStore(long count, Func<MappedFileQueue<Message64>, double> append)
    {
        string path = context.Path("store");
        double value;
        using (MappedFileQueue<Message64> queue = new(new MappedFileQueueOptions { StorePath = path }))
        {
            queue.SetRetention(new RetentionOptions { MaxBytes = KeptLength });
            using (DiskUse use = new(path))
            {
                value = append(queue);
                _diskUse.Add(use.Most / Mebibyte);
                if (use.Most > DiskMax)
                    throw new ToolException($"The store took more than the policy allows: bytes={use.Most}, limit={DiskMax}.");
            }

            CheckKept(queue, count);
        }

        BenchStore.Delete(path);
        return value;
    }

    /// <summary>What is still there: the messages up to the last one, without a gap.</summary>
    private static void CheckKept(MappedFileQueue<Message64> queue, long count)
    {
        ConsumerOptions options = new() { Start = QueueStart.Earliest };
        using MappedFileConsumer<Message64> consumer = queue.OpenConsumer("check", options);
        consumer.Consume(out Message64 message);
        ulong sum = message.Sum();
        long first = (long)message.Number;
        for (long number = first + 1; number < count; number++)
        {
            consumer.Advance();
            consumer.Consume(out message);
            sum += message.Sum();
        }

        Sums.Check(Name, sum, Message64.ExpectedSum(count) - Message64.ExpectedSum(first));
    }
}
