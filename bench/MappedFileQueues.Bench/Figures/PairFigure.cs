using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// A figure of two processes, each pinned to a CPU, which meet before and after every repetition. Both compute the same
/// values; the first one reports them.
/// </summary>
internal abstract class PairFigure(ChildContext context)
{
    protected ChildContext Context => context;

    protected bool IsFirst => context.IsFirst;

    protected Rendezvous Rendezvous => context.Rendezvous;

    protected string Name => context.Task.Role;

    /// <summary>The names and units of the values that <see cref="MeasureRaw"/> and <see cref="MeasureQueue"/> return.</summary>
    protected abstract IReadOnlyList<(string Name, string Unit)> Values { get; }

    /// <summary>Enough that every loop is compiled fully after a few rounds.</summary>
    protected abstract long WarmUpCount { get; }

    /// <summary>How many messages or round trips a repetition has.</summary>
    protected virtual long Count => context.Messages;

    public IReadOnlyList<Samples> Measure()
    {
        bool hasQueue = !context.Task.RawOnly;
        WarmUp.OfPair(() =>
        {
            MeasureRaw(WarmUpCount);
            if (hasQueue)
                MeasureQueue(WarmUpCount);
        });

        double[][] raw = new double[context.Repetitions][];
        double[][] ours = new double[hasQueue ? context.Repetitions : 0][];
        for (int i = 0; i < context.Repetitions; i++)
        {
            raw[i] = MeasureRaw(Count);
            if (hasQueue)
                ours[i] = MeasureQueue(Count);
        }

        return
        [
            .. Values.Select((value, index) => new Samples(
                value.Name, value.Unit, [.. raw.Select(values => values[index])], [.. ours.Select(values => values[index])])),
        ];
    }

    protected abstract double[] MeasureRaw(long count);

    protected abstract double[] MeasureQueue(long count);

    /// <summary>Made by the first process; the other one opens it between the next two meetings.</summary>
    protected RawFile ShareFile(string name, long length, bool allocates)
    {
        RawFile? made = IsFirst ? RawFile.Create(context.Path(name), length, allocates) : null;
        Rendezvous.Meet();
        RawFile file = made ?? RawFile.Open(context.Path(name));
        Rendezvous.Meet();
        return file;
    }

    /// <summary>The first process appends, the other one reads; messages a second, first start to last end.</summary>
    protected double Stream(BenchQueue queue, long count)
    {
        ulong sum = Message64.ExpectedSum(count);
        Rendezvous.MeetToStart();
        long started = Clock.Now;
        if (IsFirst)
            queue.Append(count);
        else
            sum = queue.Read(count);
        double rate = Rendezvous.ExchangeRate(Context.Task.Index, started, Clock.Now, count);
        Sums.Check(Name, sum, Message64.ExpectedSum(count));
        return rate;
    }
}
