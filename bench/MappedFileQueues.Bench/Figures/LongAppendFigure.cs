using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// The pause that one append in 10,000 exceeds over 20 GB of messages, more than the system lets lie unwritten: default segments,
/// preparing by itself. Beside it a bare log over files that a thread prepares, which leaves all writing to the system. Measured
/// once, and only when it is named: it writes 40 GB.
/// </summary>
internal sealed class LongAppendFigure(ChildContext context)
{
    public const string Name = "append_20gb_p9999";

    private const long FullCount = 20_000_000_000 / Message64.FrameLength;
    private const int ChunkLength = 1 << 20;
    private const int BucketNanoseconds = 32;
    private const double Share = 0.9999;

    private Message64 _message = Message64.Create();

    private long Count => BenchStore.CountFor(context.Messages, FullCount);

    public IReadOnlyList<Samples> Measure() => [Interleaved.Run(Name, "us", 1, MeasureRaw, MeasureQueue)];

    private double MeasureRaw()
    {
        using RawRollingLog log = new(context.Task.Directory, Count);
        return Pause((took, from) => log.Append(ref _message, took, from));
    }

    private double MeasureQueue()
    {
        string path = context.Path("store");
        double pause;
        ulong expected = 0;
        using (StructQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = path,
            ProducerMode = ProducerMode.Exclusive,
            Durability = DurabilityLevel.PageCache,
        }))
        {
            pause = Pause((took, _) =>
            {
                queue.AppendTimed(ref _message, took);
                expected += Message64.ExpectedSum(took.Length);
            });
            Sums.Check(Name, queue.Read(Count), expected);
        }

        BenchStore.Delete(path);
        return pause;
    }

    /// <summary>Microseconds. The pauses are counted by their length, since they would not fit into memory.</summary>
    private double Pause(Action<long[], long> append)
    {
        long[] buckets = new long[1 << 16];
        List<double> longer = [];
        for (long done = 0; done < Count; done += ChunkLength)
        {
            long[] took = new long[Math.Min(ChunkLength, Count - done)];
            append(took, done);
            foreach (long ticks in took)
            {
                double nanoseconds = Clock.Nanoseconds(ticks);
                long bucket = (long)(nanoseconds / BucketNanoseconds);
                if (bucket < buckets.Length)
                    buckets[bucket]++;
                else
                    longer.Add(nanoseconds);
            }
        }

        long rank = Math.Min((long)(Share * Count), Count - 1);
        for (int i = 0; i < buckets.Length; i++)
        {
            if (rank < buckets[i])
                return (i + 1) * BucketNanoseconds / 1000.0;
            rank -= buckets[i];
        }

        longer.Sort();
        return longer[(int)rank] / 1000;
    }
}
