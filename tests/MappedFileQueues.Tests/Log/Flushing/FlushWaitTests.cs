using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>Waits for a flush that take long, and what a level owes at the end of a queue.</summary>
public sealed unsafe class FlushWaitTests : IDisposable
{
    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    /// <summary>
    /// The pause of the one who waits for another queue's leader was doubled at each look, without an end. After 49 looks, some
    /// five seconds of a stopped leader or a slow disk, it overflowed: Flush threw OverflowException, and where an asynchronous
    /// append waited the exception came up on the flusher's thread and ended the process.
    /// </summary>
    [Fact]
    public void Flush_LeaderOfAnotherQueueStandsStill_WaitsHoweverOftenItLooks()
    {
        WatchedServices services = WatchedServices.Use(portable: false);
        using MappedFileQueue first = Open();
        using MappedFileQueue second = Open();
        first.Producer.Produce([1]);
        using var gate = new FlushGate(services);
        BackgroundCall leader = BackgroundCall.Start(() => first.Flush());
        gate.WaitForFlush();
        BackgroundCall waiter = BackgroundCall.Start(() => second.Flush());
        using var words = new StoreWords(_store.StorePath);
        var wake = new WakeSignal(
            CurrentPlatform.Services, words.Control, words.Control.FlushWakeSequence, words.Control.FlushWaiterFlag);

        for (int look = 0; look < 200 && !waiter.HasEnded; look++)
        {
            wake.Interrupt();
            // It raises the flag to the sequence it has seen, plus 1, each time before it sleeps.
            Eventually.True(
                () => waiter.HasEnded || *words.Control.FlushWaiterFlag == *words.Control.FlushWakeSequence + 1, "it looks");
        }

        gate.Open();
        leader.Join();
        waiter.Join();
    }

    /// <summary>
    /// Publishing a claim at Group waits for its flush, which this thread must not do while it has another claim open. That was
    /// looked for after the publish: the call failed, and its message was there all the same. Now the second claim is refused.
    /// </summary>
    [Fact]
    public void DangerousClaim_LevelGroupBesideAnother_IsRefusedBeforeAnythingIsWritten()
    {
        using MappedFileQueue queue = Open(DurabilityLevel.Group);
        using MappedFileProducer other = queue.OpenProducer();
        MessageClaim claim = queue.Producer.DangerousClaim(1);
        claim.Span[0] = 7;

        Assert.Throws<InvalidOperationException>(() => other.DangerousClaim(1).Dispose());

        Assert.True(claim.Publish(1) < queue.ConfirmedOffset);
        Assert.Equal([7], queue.Consumer.Consume().ToArray());
    }

    /// <summary>
    /// A message that asked for Interval in a queue of another level was flushed within the interval, but not at the end of
    /// the queue: who produced and closed left it to a power loss, for ever if nobody else flushed.
    /// </summary>
    [Fact]
    public void Dispose_AMessageAskedForInterval_IsFlushed()
    {
        using MappedFileQueue keeper = Open();
        long offset;
        using (MappedFileQueue queue = Open())
            offset = queue.Producer.Produce([1], new ProduceOptions { Durability = DurabilityLevel.Interval });

        Assert.True(keeper.ConfirmedOffset > offset);
    }

    private MappedFileQueue Open(DurabilityLevel level = DurabilityLevel.PageCache) => new(new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        Durability = level,
        FlushInterval = TimeSpan.FromHours(1),
        PreallocateByWriting = false,
    });
}
