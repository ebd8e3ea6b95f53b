using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Microseconds from a message in one queue to its answer in another, both processes awaiting ConsumeAsync, beside the same two
/// processes blocking in Consume. Neither spins: an awaiting consumer has no thread that could.
/// </summary>
internal sealed class AsyncRoundTripFigure(ChildContext context) : PairFigure(context)
{
    public new const string Name = "async_roundtrip_p50";

    private Message64 _message = Message64.Create();

    protected override IReadOnlyList<(string Name, string Unit)> Values => [(Name, "us")];

    protected override long WarmUpCount => 200;

    protected override long Count => Math.Min(Context.Messages, Context.Task.IsQuick ? 1_000 : 10_000);

    protected override double[] MeasureRaw(long count) => MeasureTrips(count, isAsync: false);

    protected override double[] MeasureQueue(long count) => MeasureTrips(count, isAsync: true);

    private double[] MeasureTrips(long count, bool isAsync)
    {
        string[] paths = [Context.Path("ping"), Context.Path("pong")];
        int mine = Context.Task.Index;
        double[] result;
        using (MappedFileQueue<Message64> output = new(Options(paths[mine])))
        {
            output.Producer.Prepare(RawFile.LengthFor(count));
            Rendezvous.Meet();
            using MappedFileQueue<Message64> input = new(Options(paths[1 - mine]));
            MappedFileConsumer<Message64> consumer = input.Consumer;
            long[] took = new long[count];
            Rendezvous.MeetToStart();
            ulong sum = isAsync
                ? TripsAsync(output.Producer, consumer, took).GetAwaiter().GetResult()
                : Trips(output.Producer, consumer, took);
            Sums.Check(Name, sum, Message64.ExpectedSum(count));
            result = Exchange(took);
        }

        Rendezvous.Meet();
        BenchStore.Delete(paths[mine]);
        return result;
    }

    private static MappedFileQueueOptions Options(string path) => new()
    {
        StorePath = path,
        Durability = DurabilityLevel.PageCache,
        ConsumerSpinWaitDuration = TimeSpan.Zero,
    };

    private ulong Trips(MappedFileProducer<Message64> producer, MappedFileConsumer<Message64> consumer, long[] took)
    {
        ulong sum = 0;
        for (int i = 0; i < took.Length; i++)
        {
            long start = Clock.Now;
            if (IsFirst)
                Send(producer, i);
            consumer.Consume(out Message64 message);
            sum += message.Sum();
            consumer.Commit();
            if (!IsFirst)
                Send(producer, i);
            took[i] = Clock.Now - start;
        }

        return sum;
    }

    private async Task<ulong> TripsAsync(
        MappedFileProducer<Message64> producer, MappedFileConsumer<Message64> consumer, long[] took)
    {
        ulong sum = 0;
        for (int i = 0; i < took.Length; i++)
        {
            long start = Clock.Now;
            if (IsFirst)
                Send(producer, i);
            Message64 message = await consumer.ConsumeAsync().ConfigureAwait(false);
            sum += message.Sum();
            consumer.Commit();
            if (!IsFirst)
                Send(producer, i);
            took[i] = Clock.Now - start;
        }

        return sum;
    }

    private void Send(MappedFileProducer<Message64> producer, int number)
    {
        _message.Number = (ulong)number;
        producer.Produce(ref _message);
    }

    /// <summary>The first process has measured; both return what it found.</summary>
    private double[] Exchange(long[] took)
    {
        if (IsFirst)
            Rendezvous.Result(0) = Quantiles.Of(took, 0.5);
        Rendezvous.Meet();
        double[] result = [Clock.Nanoseconds(Rendezvous.Result(0)) / 1000];
        Rendezvous.Meet();
        return result;
    }
}
