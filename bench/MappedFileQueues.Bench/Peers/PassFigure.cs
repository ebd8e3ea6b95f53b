using System.Runtime.ExceptionServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Peers;

/// <summary>
/// Messages a second from one thread to another of the same process, both at work at once: from the start of both to the last
/// message read. A peer and ours in turn, each repetition into new files; a reader waits as it does by default.
/// </summary>
internal sealed class PassFigure(ChildContext context, PeerSides sides)
{
    public IReadOnlyList<Samples> Measure()
    {
        sides.Compile(context, queue => _ = Pass(queue, sides.WarmUpCount));
        return
        [
            Interleaved.Run(
                context.Task.Role,
                sides.Unit,
                context.Repetitions,
                () => Measure(sides.OpenPeer),
                () => Measure(sides.OpenOurs)),
        ];
    }

    private double Measure(Func<string, long, BenchQueue> open)
    {
        string path = context.Path("store");
        Ballast.Take(RawFile.LengthFor(sides.Count));
        double value;
        using (BenchQueue queue = open(path, sides.Count))
        {
            (long ticks, ulong sum) = Pass(queue, sides.Count);
            value = sides.Value(ticks);
            Sums.Check(context.Task.Role, sum, Message64.ExpectedSum(sides.Count));
        }

        PeerSides.Delete(path);
        return value;
    }

    private static (long Ticks, ulong Sum) Pass(BenchQueue queue, long count)
    {
        using Barrier begin = new(3);
        ulong sum = 0;
        ExceptionDispatchInfo? failure = null;
        Thread[] threads =
        [
            Start(() => queue.Append(count)),
            Start(() => sum = queue.Read(count)),
        ];
        begin.SignalAndWait();
        long start = Clock.Now;

        // The reader first: it waits for ever when the writer failed.
        while (!threads[1].Join(TimeSpan.FromMilliseconds(100)) && failure is null)
        {
        }

        long ticks = Clock.Now - start;
        failure?.Throw();
        threads[0].Join();
        failure?.Throw();
        return (ticks, sum);

        Thread Start(Action body)
        {
            Thread thread = new(() =>
            {
                begin.SignalAndWait();
                try
                {
                    body();
                }
                catch (Exception exception)
                {
                    failure = ExceptionDispatchInfo.Capture(exception);
                }
            })
            {
                IsBackground = true,
            };
            thread.Start();
            return thread;
        }
    }
}
