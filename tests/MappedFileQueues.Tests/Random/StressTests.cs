using System.Globalization;
using MappedFileQueues.TestPeer;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>
/// Many producers, in threads and processes, beside several consumers: each consumer gets every message of every producer
/// exactly once, whole, and in that producer's order.
/// </summary>
[Trait("Category", "Slow")]
public sealed class StressTests
{
    private const int Messages = 12_000;

    [Theory]
    [InlineData(ProducerMode.Exclusive, 1, 1, 1, 4096)]
    [InlineData(ProducerMode.Exclusive, 1, 1, 2, 1 << 20)]
    [InlineData(ProducerMode.Shared, 1, 1, 1, 1 << 20)]
    [InlineData(ProducerMode.Shared, 2, 1, 2, 4096)]
    [InlineData(ProducerMode.Shared, 4, 1, 1, 64 * 1024)]
    [InlineData(ProducerMode.Shared, 4, 1, 2, 1 << 20)]
    [InlineData(ProducerMode.Shared, 1, 2, 2, 64 * 1024)]
    [InlineData(ProducerMode.Shared, 2, 2, 1, 1 << 20)]
    [InlineData(ProducerMode.Shared, 4, 2, 2, 64 * 1024)]
    public void ProduceAndConsume_ManyBesideEachOther_ExactlyOnceInOrder(
        ProducerMode mode, int threads, int processes, int consumers, long segmentSize) =>
        Run(mode, threads, processes, consumers, segmentSize, portableHere: false, portableThere: false);

    [Theory]
    [InlineData(ProducerMode.Exclusive, 1, 1, true, false)]
    [InlineData(ProducerMode.Shared, 2, 1, true, false)]
    [InlineData(ProducerMode.Shared, 2, 2, true, true)]
    [InlineData(ProducerMode.Shared, 2, 2, true, false)]
    [InlineData(ProducerMode.Shared, 2, 2, false, true)]
    public void ProduceAndConsume_PortableAloneAndBesideLinux_ExactlyOnceInOrder(
        ProducerMode mode, int threads, int processes, bool portableHere, bool portableThere) =>
        Run(mode, threads, processes, consumers: 2, 64 * 1024, portableHere, portableThere);

    private static void Run(
        ProducerMode mode, int threads, int processes, int consumers, long segmentSize, bool portableHere, bool portableThere)
    {
        PlatformScope.Use(portableHere);
        using TempStore store = new();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = segmentSize, ProducerMode = mode };
        using var queue = new MappedFileQueue(options);
        List<BackgroundCall> calls = [];
        for (int i = 0; i < consumers; i++)
        {
            string name = $"consumer-{i}";
            calls.Add(BackgroundCall.Start(() => ConsumeAll(options, name, threads * processes)));
        }

        List<ChildProcess> children = [];
        try
        {
            for (int process = 1; process < processes; process++)
            {
                string[] arguments =
                [
                    "stress-produce", store.StorePath, Text(process * threads), Text(threads), Text(Messages),
                ];
                children.Add(ChildProcess.StartPeer(portableThere ? ["--portable", .. arguments] : arguments));
            }

            foreach (ChildProcess child in children)
                child.WaitForLine("ready");
            MappedFileProducer producer = queue.Producer;
            for (int thread = 0; thread < threads; thread++)
            {
                int id = thread;
                calls.Add(BackgroundCall.Start(() => StressMessage.Produce(producer, id, Messages)));
            }

            foreach (ChildProcess child in children)
                child.Input.WriteLine();
            foreach (ChildProcess child in children)
                child.ExpectExit();
            foreach (BackgroundCall call in calls)
                call.Join();
        }
        finally
        {
            children.ForEach(child => child.Dispose());
        }
    }

    private static void ConsumeAll(MappedFileQueueOptions options, string name, int producers)
    {
        using var queue = new MappedFileQueue(options);
        using MappedFileConsumer consumer = queue.OpenConsumer(name);
        long[] next = new long[producers];
        for (long left = (long)producers * Messages; left > 0; left--)
        {
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message, Eventually.DefaultDeadline), $"{left} are missing.");
            Assert.True(StressMessage.TryParse(message, out long producer, out long sequence), "A message is damaged.");
            Assert.Equal(next[producer], sequence);
            next[producer]++;
            consumer.Commit();
        }

        Assert.False(consumer.TryConsume(out _));
        Assert.All(next, count => Assert.Equal(Messages, count));
    }

    private static string Text(int value) => value.ToString(CultureInfo.InvariantCulture);
}
