using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Limits;

/// <summary>A futex wake there and back between two processes that sleep in turn, as in bench/limits.c.</summary>
internal sealed class WakeBackLoop(ChildContext context) : PairFigure(context)
{
    protected override IReadOnlyList<(string Name, string Unit)> Values => [(LimitLoops.WakeBackRole, "us")];

    protected override long WarmUpCount => 200;

    protected override long Count => Math.Max(Context.Messages / 1000, 10);

    protected override double[] MeasureRaw(long count)
    {
        if (IsFirst)
            Rendezvous.Word(0) = Rendezvous.Word(1) = 0;
        Rendezvous.MeetToStart();
        long[] took = new long[count];
        for (int i = 0; i < count; i++)
        {
            long start = Clock.Now;
            if (IsFirst)
                RawFutex.Bump(ref Rendezvous.Word(0));
            RawFutex.WaitWhile(ref Rendezvous.Word(IsFirst ? 1 : 0), i);
            if (!IsFirst)
                RawFutex.Bump(ref Rendezvous.Word(1));
            took[i] = Clock.Now - start;
        }

        Rendezvous.Meet();
        return [Clock.Nanoseconds(Quantiles.Of(took, 0.5)) / 1000];
    }

    /// <summary>This one is only ever run raw.</summary>
    protected override double[] MeasureQueue(long count) => MeasureRaw(count);
}
