using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Queues;

namespace MappedFileQueues.Tests.Inspection;

/// <summary>What counts as a message: claims, abandoned claims, damage, segments that go meanwhile.</summary>
public sealed class MessageCountTests
{
    [Theory, MemberData(nameof(MessageLengthTests.Variants), MemberType = typeof(MessageLengthTests))]
    public void Count_AbandonedAndOpenClaims_OnlyWhatReadersSee(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        PlatformScope.Use(portable);
        using var queue = new MappedFileQueue(Options(store, mode));
        MappedFileProducer producer = queue.Producer;
        for (int i = 0; i < 300; i++)
        {
            producer.Produce(Payload.Bytes(i % 60, i));
            using MessageClaim abandoned = producer.DangerousClaim(40);
            using (queue.OpenReader())
                Assert.True(i % 50 != 0 || queue.GetInfo(countsMessages: true).MessageCount == i + 1);
        }

        using MessageClaim shorter = producer.DangerousClaim(200);
        shorter.Publish(3);
        Assert.Equal(301, queue.GetInfo(countsMessages: true).MessageCount);
        using MappedFileReader reader = queue.OpenReader(QueueStart.FromEnd(1));
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> last));
        Assert.Equal(3, last.Length);
        Assert.Equal(301, reader.GetInfo(countsMessages: true).MessageCount);
        Assert.Null(reader.GetInfo().MessageCount);
    }

    [Fact]
    public void Count_DamagedHeader_IsNotKnownButLagBehindItIs()
    {
        using TempStore store = new();
        long damaged, behind;
        using (var queue = new MappedFileQueue(Options(store, ProducerMode.Shared)))
        {
            for (int i = 0; i < 100; i++)
                queue.Producer.Produce(Payload.Bytes(50, i));
            damaged = queue.Producer.Produce(Payload.Bytes(50, 1));
            for (int i = 0; i < 200; i++)
                queue.Producer.Produce(Payload.Bytes(50, i));
            using MappedFileReader reader = queue.OpenReader(QueueStart.FromEnd(20));
            Assert.True(reader.TryRead(out _));
            behind = reader.MessageOffset;
            queue.ResetConsumer("behind", QueueStart.FromOffset(behind));
            queue.ResetConsumer("before", QueueStart.Earliest);
        }

        // Its end left a checkpoint after all of them: a look begins there, and the damage is below.
        string file = Path.Combine(store.StorePath, "commitlog", $"{damaged / 4096 * 4096:D20}.log");
        using (FileStream segment = new(file, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite))
        {
            segment.Position = (damaged % 4096) + 3;
            segment.WriteByte(0xFF);
        }

        MappedFileQueueInfo info = StoreInspector.Inspect(store.StorePath, countsMessages: true);
        Assert.Null(info.MessageCount);
        Assert.Null(info.Consumers.Single(consumer => consumer.Name == "before").LagMessages);
        Assert.Equal(20, info.Consumers.Single(consumer => consumer.Name == "behind").LagMessages);
        Assert.Throws<QueueCorruptException>(() => MappedFileReader.Open(store.StorePath, QueueStart.FromEnd(300)));
        MappedFileReader.Open(store.StorePath, QueueStart.FromEnd(20)).Dispose();
    }

    /// <summary>Retention removes and reuses segments under the count: it is never wrong by a whole segment.</summary>
    [Theory, InlineData(false), InlineData(true)]
    [Trait("Category", "Slow")]
    public void CountAndFromEnd_BesideRetention_AgreeWithTheOffsets(bool recycles)
    {
        using TempStore store = new();
        MappedFileQueueOptions options = Options(store, ProducerMode.Shared);
        options.Retention = new RetentionOptions { MaxBytes = 64 * 1024, Recycle = recycles };
        using var queue = new MappedFileQueue<long>(options);
        bool stop = false;
        BackgroundCall producing = BackgroundCall.Start(() =>
        {
            for (long number = 0; !Volatile.Read(ref stop); number++)
                queue.Producer.Produce(number);
        });
        for (int i = 0; i < 300; i++)
        {
            MappedFileQueueInfo info = queue.GetInfo(countsMessages: true);
            // Frames of 16 bytes fill a segment exactly, so here the offsets tell the number.
            Assert.Equal((info.PublishedOffset - info.LogStart) / 16, info.MessageCount);
            using MappedFileReader<long> reader = queue.OpenReader(QueueStart.FromEnd(100));
            Assert.Equal(0, reader.Offset % 16);
        }

        Volatile.Write(ref stop, true);
        producing.Join();
        Assert.True(queue.GetInfo().LogStart > 0, "Nothing was removed.");
    }

    private static MappedFileQueueOptions Options(TempStore store, ProducerMode mode) =>
        new() { StorePath = store.StorePath, ProducerMode = mode, SegmentSize = 4096 };
}
