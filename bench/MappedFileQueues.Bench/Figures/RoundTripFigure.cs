using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Microseconds from a message in one queue to its answer in another, both processes spinning, beside the same over two bare
/// mapped logs.
/// </summary>
internal class RoundTripFigure(ChildContext context) : PairFigure(context)
{
    private const int MessagesPerTrip = 40;
    private const long TripsMin = 100;

    private Message64 _message = Message64.Create();

    protected ref Message64 Message => ref _message;

    protected override IReadOnlyList<(string Name, string Unit)> Values =>
        [("roundtrip_p50", "us"), ("roundtrip_p99", "us"), ("roundtrip_p999", "us")];

    protected override long WarmUpCount => 5_000;

    protected override long Count => Math.Max(Context.Messages / MessagesPerTrip, TripsMin);

    protected override double[] MeasureRaw(long count)
    {
        using RawFile ping = ShareFile("raw-ping", RawFile.LengthFor(count), allocates: true);
        using RawFile pong = ShareFile("raw-pong", RawFile.LengthFor(count), allocates: true);
        ping.TouchForWriting();
        pong.TouchForWriting();
        long[] took = new long[count];
        Rendezvous.MeetToStart();
        ulong sum = Trip(IsFirst ? ping : pong, IsFirst ? pong : ping, took);
        Sums.Check("raw round trip", sum, Message64.ExpectedSum(count));
        return Exchange(took);
    }

    protected override double[] MeasureQueue(long count)
    {
        string[] paths = [Context.Path("ping"), Context.Path("pong")];
        int mine = Context.Task.Index;
        double[] result;
        using (MappedFileQueue<Message64> output = new(BenchStore.Spinning(paths[mine], ProducerMode.Exclusive)))
        {
            if (IsFirst)
                output.Producer.Prepare(RawFile.LengthFor(count));
            else
                PrepareAnswers(output, RawFile.LengthFor(count));
            Rendezvous.Meet();
            using MappedFileQueue<Message64> input = new(BenchStore.Spinning(paths[1 - mine], ProducerMode.Exclusive));
            long[] took = new long[count];
            ulong sum = IsFirst ? Ping(output.Producer, input.Consumer, ref _message, took) : Answer(output, input, count);
            Sums.Check("roundtrip", sum, Message64.ExpectedSum(count));
            result = Exchange(took);
        }

        Rendezvous.Meet();
        BenchStore.Delete(paths[mine]);
        return result;
    }

    /// <summary>Makes room for the answers of the second process.</summary>
    protected virtual void PrepareAnswers(MappedFileQueue<Message64> output, long bytes) => output.Producer.Prepare(bytes);

    /// <summary>The second process: meets the first one to start, and answers its messages.</summary>
    protected virtual ulong Answer(MappedFileQueue<Message64> output, MappedFileQueue<Message64> input, long count)
    {
        (MappedFileProducer<Message64> producer, MappedFileConsumer<Message64> consumer) = (output.Producer, input.Consumer);
        Rendezvous.MeetToStart();
        ulong sum = 0;
        for (int i = 0; i < count; i++)
            sum += Pong(producer, consumer, ref _message, i);
        return sum;
    }

    private ulong Ping(
        MappedFileProducer<Message64> producer, MappedFileConsumer<Message64> consumer, ref Message64 message, long[] took)
    {
        Rendezvous.MeetToStart();
        ulong sum = 0;
        for (int i = 0; i < took.Length; i++)
        {
            long start = Clock.Now;
            sum += Ping(producer, consumer, ref message, i);
            took[i] = Clock.Now - start;
        }

        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Ping(
        MappedFileProducer<Message64> producer, MappedFileConsumer<Message64> consumer, ref Message64 message, int number)
    {
        message.Number = (ulong)number;
        producer.Produce(ref message);
        consumer.Consume(out Message64 answer);
        consumer.Commit();
        return answer.Sum();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Pong(
        MappedFileProducer<Message64> producer, MappedFileConsumer<Message64> consumer, ref Message64 message, int number)
    {
        consumer.Consume(out Message64 question);
        message.Number = (ulong)number;
        producer.Produce(ref message);
        consumer.Commit();
        return question.Sum();
    }

    private unsafe ulong Trip(RawFile output, RawFile input, long[] took)
    {
        ulong sum = 0;
        for (int i = 0; i < took.Length; i++)
        {
            byte* write = output.Start + (long)i * Message64.FrameLength;
            byte* read = input.Start + (long)i * Message64.FrameLength;
            long start = IsFirst ? Clock.Now : 0;
            if (IsFirst)
                RawLoops.Copy(write, ref _message, i, 1);
            sum += RawLoops.Follow(read, 1);
            if (!IsFirst)
                RawLoops.Copy(write, ref _message, i, 1);
            took[i] = IsFirst ? Clock.Now - start : 0;
        }

        return sum;
    }

    /// <summary>The first process has measured; both return what it found.</summary>
    private double[] Exchange(long[] took)
    {
        double[] shares = [0.5, 0.99, 0.999];
        if (IsFirst)
        {
            for (int i = 0; i < shares.Length; i++)
                Rendezvous.Result(i) = Quantiles.Of(took, shares[i]);
        }

        Rendezvous.Meet();
        double[] result = [.. shares.Select((_, i) => Clock.Nanoseconds(Rendezvous.Result(i)) / 1000)];
        Rendezvous.Meet();
        return result;
    }
}
