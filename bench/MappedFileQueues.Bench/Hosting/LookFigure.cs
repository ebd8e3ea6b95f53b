using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace MappedFileQueues.Bench.Hosting;

/// <summary>
/// Microseconds that a look at a store takes which has eight segments and four consumers: GetInfo, a health check, and a
/// collection of the meter, which look at it too. Beside them, the lengths of the store's files are asked for.
/// </summary>
internal sealed class LookFigure(ChildContext context)
{
    public const string Name = "queue_info";
    public const string HealthName = "health_check";
    public const string MeterName = "meter_collect";

    private const int Segments = 8;
    private const int Consumers = 4;
    private const int Calls = 200;
    private const int WarmUpCalls = 5;

    public IReadOnlyList<Samples> Measure()
    {
        string path = context.Path("store");
        var clock = new LeapingTime();
        using HostedQueue hosted = new(path, 1, isBatch: true, clock);
        using MeterEar ear = new(hosted.Meters);
        Message64 message = Message64.Create();
        for (int i = 1; i < Consumers; i++)
            hosted.Queue.OpenConsumer($"consumer-{i}").Dispose();
        long end = (Segments - 1) * BenchStore.SegmentLengthFor(1);
        while (hosted.Queue.Producer.Offset < end)
            hosted.Queue.Producer.Produce(ref message);
        SpinWait.SpinUntil(() => hosted.Lag == 0, TimeSpan.FromMinutes(1));
        Action raw = () => CheckFiles(path);
        Action info = () => Check(hosted.Queue.GetInfo());
        Action health = () => Check(hosted.Health.CheckHealthAsync().GetAwaiter().GetResult());
        Action meter = () =>
        {
            clock.Leap();
            ear.Collect();
        };
        WarmUp.UntilCompiled(() =>
        {
            foreach (Action call in new[] { raw, info, health, meter })
                Time(call, WarmUpCalls);
        });
        return
        [
            Interleaved.Run(Name, "us", context.Repetitions, () => Time(raw, Calls), () => Time(info, Calls)),
            Interleaved.Run(HealthName, "us", context.Repetitions, () => Time(raw, Calls), () => Time(health, Calls)),
            Interleaved.Run(MeterName, "us", context.Repetitions, () => Time(raw, Calls), () => Time(meter, Calls)),
        ];
    }

    private static double Time(Action call, int count)
    {
        long start = Clock.Now;
        for (int i = 0; i < count; i++)
            call();
        return Clock.NanosecondsEach(start, count) / 1000;
    }

    private static void CheckFiles(string path)
    {
        long length = new DirectoryInfo(path).EnumerateFiles("*", SearchOption.AllDirectories).Sum(file => file.Length);
        if (length < Segments * BenchStore.SegmentLengthFor(1))
            throw new ToolException($"The store is shorter than what was appended: length={length}.");
    }

    private static void Check(MappedFileQueueInfo info) => Sums.Check(Name, (ulong)info.Consumers.Count, Consumers);

    private static void Check(HealthReport report)
    {
        if (report.Status == HealthStatus.Unhealthy)
            throw new ToolException($"The store is not well: {report.Entries.Values.First().Description}");
    }

    /// <summary>A collection takes what a recent look has found; here none is recent.</summary>
    private sealed class LeapingTime : TimeProvider
    {
        private long _leaps;

        public void Leap() => Interlocked.Add(ref _leaps, 2 * TimestampFrequency);

        public override long GetTimestamp() => base.GetTimestamp() + Interlocked.Read(ref _leaps);
    }
}
