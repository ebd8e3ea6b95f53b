using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues.Tests.Queues;

/// <summary>
/// An Exclusive producer and a consumer are for one thread at a time. Called by several at once they lost acknowledged messages
/// (19,967 acknowledged, 19,603 read), gave messages twice, reported damage where there was none, or ended the process by an
/// AccessViolationException; a line of configuration in a web application led there. Such a call is refused now.
/// </summary>
[Trait("Category", "Slow")]
public sealed class OneCallerTests
{
    private static readonly TimeSpan s_limit = Eventually.DefaultDeadline;

    [Theory]
    [InlineData("producers", "Exclusive")]
    [InlineData("producers", "Shared")]
    [InlineData("consumers", "-")]
    public void Misuse_EveryPairOfMembersAtOnce_IsRefusedOrWorks(string what, string mode)
    {
        using var store = new TempStore();
        using ChildProcess child = ChildProcess.StartPeer("misuse", what, mode, store.StorePath);
        // Hundreds of stores, each opened, filled and read.
        child.WaitForLine("held", 4 * s_limit);
        child.ExpectExit();
    }

    /// <summary>
    /// A call looked at the reader's end outside of any mark, found it closed and gave the mapping back, under the call that the
    /// end was waiting for: an AccessViolationException.
    /// </summary>
    [Fact]
    public void ConsumeAsync_BesideACallThatDisposeWaitsFor_IsRefused()
    {
        using var store = new TempStore();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 1 << 20 };
        using var queue = new StoreEngine(options, StoreKind.Messages, 0, 0);
        LogConsumer core = null!;
        using MappedFileConsumer consumer = queue.OpenConsumer(
            "a", new ConsumerOptions(), opened => new MappedFileConsumer(queue, core = opened));
        core.Reader.BeginCall();
        Assert.False(core.Reader.HasSomething());
        var disposing = new Thread(consumer.Dispose);
        disposing.Start();
        try
        {
            Assert.True(SpinWait.SpinUntil(() => core.Reader.IsClosed, s_limit));
            // Not ObjectDisposedException, which is what the closed reader says to a call that has it for itself.
            Assert.Throws<InvalidOperationException>(
                () => OnAnotherThread(() => consumer.ConsumeAsync().AsTask().GetAwaiter().GetResult()));
        }
        finally
        {
            core.Reader.EndCall();
        }

        Assert.True(disposing.Join(s_limit));
        Assert.Throws<ObjectDisposedException>(() => { _ = consumer.ConsumeAsync().AsTask().GetAwaiter().GetResult(); });
    }

    [Fact]
    public void Produce_WhileAnotherThreadHasAClaimOpen_ThrowsAndNamesTheRule()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        MessageClaim claim = queue.Producer.DangerousClaim(8);

        InvalidOperationException refused = Assert.Throws<InvalidOperationException>(
            () => OnAnotherThread(() => queue.Producer.Produce([1])));

        Assert.Contains("ProducerMode.Shared", refused.Message, StringComparison.Ordinal);
        claim.Span.Clear();
        claim.Publish(8);
        OnAnotherThread(() => queue.Producer.Produce([2]));
        Assert.Equal(8, queue.Consumer.Consume().Length);
        queue.Consumer.Commit();
        Assert.Equal(2, queue.Consumer.Consume()[0]);
    }

    [Fact]
    public void Consume_ByThreadsThatTakeTurns_Works()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        for (byte i = 0; i < 100; i++)
        {
            byte number = i;
            OnAnotherThread(() => queue.Producer.Produce([number]));
        }

        for (byte i = 0; i < 100; i++)
        {
            OnAnotherThread(() => Assert.Equal(i, queue.Consumer.Consume()[0]));
            OnAnotherThread(() => queue.Consumer.Commit());
        }

        Assert.False(queue.Consumer.TryConsume(out _));
    }

    [Fact]
    public void Consume_WhileAnotherThreadWaitsInOne_ThrowsAndTheWaitGoesOn()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        MappedFileConsumer consumer = queue.Consumer;
        byte read = 0;
        var waiting = new Thread(() => read = consumer.Consume()[0]);
        waiting.Start();

        Eventually.True(() => IsRefused(consumer), "the wait has begun");
        queue.Producer.Produce([7]);

        Assert.True(waiting.Join(s_limit));
        Assert.Equal(7, read);
    }

    private static bool IsRefused(MappedFileConsumer consumer)
    {
        try
        {
            consumer.Commit();
            return false;
        }
        catch (InvalidOperationException)
        {
            return true;
        }
    }

    private static void OnAnotherThread(Action call)
    {
        Exception? thrown = null;
        var thread = new Thread(() => thrown = Record.Exception(call));
        thread.Start();
        thread.Join();
        if (thrown is not null)
            throw thrown;
    }

    private static MappedFileQueue Open(TempStore store) => new(new MappedFileQueueOptions
    {
        StorePath = store.StorePath,
        SegmentSize = 64 * 1024,
        ProducerMode = ProducerMode.Exclusive,
    });
}
