using System.Diagnostics;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Crash.Consumers;

/// <summary>
/// docs/DESIGN.md section 5: wakers and waiters that die at any step lose nobody's wake-up. Where a child waits, it sleeps
/// without end until it is woken, so a lost wake-up is a hang and not a delay.
/// </summary>
[Trait("Category", "Slow")]
public sealed class WakeRuleTests
{
    [Theory]
    [InlineData("Published", ProducerMode.Shared)]
    [InlineData("SequenceRaised", ProducerMode.Shared)]
    [InlineData("SleepersWoken", ProducerMode.Shared)]
    [InlineData("Published", ProducerMode.Exclusive)]
    [InlineData("SequenceRaised", ProducerMode.Exclusive)]
    public void Wake_WakerKilledAtStep_NextPublisherWakes(string step, ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        using MappedFileQueue survivor = store.Open();
        using PeerAgent sleeper = StartSleeper(store);
        for (int round = 0; round < 3; round++)
        {
            WaitUntilAsleep(store, sleeper);
            using PeerAgent waker = store.StartAttached();
            waker.Trap(step, 1);
            waker.Send($"append prefix=w first={round}");
            waker.ExpectKilled();
            CrashStore.Append(survivor, $"next-{round}");
            sleeper.NextLine(line => line == $"got next-{round}");
        }

        Assert.Equal(["w-0", "next-0", "w-1", "next-1", "w-2", "next-2"], sleeper.Received);
    }

    /// <summary>No publisher follows the dead one: each sleeper looks again by itself, a second later at most.</summary>
    [Theory]
    [InlineData("Published", ProducerMode.Shared)]
    [InlineData("SequenceRaised", ProducerMode.Shared)]
    [InlineData("Published", ProducerMode.Exclusive)]
    public async Task Wake_WakerKilledAtStepAndNoOtherFollows_SleepersFindTheMessage(string step, ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        using MappedFileQueue queue = store.Open();
        string[] names = ["single", "timed", "batch", "async", "asyncbatch"];
        List<MappedFileConsumer> consumers = [.. names.Select(name => queue.OpenConsumer(name))];
        using PeerAgent waker = store.StartAttached();
        waker.Ask("producer");
        BackgroundCall[] blocking =
        [
            BackgroundCall.Start(() => Assert.Equal("w-0", CrashMessage.Read(consumers[0].Consume()))),
            BackgroundCall.Start(() => Assert.True(consumers[1].TryConsume(out _, Eventually.DefaultDeadline))),
            BackgroundCall.Start(() => Assert.True(consumers[2].ConsumeBatch().GetEnumerator().MoveNext())),
        ];
        Task[] waiting = [consumers[3].ConsumeAsync().AsTask(), consumers[4].ConsumeBatchAsync(10).AsTask()];
        Eventually.True(() => CountInSharedFutex(Environment.ProcessId) >= blocking.Length, "the consumers sleep");

        waker.Trap(step, 1);
        waker.Send("append prefix=w");
        waker.ExpectKilled();
        long began = Stopwatch.GetTimestamp();
        foreach (BackgroundCall call in blocking)
            call.Join();
        await Task.WhenAll(waiting).WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);

        // One second, and what a busy machine adds.
        Assert.InRange(Stopwatch.GetElapsedTime(began), TimeSpan.Zero, TimeSpan.FromSeconds(20));
    }

    [Fact]
    public void Wake_WaiterKilledWithItsFlagRaised_OthersAreWokenAndTheFlagGoes()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using MappedFileProducer producer = survivor.OpenProducer();
        using var words = new StoreWords(store.Path);
        using (PeerAgent dying = store.StartAttached())
        {
            dying.Trap("WaiterFlagRaised", 1);
            dying.Send("watch name=dying");
            dying.ExpectKilled();
        }

        Assert.NotEqual(0u, words.WaiterFlag);
        producer.Produce(CrashMessage.Make("first", 64));
        Assert.Equal(0u, words.WaiterFlag);

        using PeerAgent sleeper = StartSleeper(store);
        // What `watch` receives may be printed before the answer to the command.
        Eventually.True(() => sleeper.Received.Contains("first"), "the first message is received");
        for (int round = 0; round < 5; round++)
        {
            WaitUntilAsleep(store, sleeper);
            using (PeerAgent dying = store.StartAttached())
            {
                dying.Ask($"consumer name=dying-{round}");
                dying.Ask("consume count=1000");
                dying.Trap("WaiterFlagRaised", 1);
                dying.Send("consume timeout=30000");
                dying.ExpectKilled();
            }

            producer.Produce(CrashMessage.Make($"m-{round}", 64));
            sleeper.NextLine(line => line == $"got m-{round}");
        }
    }

    /// <summary>Frames after a hole become visible with the repair, so a repair wakes as a publish does.</summary>
    [Fact]
    public void Repair_WaiterFlagRaised_WakesAsAPublishDoes()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using MappedFileProducer own = survivor.OpenProducer();
        using MappedFileConsumer consumer = survivor.OpenConsumer("repairs");
        using PeerAgent sleeper = StartSleeper(store);
        WaitUntilAsleep(store, sleeper);
        using var words = new StoreWords(store.Path);
        ulong sequence = words.WakeSequence;
        using (PeerAgent child = store.StartAttached())
        {
            child.Trap("Claimed", 1);
            child.Send("append prefix=never");
            child.ExpectKilled();
        }

        Assert.Equal(sequence, words.WakeSequence);
        Assert.False(consumer.TryConsume(out _));
        Assert.Equal(1, survivor.GetInfo().RepairCount);
        Assert.True(words.WakeSequence > sequence, "the repair has woken");
    }

    /// <summary>Many sleeps and wakes between processes, with nothing but the protocol to end a sleep.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Wake_NoTimeOutToFallBackOn_EveryMessageArrives(ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        using MappedFileQueue survivor = store.Open();
        using MappedFileProducer producer = survivor.OpenProducer();
        using PeerAgent sleeper = StartSleeper(store);
        for (int i = 0; i < 500; i++)
        {
            producer.Produce(CrashMessage.Make($"m-{i}", 64));
            sleeper.NextLine(line => line == $"got m-{i}");
        }
    }

    private static PeerAgent StartSleeper(CrashStore store) => PeerAgent.StartAt(sleeper =>
    {
        sleeper.Ask("sleepmax ms=3600000");
        sleeper.Ask(store.OpenCommand);
        sleeper.Ask("watch name=sleeper");
    });

    /// <summary>
    /// The flag is up, and a thread of the child waits on the futex of a file: its own locks are the private kind.
    /// </summary>
    private static void WaitUntilAsleep(CrashStore store, PeerAgent sleeper)
    {
        using var words = new StoreWords(store.Path);
        Eventually.True(() => words.WaiterFlag != 0 && CountInSharedFutex(sleeper.Id) > 0, "the consumer sleeps");
    }

    private static int CountInSharedFutex(int processId)
    {
        int count = 0;
        // docs.kernel.org, proc(5): number of the system call, then its arguments; FUTEX_WAIT without the PRIVATE flag is
        // operation 0.
        string futex = System.Runtime.InteropServices.RuntimeInformation.ProcessArchitecture
            == System.Runtime.InteropServices.Architecture.Arm64 ? "98" : "202";
        foreach (string task in Directory.GetDirectories($"/proc/{processId}/task"))
        {
            try
            {
                string[] call = File.ReadAllText(Path.Combine(task, "syscall")).Split(' ');
                if (call[0] == futex && call[2] == "0x0")
                    count++;
            }
            catch (IOException)
            {
                // The thread ended between the listing and the look.
            }
        }

        return count;
    }
}
