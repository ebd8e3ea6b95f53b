using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;

namespace MappedFileQueues.Bench.Hosting;

/// <summary>
/// What it costs a message, appended and handled in a batch, that somebody listens to the meter. Two applications alike take
/// turns; the meter of one is listened to, then that of the other. The price of a collection is added as if there were one a
/// second. The value is the difference of their times, so noise may make it negative; raw is the time of the application that
/// nobody listens to.
/// </summary>
internal sealed class MetricsFigure(ChildContext context)
{
    public const string Name = "metrics_overhead";

    private const int RoundLength = 10_000;
    private const int Rounds = 20;
    private const double NanosecondsASecond = 1e9;
    private const int WarmUpCount = 500;
    private const long WarmUpCountMax = 600_000;

    public IReadOnlyList<Samples> Measure()
    {
        int count = (int)Math.Min(context.Messages / (2 * Rounds), RoundLength);
        long countMax = WarmUpCountMax + (2L * (context.Repetitions + 1) * Rounds * (count + 1));
        using HostedQueue first = new(context.Path("first"), countMax, isBatch: true);
        using HostedQueue second = new(context.Path("second"), countMax, isBatch: true);
        using (MeterEar ear = new(second.Meters))
        {
            WarmUp.UntilCompiled(() =>
            {
                first.Run(WarmUpCount);
                second.Run(WarmUpCount);
                ear.Collect();
            });
        }

        // Rounds of that length are new to the processor's caches and to the memory of both.
        MeasurePair(first, second, count);
        MeasurePair(second, first, count);
        var raw = new double[context.Repetitions];
        var difference = new double[context.Repetitions];
        for (int i = 0; i < context.Repetitions; i++)
        {
            (double silent, double heard) = MeasurePair(first, second, count);
            (double silentNext, double heardNext) = MeasurePair(second, first, count);
            raw[i] = (silent + silentNext) / 2;
            difference[i] = ((heard + heardNext) / 2) - raw[i];
        }

        return [new Samples(Name, "ns", raw, difference)];
    }

    /// <summary>Nanoseconds for each message, in the median round: only in some the two threads share a cache.</summary>
    private static (double Silent, double Heard) MeasurePair(HostedQueue silent, HostedQueue heard, int count)
    {
        using MeterEar ear = new(heard.Meters);
        var without = new double[Rounds];
        var with = new double[Rounds];
        for (int round = 0; round < Rounds; round++)
        {
            // Each is the first of the two as often as the other.
            if (round % 2 == 0)
                without[round] = Each(silent.Run(count), count);
            with[round] = Each(heard.Run(count), count);
            if (round % 2 == 1)
                without[round] = Each(silent.Run(count), count);
        }

        long start = Clock.Now;
        ear.Collect();
        double collect = Clock.Nanoseconds(Clock.Now - start);
        // The last batch may not be counted yet when its handler has returned; nor was that of the pair before, when this began.
        long expected = Rounds * (count + 1L);
        SpinWait.SpinUntil(() => ear.Consumed >= expected, TimeSpan.FromSeconds(10));
        bool isAll = ear.Consumed >= expected && ear.Consumed <= expected + HostedQueue.BatchLength;
        Sums.Check(Name, (ulong)(isAll ? expected : ear.Consumed), (ulong)expected);
        double each = FigureResult.Median(with);
        return (FigureResult.Median(without), each + (each / NanosecondsASecond * collect));
    }

    private static double Each((long Append, long Handle) took, int count) =>
        Clock.Nanoseconds(took.Append + took.Handle) / count;
}
