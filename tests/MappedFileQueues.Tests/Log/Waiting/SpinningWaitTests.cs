using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Waiting;

/// <summary>
/// A consumer that is told to spin without end never came to what a sleeper looks at between two sleeps: it spun on after a flush
/// had failed, and after its store was gone.
/// </summary>
public sealed class SpinningWaitTests
{
    [Fact]
    public void Consume_SpinsWithoutEnd_PoisonEndsIt()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        BackgroundCall waiting = StartWaiting(queue);
        StoreWords.Poison(store.StorePath);

        Assert.IsType<QueuePoisonedException>(waiting.JoinSilently());
    }

    [Fact]
    public void Consume_SpinsWithoutEnd_StoreThatIsGoneEndsIt()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        BackgroundCall waiting = StartWaiting(queue);
        Directory.Move(store.StorePath, store.StorePath + ".moved");

        Assert.IsType<QueueDeletedException>(waiting.JoinSilently());
    }

    [Fact]
    public void Consume_SpinsWithoutEnd_DisposeEndsIt()
    {
        using TempStore store = new();
        MappedFileQueue queue = Open(store);
        BackgroundCall waiting = StartWaiting(queue);
        queue.Dispose();

        Assert.IsType<ObjectDisposedException>(waiting.JoinSilently());
    }

    private static MappedFileQueue Open(TempStore store) => new(new MappedFileQueueOptions
    {
        StorePath = store.StorePath,
        ConsumerSpinWaitDuration = Timeout.InfiniteTimeSpan,
    });

    /// <summary>The consumer is after a message that it has read, in the middle of a segment.</summary>
    private static BackgroundCall StartWaiting(MappedFileQueue queue)
    {
        queue.Producer.Produce([1]);
        MappedFileConsumer consumer = queue.Consumer;
        using var hasRead = new ManualResetEventSlim();
        BackgroundCall waiting = BackgroundCall.Start(() =>
        {
            Assert.Equal(1, consumer.Consume().Length);
            consumer.Commit();
            hasRead.Set();
            consumer.Consume();
        });
        hasRead.Wait();
        return waiting;
    }
}
