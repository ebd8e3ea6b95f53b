using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Queues;

namespace MappedFileQueues.Tests.Inspection;

/// <summary>A reader that waits asynchronously: woken where it may write the waiters' flag, polling where it may not.</summary>
public sealed class ReaderWaitTests
{
    [Theory, MemberData(nameof(MessageLengthTests.Variants), MemberType = typeof(MessageLengthTests))]
    public async Task WaitToReadAsync_MessageByMessage_FindsEachOne(ProducerMode mode, bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue<long> queue = Open(store, mode, portable);
        using MappedFileReader<long> reader = queue.OpenReader();
        for (long i = 0; i < 300; i++)
        {
            Task<bool> wait = reader.WaitToReadAsync().AsTask();
            Assert.False(wait.IsCompleted);
            queue.Producer.Produce(i);
            Assert.True(await wait.WaitAsync(Eventually.DefaultDeadline));
            Assert.True(await reader.WaitToReadAsync());
            Assert.True(reader.TryRead(out long number));
            Assert.Equal(i, number);
            Assert.False(reader.TryRead(out _));
        }
    }

    /// <summary>No lost wake: with polling, or woken only by the wait's end of 100 ms, it would take 200 s.</summary>
    [Theory, InlineData(ProducerMode.Shared), InlineData(ProducerMode.Exclusive)]
    public async Task WaitToReadAsync_RoundTrips_AreWokenAndShareTheThread(ProducerMode mode)
    {
        using TempStore store = new();
        using TempStore answers = new();
        using MappedFileQueue<long> queue = Open(store, mode, portable: false);
        using MappedFileQueue<long> back = Open(answers, mode, portable: false);
        using MappedFileReader<long> reader = queue.OpenReader();
        using MappedFileReader<long> answer = back.OpenReader();
        const int rounds = 1_000;
        Task echo = Task.Run(async () =>
        {
            for (long i = 0; i < rounds; i++)
            {
                await reader.WaitToReadAsync();
                Assert.True(reader.TryRead(out long number));
                back.Producer.Produce(number);
            }
        });
        long began = Stopwatch.GetTimestamp();
        for (long i = 0; i < rounds; i++)
        {
            queue.Producer.Produce(i);
            await answer.WaitToReadAsync();
            Assert.True(answer.TryRead(out long number));
            Assert.Equal(i, number);
        }

        await echo;
        Assert.True(Stopwatch.GetElapsedTime(began) < Eventually.DefaultDeadline, $"{Stopwatch.GetElapsedTime(began)}");
    }

    [Theory, InlineData(false), InlineData(true)]
    public async Task WaitToReadAsync_CancelledDisposedOrTwice_Ends(bool portable)
    {
        using TempStore store = new();
        using MappedFileQueue<long> queue = Open(store, ProducerMode.Shared, portable);
        queue.Producer.Produce(1);
        MappedFileReader<long> reader = queue.OpenReader(QueueStart.Latest);
        for (int i = 0; i < 50; i++)
        {
            using var source = new CancellationTokenSource();
            Task<bool> wait = reader.WaitToReadAsync(source.Token).AsTask();
            Assert.False(wait.IsCompleted);
            if (!portable)
                await Assert.ThrowsAsync<InvalidOperationException>(async () => await reader.WaitToReadAsync());
            await source.CancelAsync();
            await Assert.ThrowsAnyAsync<OperationCanceledException>(() => wait.WaitAsync(Eventually.DefaultDeadline));
        }

        Task<bool> last = reader.WaitToReadAsync().AsTask();
        reader.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => last.WaitAsync(Eventually.DefaultDeadline));
        await Assert.ThrowsAsync<ObjectDisposedException>(async () => await reader.WaitToReadAsync());
    }

    /// <summary>A lone opener rewrites the page: the flag of a reader that waits between two owners is lost.</summary>
    [Fact]
    public async Task WaitToReadAsync_StoreIsReopenedMeanwhile_FindsTheNextMessage()
    {
        using TempStore store = new();
        Open(store, ProducerMode.Shared, portable: false).Dispose();
        using MappedFileReader<long> reader = MappedFileReader<long>.Open(store.StorePath);
        for (long i = 0; i < 20; i++)
        {
            Task<bool> wait = reader.WaitToReadAsync().AsTask();
            using MappedFileQueue<long> queue = Open(store, ProducerMode.Shared, portable: false);
            queue.Producer.Produce(i);
            Assert.True(await wait.WaitAsync(Eventually.DefaultDeadline));
            Assert.True(reader.TryRead(out long number));
            Assert.Equal(i, number);
        }
    }

    /// <summary>A reader that may not write polls, finds every message, and leaves the page as it is.</summary>
    [Fact]
    public async Task WaitToReadAsync_PageCannotBeWritten_Polls()
    {
        using TempStore store = new();
        using MappedFileQueue<long> queue = Open(store, ProducerMode.Shared, portable: false);
        var disk = new FaultyDisk();
        using MappedFileReader<long> refused = queue.OpenReader();
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Open && name == StoreNames.Control)
                throw FaultyDisk.Broken(name);
        };
        Task<bool> wait = refused.WaitToReadAsync().AsTask();
        Assert.Equal(0UL, WaiterFlag(store));
        queue.Producer.Produce(7);
        Assert.True(await wait.WaitAsync(Eventually.DefaultDeadline));
        Assert.True(refused.TryRead(out long number));
        Assert.Equal(7, number);
    }

    private static ulong WaiterFlag(TempStore store)
    {
        using FileStream control = new(
            Path.Combine(store.StorePath, "control"), FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
        Span<byte> word = stackalloc byte[8];
        control.Position = ControlLayout.WaiterFlagAt;
        control.ReadExactly(word);
        return BitConverter.ToUInt64(word);
    }

    private static MappedFileQueue<long> Open(TempStore store, ProducerMode mode, bool portable)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueue<long>(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            ProducerMode = mode,
            Durability = DurabilityLevel.PageCache,   // a flusher raises the flag, too
            SegmentSize = 64 * 1024,
        });
    }
}
