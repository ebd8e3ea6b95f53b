using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Groups;

/// <summary>
/// Milliseconds for finding a message by its number and by its time in a store that is in memory, at random places; each answer
/// is compared with what is known of the message.
/// </summary>
internal sealed class SeekFigure(ChildContext context)
{
    public const string TimeName = "seek_time";
    public const string NumberName = "seek_number";

    private const int Searches = 100;

    public IReadOnlyList<Samples> Measure()
    {
        string path = context.Path("store");
        List<double> byTime = [];
        List<double> byNumber = [];
        using (var queue = new MappedFileQueue<Message64>(
            BenchStore.InDefaultSegments(path, ProducerMode.Exclusive)))
        {
            Message64 message = Message64.Create();
            var headers = new MessageHeaders();
            for (long i = 0; i < context.Messages; i++)
            {
                message.Number = (ulong)i;
                headers.Time = DateTimeOffset.UnixEpoch.AddSeconds(i);
                queue.Producer.Produce(in message, new ProduceOptions { Headers = headers });
                // Flushes write the index, as they do once a second.
                if (i % 1_000_000 == 999_999)
                    queue.Flush();
            }

            queue.Flush();
            using MappedFileReader<Message64> reader = queue.OpenReader();
            var random = new Random(1);
            for (int repetition = 0; repetition <= context.Repetitions; repetition++)
            {
                double time = Search(
                    queue, reader, random, place => queue.FindOffset(DateTimeOffset.UnixEpoch.AddSeconds(place)));
                double number = Search(queue, reader, random, queue.FindOffset);
                // The first one compiles.
                if (repetition == 0)
                    continue;
                byTime.Add(time);
                byNumber.Add(number);
            }
        }

        BenchStore.Delete(path);
        double[] noRaw = new double[byTime.Count];
        return [new Samples(TimeName, "ms", noRaw, [.. byTime]), new Samples(NumberName, "ms", noRaw, [.. byNumber])];
    }

    private double Search(
        MappedFileQueue<Message64> queue, MappedFileReader<Message64> reader, Random random, Func<long, long> find)
    {
        double total = 0;
        for (int i = 0; i < Searches; i++)
        {
            long number = random.NextInt64(context.Messages);
            long start = Clock.Now;
            long offset = find(number);
            total += Clock.NanosecondsEach(start, 1) / 1e6;
            reader.Seek(QueueStart.FromOffset(offset));
            if (!reader.TryRead(out Message64 message) || message.Number != (ulong)number || queue.FindNumber(offset) != number)
                throw new InvalidOperationException($"The search found another message: wanted={number}, offset={offset}.");
        }

        return total / Searches;
    }
}
