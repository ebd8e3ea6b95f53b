using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// The flush thread of a queue whose messages are all on disk sleeps, and keeps the promise of the interval for the next message,
/// whichever process produces it.
/// </summary>
[Trait("Category", "Slow")]
public sealed class SleepingFlushTests
{
    private static readonly TimeSpan s_interval = TimeSpan.FromMilliseconds(50);

    /// <summary>The interval is short, so that many of these messages come just as the flush thread falls asleep.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Produce_AsTheFlushThreadFallsAsleep_IsFlushedAllTheSame(ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        using MappedFileQueue queue = Open(store, TimeSpan.FromMilliseconds(2));
        var random = new Random(20261123);
        for (int i = 0; i < 500; i++)
        {
            long offset = queue.Producer.Produce(CrashMessage.Make("m", 16));
            Assert.True(
                Eventually.Wait(() => queue.ConfirmedOffset > offset, Eventually.DefaultDeadline),
                $"message {i} at {offset} was not flushed: confirmed={queue.ConfirmedOffset}");
            // Between nothing and three ticks after the flush.
            long until = Environment.TickCount64 + random.Next(7);
            Thread.SpinWait(random.Next(20_000));
            while (Environment.TickCount64 < until)
                Thread.Yield();
        }
    }

    /// <summary>The producer's process flushes nothing and dies at once; this one only has the queue open.</summary>
    [Fact]
    public void Produce_OfAProcessThatIsKilledAfterwards_IsFlushedByAnIdleOne()
    {
        using CrashStore store = new();
        using MappedFileQueue queue = Open(store, s_interval);
        queue.Flush();
        for (int i = 0; i < 3; i++)
        {
            Thread.Sleep(s_interval * 5);
            using PeerAgent agent = PeerAgent.Start();
            agent.Ask(store.OpenCommand);
            long confirmed = queue.ConfirmedOffset;
            agent.Ask("append prefix=theirs count=1");
            agent.Kill();

            Assert.True(
                Eventually.Wait(() => queue.ConfirmedOffset > confirmed, Eventually.DefaultDeadline),
                $"message {i} was not flushed");
        }
    }

    /// <summary>
    /// A message after an open claim cannot be flushed yet. The claim's owner dies without a word, and the thread must still be
    /// looking.
    /// </summary>
    [Fact]
    public void Produce_BehindAClaimWhoseOwnerDies_IsFlushedAfterwards()
    {
        using CrashStore store = new();
        using MappedFileQueue queue = Open(store, s_interval);
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask(store.OpenCommand);
        agent.Trap("Claimed", hit: 1, "stop");
        agent.Send("append prefix=never count=1");
        agent.WaitUntilStopped();
        long offset = queue.Producer.Produce(CrashMessage.Make("behind", 16));
        Thread.Sleep(s_interval * 10);
        Assert.True(queue.ConfirmedOffset <= offset);
        agent.Kill();

        Assert.True(Eventually.Wait(() => queue.ConfirmedOffset > offset, Eventually.DefaultDeadline));
    }

    /// <summary>Requests to the sleeping thread: an asynchronous flush, a roll, the end of the queue.</summary>
    [Fact]
    public async Task FlushAsync_WhileTheFlushThreadSleeps_IsServed()
    {
        using CrashStore store = new();
        MappedFileQueue queue = Open(store, s_interval);
        for (int i = 0; i < 10; i++)
        {
            await Task.Delay(s_interval * 3, TestContext.Current.CancellationToken);
            long offset = queue.Producer.Produce(CrashMessage.Make("m", 16));
            Assert.True(await queue.FlushAsync().AsTask().WaitAsync(Eventually.DefaultDeadline) > offset);
        }

        await Task.Delay(s_interval * 5, TestContext.Current.CancellationToken);
        await queue.DisposeAsync().AsTask().WaitAsync(Eventually.DefaultDeadline);
    }

    private static MappedFileQueue Open(CrashStore store, TimeSpan interval) => new(new MappedFileQueueOptions
    {
        StorePath = store.Path,
        SegmentSize = 1 << 20,
        ProducerMode = store.Mode,
        FlushInterval = interval,
    });
}
