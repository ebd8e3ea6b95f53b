using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Microseconds from a message's stamp in one process to its arrival in another whose consumer sleeps, beside a bare futex
/// wake of the same shape: stamp, wake, and the sleeper's look at the clock.
/// </summary>
internal sealed class WakeFigure(ChildContext context) : PairFigure(context)
{
    /// <summary>Between two messages: many times what a consumer spins before it sleeps.</summary>
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(2);

    private Message64 _message = Message64.Create();

    protected override IReadOnlyList<(string Name, string Unit)> Values => [("wake_p50", "us")];

    protected override long WarmUpCount => 40;

    protected override long Count => Math.Min(Context.Messages, Context.Task.IsQuick ? 100 : 500);

    protected override double[] MeasureRaw(long count)
    {
        if (!RawFutex.IsSupported)
            return [0];
        if (IsFirst)
            Rendezvous.Word(0) = 0;
        Rendezvous.Meet();
        long[] took = new long[count];
        for (int i = 0; i < count; i++)
        {
            if (IsFirst)
            {
                Thread.Sleep(s_pause);
                Rendezvous.LongWord(1) = Clock.Now;
                RawFutex.Bump(ref Rendezvous.Word(0));
            }
            else
            {
                RawFutex.WaitWhile(ref Rendezvous.Word(0), i);
                took[i] = Clock.Now - Volatile.Read(ref Rendezvous.LongWord(1));
            }
        }

        return Exchange(took);
    }

    protected override double[] MeasureQueue(long count)
    {
        string path = Context.Path("store");
        MappedFileQueueOptions options = new() { StorePath = path, ProducerMode = ProducerMode.Exclusive };
        if (!IsFirst)
            Rendezvous.Meet();
        double[] result;
        using (MappedFileQueue<Message64> queue = new(options))
        {
            if (IsFirst)
            {
                queue.Producer.Prepare(RawFile.LengthFor(count));
                Rendezvous.Meet();
            }

            Rendezvous.Meet();
            result = Exchange(IsFirst ? Wake(queue.Producer, count) : Sleep(queue.Consumer, count));
        }

        Rendezvous.Meet();
        if (IsFirst)
            BenchStore.Delete(path);
        return result;
    }

    private long[] Wake(MappedFileProducer<Message64> producer, long count)
    {
        for (int i = 0; i < count; i++)
        {
            Thread.Sleep(s_pause);
            _message.Number = (ulong)Clock.Now;
            producer.Produce(ref _message);
        }

        return [];
    }

    private static long[] Sleep(MappedFileConsumer<Message64> consumer, long count)
    {
        long[] took = new long[count];
        for (int i = 0; i < count; i++)
        {
            consumer.Consume(out Message64 message);
            took[i] = Clock.Now - (long)message.Number;
            consumer.Commit();
        }

        return took;
    }

    /// <summary>The second process has measured; both return what it found.</summary>
    private double[] Exchange(long[] took)
    {
        if (!IsFirst)
            Rendezvous.Result(0) = Quantiles.Of(took, 0.5);
        Rendezvous.Meet();
        double[] result = [Clock.Nanoseconds(Rendezvous.Result(0)) / 1000];
        Rendezvous.Meet();
        return result;
    }
}
