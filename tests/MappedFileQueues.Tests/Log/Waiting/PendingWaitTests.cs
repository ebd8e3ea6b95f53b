using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Waiting;

/// <summary>What ends an asynchronous wait besides a message, and what the consumer can do afterwards.</summary>
[Trait("Category", "Slow")]
public sealed class PendingWaitTests
{
    /// <summary>
    /// A poisoned queue ended the waits of threads and left asynchronous ones waiting for ever: their look asked for poison
    /// only where it entered a segment, and this one is in the middle of one.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task ConsumeAsync_QueueIsPoisoned_WaitEnds(bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = OpenAndRead(store, portable);
        Task waiting = queue.Consumer.ConsumeAsync().AsTask();
        StoreWords.Poison(store.StorePath);

        await Assert.ThrowsAsync<QueuePoisonedException>(() => waiting.WaitAsync(Eventually.DefaultDeadline));
        await Assert.ThrowsAsync<QueuePoisonedException>(
            () => queue.Consumer.ConsumeAsync().AsTask().WaitAsync(Eventually.DefaultDeadline));
    }

    /// <summary>
    /// The wait that ended because the store had gone left its mark on the consumer, and every later call was told that an
    /// asynchronous call was still waiting.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task ConsumeAsync_StoreIsGone_EveryCallSaysSo(bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue queue = OpenAndRead(store, portable);
        Task waiting = queue.Consumer.ConsumeAsync().AsTask();
        Directory.Move(store.StorePath, store.StorePath + ".moved");

        await Assert.ThrowsAsync<QueueDeletedException>(() => waiting.WaitAsync(Eventually.DefaultDeadline));
        await Assert.ThrowsAsync<QueueDeletedException>(
            () => queue.Consumer.ConsumeAsync().AsTask().WaitAsync(Eventually.DefaultDeadline));
        Assert.False(queue.Consumer.TryConsume(out _));
    }

    /// <summary>The consumer is after a message, in the middle of a segment.</summary>
    private static MappedFileQueue OpenAndRead(TempStore store, bool portable)
    {
        PlatformScope.Use(portable);
        var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 4096 });
        queue.Producer.Produce([1]);
        Assert.Equal(1, queue.Consumer.Consume().Length);
        queue.Consumer.Commit();
        return queue;
    }
}
