using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Waiting;

/// <summary>Asynchronous waits of many queues share the threads of the process.</summary>
[Trait("Category", "Slow")]
public sealed class WaitThreadTests
{
    [Theory]
    [InlineData(128, 100, 1)]
    [InlineData(8, 20, 3)]
    [InlineData(1, 20, 20)]
    public async Task ConsumeAsync_TenWaitsOnEachOfManyQueues_ShareTheThreads(int words, int count, int threads)
    {
        FewWords os = FewWords.Use(words);
        using TempStore folder = new(createStoreFolder: true);
        var queues = new List<MappedFileQueue<long>>();
        try
        {
            for (int i = 0; i < count; i++)
                queues.Add(new MappedFileQueue<long>(Options(folder, i)));
            MappedFileConsumer<long>[] consumers =
                [.. queues.SelectMany(queue => Enumerable.Range(0, 10).Select(i => queue.OpenConsumer($"c{i}")))];
            for (int round = 0; round < 3; round++)
            {
                Task<long>[] waits = [.. consumers.Select(consumer => consumer.ConsumeAsync().AsTask())];
                Assert.DoesNotContain(waits, wait => wait.IsCompleted);
                Assert.Equal(threads, WaitThreads.CountOf(os));
                foreach (MappedFileQueue<long> queue in queues)
                    queue.Producer.Produce(round);
                long[] messages = await Task.WhenAll(waits).WaitAsync(Eventually.DefaultDeadline);
                Assert.All(messages, message => Assert.Equal(round, message));
                foreach (MappedFileConsumer<long> consumer in consumers)
                    consumer.Commit();
            }

            Task<long>[] last = [.. consumers.Select(consumer => consumer.ConsumeAsync().AsTask())];
            foreach (MappedFileQueue<long> queue in queues)
                queue.Dispose();
            foreach (Task<long> wait in last)
                await Assert.ThrowsAsync<ObjectDisposedException>(() => wait.WaitAsync(Eventually.DefaultDeadline));
        }
        finally
        {
            queues.ForEach(queue => queue.Dispose());
        }
    }

    /// <summary>
    /// Waits, wakes, reads and waits again, 1,000 at a time: nothing is allocated on any thread of the process once the pools
    /// have grown. Other tests run beside it, so it counts in a process of its own.
    /// </summary>
    [Fact]
    public void WaitToConsumeAsync_ThousandWaitsOverHundredQueues_AllocatesNothing()
    {
        using TempStore folder = new(createStoreFolder: true);
        using ChildProcess peer = ChildProcess.StartPeer("pending-waits", folder.Root);
        peer.ExpectExit(0, Eventually.DefaultDeadline * 4);
        Assert.Equal("0 bytes a message", peer.Lines[^1]);
    }

    /// <summary>
    /// A token that ended a wait whose result nobody has fetched yet: the next wait must not use the object of the first.
    /// </summary>
    [Fact]
    public async Task ConsumeAsync_CancelledAndNotAwaitedYet_NextWaitIsItsOwn()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = store.StorePath });
        MappedFileConsumer<long> consumer = queue.Consumer;
        for (int i = 0; i < 200; i++)
        {
            using var cancellation = new CancellationTokenSource();
            ValueTask<bool> first = consumer.WaitToConsumeAsync(cancellation.Token);
            await cancellation.CancelAsync();
            ValueTask<long> second = consumer.ConsumeAsync();
            queue.Producer.Produce(i);
            Assert.Equal(i, await second.AsTask().WaitAsync(Eventually.DefaultDeadline));
            consumer.Commit();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(async () => await first);
        }
    }

    /// <summary>Six queues at a time, each with a wait that is left pending: the threads serve all of them.</summary>
    [Fact]
    public async Task ConsumeAsync_QueuesComeAndGo_NoWaitIsLeft()
    {
        FewWords os = FewWords.Use(3);
        using TempStore folder = new(createStoreFolder: true);
        var six = new ParallelOptions { MaxDegreeOfParallelism = 6 };
        await Parallel.ForEachAsync(Enumerable.Range(0, 60), six, async (i, token) =>
        {
            using var queue = new MappedFileQueue<long>(Options(folder, i));
            using MappedFileConsumer<long> other = queue.OpenConsumer("other");
            Task<long> abandoned = other.ConsumeAsync(token).AsTask();
            for (int round = 0; round < 20; round++)
            {
                ValueTask<long> wait = queue.Consumer.ConsumeAsync(token);
                queue.Producer.Produce(round);
                Assert.Equal(round, await wait.AsTask().WaitAsync(Eventually.DefaultDeadline, token));
                queue.Consumer.Commit();
            }

            Assert.Equal(0, await abandoned.WaitAsync(Eventually.DefaultDeadline, token));
        });
        Assert.InRange(WaitThreads.CountOf(os), 1, 60);
    }

    private static MappedFileQueueOptions Options(TempStore folder, int number) => new()
    {
        StorePath = folder.PathOf($"q{number}"),
        SegmentSize = 64 * 1024,
        Durability = DurabilityLevel.PageCache,
    };

    /// <summary>A system whose threads can sleep on few words, or on one alone.</summary>
    private sealed unsafe class FewWords(OperatingSystemServices real, int words) : ForwardingServices(real)
    {
        public static FewWords Use(int words)
        {
            PlatformScope.Use(portable: false);
            var few = new FewWords(CurrentPlatform.Services, words);
            CurrentPlatform.Services = few;
            return few;
        }

        public override int WordsMax => Math.Min(words, base.WordsMax);

        public override void WaitOnWords(ReadOnlySpan<WordWait> all, TimeSpan timeout)
        {
            // On one word it is a call of another kind.
            base.WaitOnWords(words > 1 ? all : all[^1..], timeout);
        }

        protected override HeldDirectory Wrap(HeldDirectory directory) => directory;
    }
}
