using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Messages a second that two processes, one thread each, append to one store at the level Group, beside two processes of which
/// each rewrites and flushes a block of its own file.
/// </summary>
internal sealed class DurablePairFigure(ChildContext context) : PairFigure(context)
{
    protected override IReadOnlyList<(string Name, string Unit)> Values => [(Name, "msg/s")];

    protected override long WarmUpCount => 128_000;

    protected override double[] MeasureRaw(long count)
    {
        int each = DurableFigure.CountFor(count);
        using RawSync raw = new(Context.Path($"raw-{Context.Task.Index}"), rewrites: true, countMax: 1);
        Rendezvous.MeetToStart();
        long started = Clock.Now;
        raw.Run(each);
        return [Rendezvous.ExchangeRate(Context.Task.Index, started, Clock.Now, 2L * each)];
    }

    protected override double[] MeasureQueue(long count)
    {
        int each = DurableFigure.CountFor(count);
        string path = Context.Path("store");
        double rate;
        using (MappedFileQueue<Message64> queue = DurableFigure.Open(path))
        {
            MappedFileProducer<Message64> producer = queue.Producer;
            DurableFigure.Append(producer, 1);
            Rendezvous.MeetToStart();
            long started = Clock.Now;
            DurableFigure.Append(producer, each);
            rate = Rendezvous.ExchangeRate(Context.Task.Index, started, Clock.Now, 2L * each);
            if (queue.ConfirmedOffset != producer.Offset)
                throw new ToolException($"Messages that were acknowledged are not confirmed: figure={Name}.");
        }

        // The next repetition's store, and the next figure's, have the same place.
        Rendezvous.Meet();
        if (IsFirst)
            BenchStore.Delete(path);
        Rendezvous.Meet();
        return [rate];
    }
}
