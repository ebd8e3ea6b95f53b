using System.Diagnostics;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Queues;

/// <summary>
/// How soon a sleeping consumer reacts. One sleep lasts at most 100 ms inside, which would hide a lost wake-up: so the median of
/// many rounds has to lie far under that.
/// </summary>
public sealed class WakeTests
{
    private const int Rounds = 50;

    [Theory]
    [InlineData(ProducerMode.Shared, false, false, 5)]
    [InlineData(ProducerMode.Exclusive, false, false, 5)]
    [InlineData(ProducerMode.Shared, false, true, 5)]
    [InlineData(ProducerMode.Exclusive, false, true, 5)]
    [InlineData(ProducerMode.Shared, true, false, 10)]
    [InlineData(ProducerMode.Exclusive, true, true, 10)]
    public async Task Sleeping_TwoNames_BothWakeFarBeforeTheirSleepEnds(
        ProducerMode mode, bool portable, bool isAsync, double medianMsMax)
    {
        PlatformScope.Use(portable);
        using TempStore store = new();
        var options = new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 1 << 20,
            ProducerMode = mode,
            ConsumerSpinWaitDuration = TimeSpan.Zero,
            ConsumerRetryInterval = Timeout.InfiniteTimeSpan,
        };
        using var writing = new MappedFileQueue<long>(options);
        using var reading = new MappedFileQueue<long>(options);
        using MappedFileConsumer<long> near = writing.OpenConsumer("near");
        using MappedFileConsumer<long> far = reading.OpenConsumer("far");
        MappedFileProducer<long> producer = writing.Producer;
        using CountdownEvent ready = new(2);
        using CountdownEvent received = new(2);
        List<double> nearTimes = [];
        List<double> farTimes = [];
        Task[] consumers =
        [
            Task.Factory.StartNew(() => Receive(near, nearTimes), TaskCreationOptions.LongRunning).Unwrap(),
            Task.Factory.StartNew(() => Receive(far, farTimes), TaskCreationOptions.LongRunning).Unwrap(),
        ];

        async Task Receive(MappedFileConsumer<long> consumer, List<double> times)
        {
            for (int round = 0; round < Rounds; round++)
            {
                ready.Signal();
                long sent;
                if (isAsync)
                    sent = await consumer.ConsumeAsync();
                else
                    consumer.Consume(out sent);
                times.Add(Stopwatch.GetElapsedTime(sent).TotalMilliseconds);
                consumer.Commit();
                received.Signal();
            }
        }

        for (int round = 0; round < Rounds; round++)
        {
            Assert.True(ready.Wait(Eventually.DefaultDeadline));
            ready.Reset();
            // Lets both fall asleep; a round in which one has not is quicker, which proves less but is not wrong.
            Thread.Sleep(3);
            producer.Produce(Stopwatch.GetTimestamp());
            Assert.True(received.Wait(Eventually.DefaultDeadline), "A consumer was not woken at all.");
            received.Reset();
        }

        await Task.WhenAll(consumers);
        AssertMedian(nearTimes, medianMsMax);
        AssertMedian(farTimes, medianMsMax);
    }

    /// <summary>On a loaded machine single rounds are late, so the median counts; it is printed when it is too long.</summary>
    private static void AssertMedian(List<double> times, double max)
    {
        double[] sorted = [.. times.Order()];
        Assert.Equal(Rounds, sorted.Length);
        Assert.True(sorted[Rounds / 2] < max, $"median={sorted[Rounds / 2]:F3} ms, least={sorted[0]:F3}, most={sorted[^1]:F3}");
    }
}
