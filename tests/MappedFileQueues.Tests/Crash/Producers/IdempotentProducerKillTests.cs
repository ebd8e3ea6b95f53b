using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>Producers with an id beside processes that die: each sequence is in the log once.</summary>
[Trait("Category", "Slow")]
public sealed class IdempotentProducerKillTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A removal dies between its steps. Whoever opened the id then read the log from its raised start on, and missed what the
    /// producer's file did not know yet: the model of the sequences found it. Repetitions were appended again.
    /// </summary>
    [Theory]
    [InlineData("LogStartRaised")]
    [InlineData("LogStartRecorded")]
    [InlineData("SegmentDeleted")]
    public void Open_RemovalDied_KnowsWhatItWasAboutToTake(string step)
    {
        using MappedFileQueue queue = Open();
        Append(queue);
        PeerAgent.KillRemover(_temp.StorePath, step);

        // Nor in a snapshot, which begins after it.
        string copy = Path.Combine(_temp.Root, "copy");
        queue.Snapshot(copy);
        using (MappedFileQueue restored = Open(copy))
        using (MappedFileIdempotentProducer there = restored.OpenProducer("orders"))
            Assert.Equal(100ul, there.LastSequence);

        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(100ul, again.LastSequence);
        queue.Trim(long.MaxValue);
        Assert.False(again.TryProduce(new byte[1000], 100));
    }

    /// <summary>
    /// What goes need not be on disk. A removal first confirmed it, and then stored its sequences: after a power loss between the
    /// two a message whose flush had returned could be appended again.
    /// </summary>
    [Fact]
    public void Trim_SequencesAreNotStored_ConfirmsNothing()
    {
        using MappedFileQueue queue = Open();
        // The queue's own thread flushes full segments.
        using var words = new StoreWords(_temp.StorePath);
        using PlatformLock? flush = words.TryLock(StoreNames.FlushLock, LockKind.Exclusive);
        Assert.NotNull(flush);
        Append(queue);
        long confirmed = StoreInspector.Inspect(_temp.StorePath).ConfirmedOffset;

        PeerAgent.KillRemover(_temp.StorePath, "ProducerSequenceStored");

        Assert.Equal(confirmed, StoreInspector.Inspect(_temp.StorePath).ConfirmedOffset);
        long limit = queue.Trim(0);
        Assert.InRange(limit, confirmed + 1, long.MaxValue);
        Assert.InRange(StoreInspector.Inspect(_temp.StorePath).ConfirmedOffset, limit, long.MaxValue);
    }

    /// <summary>
    /// A child appends numbered messages and is killed at any time, also while it opens; the next one continues after what is in
    /// the log.
    /// </summary>
    [Fact]
    public void Kill_AtAnyTime_EachSequenceIsThereOnce()
    {
        for (int run = 0; run < 6; run++)
        {
            using PeerAgent agent = PeerAgent.Start();
            agent.Ask($"open path={_temp.StorePath}");
            long before = StoreInspector.Inspect(_temp.StorePath).PublishedOffset;
            agent.Send("number id=orders");
            // How long it takes to the first message depends on the machine.
            if (run % 3 > 0)
                Eventually.True(() => StoreInspector.Inspect(_temp.StorePath).PublishedOffset > before, "it produces");
            if (run == 5)
                Eventually.True(() => StoreInspector.Inspect(_temp.StorePath).PublishedOffset > before + 10_000, "it goes on");
            Thread.Sleep(run * 18);
            agent.Kill();
        }

        using MappedFileQueue queue = Open();
        ulong next = 1;
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            Assert.Equal(next, BitConverter.ToUInt64(message));
            Assert.Equal(next, queue.Consumer.Headers!.Sequence);
            next++;
            queue.Consumer.Commit();
        }

        Assert.True(next > 100, $"last={next - 1}");
    }

    /// <summary>A hundred numbered messages, and so many others that none of them is left after a removal's limit.</summary>
    private static void Append(MappedFileQueue queue)
    {
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            for (ulong sequence = 1; sequence <= 100; sequence++)
                producer.TryProduce(new byte[1000], sequence);
        }

        for (int i = 0; i < 20; i++)
            queue.Producer.Produce(new byte[1000]);
    }

    private MappedFileQueue Open(string? path = null) => new(new MappedFileQueueOptions
    {
        StorePath = path ?? _temp.StorePath,
        SegmentSize = 16384,
        Durability = DurabilityLevel.PageCache,
    });
}
