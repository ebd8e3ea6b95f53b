using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Crash.Disposers;

/// <summary>docs/DESIGN.md section 1, Dispose: by a thread that has a claim open itself.</summary>
[Trait("Category", "Slow")]
public sealed class OwnDisposeTests
{
    /// <summary>
    /// A fill callback, or a batch's own memory, that disposed the queue and continued writing: the page was gone, which killed
    /// the process; an Exclusive producer's went into free space, over the next producer's messages. Such a claim is taken away
    /// as another thread's would be: it becomes padding, and its memory stays.
    /// </summary>
    [Theory]
    [InlineData("fill-shared")]
    [InlineData("fill-exclusive")]
    [InlineData("batch-shared")]
    [InlineData("batch-exclusive")]
    public void Dispose_InUserCodeUnderAClaim_LateWritesHarmNobody(string name)
    {
        using var store = new TempStore();
        using ChildProcess child = ChildProcess.StartPeer("race", name, store.StorePath);
        child.WaitForLine("held");
        child.ExpectExit();
    }

    /// <summary>
    /// A thread disposed the producer and waited for the claim of another one; that other one disposed too, and waited for the
    /// first, for ever: its claim would have ended after the lock that the first held.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Exclusive, false)]
    [InlineData(ProducerMode.Exclusive, true)]
    public void Dispose_ByTheClaimsThreadWhileAnotherWaitsForTheClaim_BothReturn(ProducerMode mode, bool wholeQueue)
    {
        using var store = new CrashStore(mode: mode);
        MappedFileQueue queue = store.Open(lockTimeout: Timeout.InfiniteTimeSpan);
        MappedFileProducer producer = queue.Producer;
        producer.Produce(CrashMessage.Make("before", 40));
        using var opened = new ManualResetEventSlim();
        using var othersWait = new ManualResetEventSlim();
        BackgroundCall claiming = BackgroundCall.Start(() =>
        {
            MessageClaim claim = producer.DangerousClaim(100);
            opened.Set();
            othersWait.Wait();
            if (wholeQueue)
                queue.Dispose();
            else
                producer.Dispose();
            claim.Span.Fill(0x77);
        });
        opened.Wait();
        BackgroundCall other = BackgroundCall.Start(producer.Dispose);
        Eventually.True(() => IsDisposed(producer), "the other thread's Dispose has begun");
        othersWait.Set();

        claiming.Join();
        other.Join();
        queue.Dispose();
        store.ExpectHealthy(["before"]);
    }

    /// <summary>A call of this thread, which has no claim open; in Exclusive mode the other thread's is in its way.</summary>
    private static bool IsDisposed(MappedFileProducer producer)
    {
        try
        {
            producer.DangerousClaim(8).Dispose();
        }
        catch (ObjectDisposedException)
        {
            return true;
        }
        catch (InvalidOperationException)
        {
            return false;
        }

        return false;
    }
}
