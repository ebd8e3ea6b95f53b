using System.Diagnostics;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>Leaders of a flush in other processes: at work, dead, stopped.</summary>
[Trait("Category", "Slow")]
public sealed class FlushProcessTests
{
    private static readonly ProduceOptions s_group = new()
    {
        Durability = DurabilityLevel.Group,
        Timeout = Eventually.DefaultDeadline,
    };

    [Fact]
    public void Produce_TwoProcessesAtOnce_EachIsConfirmedBeforeItReturns()
    {
        using CrashStore store = new();
        using MappedFileQueue queue = store.Open();
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask(store.OpenCommand + " level=Group");
        agent.Send("append prefix=theirs count=300");
        for (int i = 0; i < 300; i++)
            Assert.True(queue.Producer.Produce(CrashMessage.Make($"ours-{i}", 64), s_group) < queue.ConfirmedOffset);
        agent.Answer();

        // The child's last append has returned, so everything is durable.
        Assert.Equal(queue.Producer.Offset, queue.ConfirmedOffset);
        Assert.Equal(600, store.Peek().Count);
    }

    [Theory]
    [InlineData("FlushMarked")]
    [InlineData("FlushSynced")]
    [InlineData("DurableRaised")]
    public void Produce_LeaderOfAnotherProcessIsKilled_TheNextOneGoesOn(string step)
    {
        using CrashStore store = new();
        using MappedFileQueue queue = store.Open();
        queue.Producer.Produce(CrashMessage.Make("first", 64));
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask(store.OpenCommand + " level=Group");
        agent.Trap(step, hit: 1);
        agent.Send("append prefix=theirs count=1");
        agent.ExpectKilled();

        long offset = queue.Producer.Produce(CrashMessage.Make("second", 64), s_group);

        Assert.True(queue.ConfirmedOffset > offset);
        Assert.Equal(["first", "theirs-0", "second"], store.Peek());
    }

    [Fact]
    public void Produce_LeaderIsKilledWhileAnotherWaits_TheWaiterLeads()
    {
        using CrashStore store = new();
        using MappedFileQueue queue = store.Open();
        _ = queue.Producer;
        using PeerAgent agent = StartStoppedLeader(store);
        Contract.BackgroundCall waiter = Contract.BackgroundCall.Start(() =>
            queue.Producer.Produce(CrashMessage.Make("ours", 64), s_group));
        Eventually.True(() => store.Peek().Count == 2, "ours is appended");

        agent.Kill();

        waiter.Join();
        Assert.Equal(queue.Producer.Offset, queue.ConfirmedOffset);
    }

    [Fact]
    public void Produce_LeaderIsStopped_WaitsForItAndCallsWithATimeoutEnd()
    {
        using CrashStore store = new();
        using MappedFileQueue queue = store.Open();
        _ = queue.Producer;
        using PeerAgent agent = StartStoppedLeader(store);

        Assert.Throws<TimeoutException>(() => queue.Producer.Produce(CrashMessage.Make("late", 64),
            new ProduceOptions { Durability = DurabilityLevel.Group, Timeout = TimeSpan.FromMilliseconds(100) }));
        long before = queue.ConfirmedOffset;
        // Appends that do not wait for the disk are not held up.
        queue.Producer.Produce(CrashMessage.Make("eager", 64));
        Contract.BackgroundCall waiter = Contract.BackgroundCall.Start(() =>
            queue.Producer.Produce(CrashMessage.Make("patient", 64), s_group));
        Eventually.True(() => store.Peek().Count == 4, "all are appended");
        Assert.Equal(before, queue.ConfirmedOffset);

        agent.Continue();

        waiter.Join();
        agent.Answer();
        Assert.Equal(queue.Producer.Offset, queue.ConfirmedOffset);
    }

    [Fact]
    public void Dispose_LeaderOfAnotherProcessIsStopped_EndsTheWait()
    {
        using CrashStore store = new();
        MappedFileQueue queue = store.Open();
        MappedFileProducer producer = queue.Producer;
        using PeerAgent agent = StartStoppedLeader(store);
        Contract.BackgroundCall waiter = Contract.BackgroundCall.Start(() =>
            producer.Produce(CrashMessage.Make("ours", 64), s_group));
        Eventually.True(() => store.Peek().Count == 2, "ours is appended");
        long began = Stopwatch.GetTimestamp();

        queue.Dispose();

        Assert.IsType<ObjectDisposedException>(waiter.JoinSilently());
        Assert.True(Stopwatch.GetElapsedTime(began) < Eventually.DefaultDeadline);
        agent.Continue();
        agent.Answer();
    }

    /// <summary>Another process that leads a flush and stands still in it.</summary>
    private static PeerAgent StartStoppedLeader(CrashStore store) => PeerAgent.StartAt(agent =>
    {
        agent.Ask(store.OpenCommand + " level=Group");
        agent.Trap("FlushMarked", hit: 1, what: "stop");
        agent.Send("append prefix=theirs count=1");
        agent.WaitUntilStopped();
    });
}
