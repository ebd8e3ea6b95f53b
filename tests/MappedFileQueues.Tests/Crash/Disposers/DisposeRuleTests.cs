using System.Diagnostics;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Crash.Disposers;

/// <summary>
/// docs/DESIGN.md section 1, Dispose: calls in flight are drained, nothing is unmapped under them. A mistake here kills the
/// process (a store into an unmapped page), and with it this whole run.
/// </summary>
[Trait("Category", "Slow")]
public sealed class DisposeRuleTests
{
    /// <summary>As many rounds as this allows: hundreds to thousands, fewer where disk and CPU are busy.</summary>
    private static readonly TimeSpan s_length = TimeSpan.FromSeconds(0.7);

    [Theory]
    [InlineData(ProducerMode.Shared, 3)]
    [InlineData(ProducerMode.Exclusive, 1)]
    public void Dispose_ProducerUnderHammeringThreads_DrainsAndRefuses(ProducerMode mode, int threads)
    {
        using var store = new CrashStore(1 << 20, mode);
        using MappedFileQueue queue = store.Open();
        int tried = 0;
        int round = 0;
        for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began) < s_length; round++)
        {
            MappedFileProducer producer = queue.OpenProducer();
            HammerUntilDisposed(
                threads, () => producer.Produce(CrashMessage.Make($"{Interlocked.Increment(ref tried)}", 40)), producer);
        }

        List<string> all = CrashStore.ReadAll(queue, "all");
        Assert.Equal(all.Count, all.Distinct().Count());
        Assert.True(all.Count <= tried && all.Count >= tried - (round * threads), $"read={all.Count}, tried={tried}");
        Assert.Empty(queue.GetInfo().OpenClaims);
    }

    /// <summary>
    /// A thread that waited in Dispose for another one's claim was interrupted: the queue was half closed, and held the
    /// producers' lock for the life of the process. Then the interrupt was lost: the thread's next wait did not end by it.
    /// </summary>
    [Fact]
    public void Dispose_IsInterrupted_EndsAllTheSame()
    {
        using var store = new CrashStore(mode: ProducerMode.Shared);
        MappedFileQueue queue = store.Open(lockTimeout: TimeSpan.FromSeconds(30));
        using ManualResetEventSlim ends = new();
        using ManualResetEventSlim begun = new();
        BackgroundCall claiming = BackgroundCall.Start(() =>
        {
            using MessageClaim claim = queue.Producer.DangerousClaim(1);
            begun.Set();
            ends.Wait();
        });
        begun.Wait();
        bool isPending = false;
        Thread disposing = new(() =>
        {
            queue.Dispose();
            isPending = Record.Exception(() => Thread.Sleep(1)) is ThreadInterruptedException;
        });
        disposing.Start();
        Assert.True(SpinWait.SpinUntil(() => (disposing.ThreadState & System.Threading.ThreadState.WaitSleepJoin) != 0, 10_000));
        disposing.Interrupt();
        Thread.Sleep(50);
        ends.Set();
        claiming.Join();
        disposing.Join();

        Assert.True(isPending);
        using MappedFileQueue next = store.Open(ProducerMode.Exclusive);
        next.OpenProducer().Dispose();
    }

    /// <summary>
    /// An interrupted thread did not wait for the threads of the queue that it disposed. They went on over unmapped pages and
    /// ended the process, or the queue held its locks and files as long as the process lived.
    /// </summary>
    [Theory]
    [InlineData(DurabilityLevel.PageCache)]
    [InlineData(DurabilityLevel.Interval)]
    public void Dispose_ByAnInterruptedThread_ReleasesTheStore(DurabilityLevel level)
    {
        using var store = new CrashStore();
        for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began) < s_length;)
        {
            MappedFileQueue queue = new(new MappedFileQueueOptions
            {
                StorePath = store.Path,
                SegmentSize = 64 * 1024,
                Durability = level,
                Retention = new RetentionOptions { MaxBytes = 64 * 1024 },
                MaxUnconsumedBytes = 1024,
            });
            MappedFileGroupMember member = queue.OpenGroupMember("group");
            queue.Producer.Produce(new byte[1024]);
            Assert.True(member.TryConsume(out _));
            Task full = queue.Producer.ProduceAsync(new byte[1024]).AsTask();
            Task reading = queue.OpenConsumer("async", QueueStart.Latest).ConsumeAsync().AsTask();
            Exception? failure = null;
            bool isPending = false;
            BackgroundCall.Start(() =>
            {
                Thread.CurrentThread.Interrupt();
                failure = Record.Exception(queue.Dispose);
                isPending = Record.Exception(() => Thread.Sleep(1)) is ThreadInterruptedException;
            }).Join();

            Assert.Null(failure);
            Assert.True(isPending);
            ExpectDisposed(full);
            ExpectDisposed(reading);
            MappedFileQueue.Delete(store.Path);
        }
    }

    /// <summary>The call waited for itself, for good.</summary>
    [Fact]
    public void Dispose_ByAHandlerThatATrimTells_IsRefused()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = store.Path, SegmentSize = 64 * 1024 });
        while (queue.Producer.Offset < 3 * 64 * 1024)
            queue.Producer.Produce(new byte[4096]);
        Exception? refused = null;
        queue.SegmentDeleting += (_, _) => refused ??= Record.Exception(queue.Dispose);

        long start = queue.Trim(2 * 64 * 1024);

        Assert.Equal(2 * 64 * 1024, start);
        Assert.IsType<InvalidOperationException>(refused);
        queue.Producer.Produce([1]);
    }

    [Fact]
    public void Dispose_ConsumerUnderAReadingThread_EndsItsCalls()
    {
        using var store = new CrashStore(4096);
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, Enumerable.Range(0, 300).Select(i => $"m-{i}"));
        bool waits = false;
        for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began) < s_length; waits = !waits)
        {
            MappedFileConsumer consumer = queue.OpenConsumer(waits ? "waits" : "looks", QueueStart.Earliest);
            HammerUntilDisposed(1, () => Read(consumer, waits), consumer);
        }
    }

    /// <summary>Queue, producers, consumers, sleeping and async waits: all of it ends, whoever disposes when.</summary>
    [Fact]
    public void Dispose_QueueUnderEverything_EndsEveryCall()
    {
        using var store = new CrashStore();
        for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began) < s_length;)
        {
            MappedFileQueue queue = store.Open();
            MappedFileProducer producer = queue.Producer;
            MappedFileConsumer consumer = queue.OpenConsumer("sync", QueueStart.Latest);
            MappedFileConsumer asyncConsumer = queue.OpenConsumer("async", QueueStart.Latest);
            Task waiting = Task.Run(async () =>
            {
                while (true)
                {
                    await asyncConsumer.ConsumeAsync();
                    asyncConsumer.Commit();
                }
            });
            Task reading = Task.Run(() =>
            {
                while (true)
                    Read(consumer, waits: true);
            });
            HammerUntilDisposed(2, () => producer.Produce(CrashMessage.Make("m", 40)), queue);
            ExpectDisposed(waiting);
            ExpectDisposed(reading);
        }

        store.ExpectHealthy(store.Peek());
    }

    /// <summary>The disposing thread would wait for itself: its own open claim becomes padding.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Dispose_OwnClaimOpen_ClaimBecomesPadding(ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        using MappedFileQueue queue = store.Open();
        MappedFileProducer producer = queue.OpenProducer();
        MessageClaim claim = producer.DangerousClaim(100);
        claim.Span.Fill(0x77);
        producer.Dispose();

        Assert.Empty(queue.GetInfo().OpenClaims);
        CrashStore.Append(queue, "next");
        Assert.Equal(["next"], CrashStore.ReadAll(queue, "all"));
        claim.Dispose();
        Assert.Equal(["next"], store.Peek());
    }

    /// <summary>
    /// A Dispose that takes a claim away between its opening and the look at where it is: the claim's thread continued at the
    /// place after its padding, where the next producer appends.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public unsafe void Dispose_ClaimIsJustOpened_ItsThreadStillFindsItsOwnPlace(ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        var options = new MappedFileQueueOptions { StorePath = store.Path, SegmentSize = 1 << 20, ProducerMode = mode };
        var core = new StoreEngine(options, StoreKind.Messages, 0, 0, _ => { });
        LogAppender appender = core.OpenAppender();
        AppendLane lane = appender.Claim(56)!;
        var disposing = new Thread(() => core.CloseAppender(appender));
        disposing.Start();
        disposing.Join();

        Assert.True(lane.IsFenced);
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "next");
        new Span<byte>(lane.Next + FrameHeader.Size, 56).Fill((byte)'!');
        Assert.Equal(["next"], CrashStore.ReadAll(queue, "all"));
        core.Dispose();
    }

    /// <summary>
    /// A claim of another thread is waited for as long as LockTimeout says, then fenced; its memory stays, and what that thread
    /// still writes there tears nobody's message.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Dispose_ClaimOfAnotherThread_IsFencedAfterTheTimeOut(ProducerMode mode)
    {
        using var store = new CrashStore(mode: mode);
        using MappedFileQueue queue = store.Open(lockTimeout: TimeSpan.FromMilliseconds(50));
        MappedFileProducer producer = queue.OpenProducer();
        using var opened = new ManualResetEventSlim();
        using var disposed = new ManualResetEventSlim();
        Exception? thrown = null;
        var thread = new Thread(() =>
        {
            MessageClaim claim = producer.DangerousClaim(100);
            opened.Set();
            disposed.Wait();
            claim.Span.Fill(0x77);
            try
            {
                claim.Publish(100);
            }
            catch (Exception error)
            {
                thrown = error;
            }
        });
        thread.Start();
        opened.Wait();
        producer.Dispose();
        CrashStore.Append(queue, "next");
        disposed.Set();
        thread.Join();

        Assert.IsType<ProducerFencedException>(thrown);
        Assert.Equal(["next"], CrashStore.ReadAll(queue, "all"));
    }

    /// <summary>The claim ends in time: Dispose waits for it, and the message is there.</summary>
    [Fact]
    public void Dispose_ClaimOfAnotherThreadEndsInTime_IsWaitedFor()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open(lockTimeout: TimeSpan.FromMinutes(5));
        MappedFileProducer producer = queue.OpenProducer();
        using var opened = new ManualResetEventSlim();
        using var goOn = new ManualResetEventSlim();
        byte[] message = CrashMessage.Make("held", 100);
        var thread = new Thread(() =>
        {
            MessageClaim claim = producer.DangerousClaim(message.Length);
            opened.Set();
            goOn.Wait();
            message.CopyTo(claim.Span);
            claim.Publish(message.Length);
        });
        thread.Start();
        opened.Wait();
        var disposing = new Thread(producer.Dispose);
        disposing.Start();
        Assert.False(disposing.Join(50), "Dispose waits for the claim");
        goOn.Set();
        Assert.True(disposing.Join(Eventually.DefaultDeadline));
        thread.Join();
        Assert.Equal(["held"], CrashStore.ReadAll(queue, "all"));
    }

    /// <summary>A thread with an open claim would wait for itself in these calls.</summary>
    [Fact]
    public void OwnOpenClaim_ProduceFlushConsume_Throw()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        using MappedFileConsumer consumer = queue.OpenConsumer("");
        MessageClaim claim = producer.DangerousClaim(8);
        Assert.Throws<InvalidOperationException>(() => producer.Produce(new byte[8]));
        Assert.Throws<InvalidOperationException>(() => queue.Flush());
        Assert.Throws<InvalidOperationException>(() => consumer.Consume());
        claim.Publish(8);
        Assert.Equal(8, consumer.Consume().Length);
    }

    private static void Read(MappedFileConsumer consumer, bool waits)
    {
        ReadOnlySpan<byte> message;
        if (waits)
            message = consumer.Consume();
        else if (!consumer.TryConsume(out message))
            return;
        _ = message.Length;
        consumer.Advance();
    }

    /// <summary>Threads that call without pause; the one that disposes comes in between somewhere.</summary>
    private static void HammerUntilDisposed(int threadCount, Action call, IDisposable target)
    {
        using var running = new CountdownEvent(threadCount);
        Task[] tasks = [.. Enumerable.Range(0, threadCount).Select(_ => Task.Factory.StartNew(
            () =>
            {
                call();
                running.Signal();
                while (true)
                    call();
            },
            TaskCreationOptions.LongRunning))];
        running.Wait();
        target.Dispose();
        foreach (Task task in tasks)
            ExpectDisposed(task);
    }

    private static void ExpectDisposed(Task task)
    {
        var error = Assert.Throws<AggregateException>(() => task.Wait(Eventually.DefaultDeadline));
        Assert.IsType<ObjectDisposedException>(error.InnerException);
    }
}
