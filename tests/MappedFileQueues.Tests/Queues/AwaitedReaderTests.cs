using System.Runtime.CompilerServices;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues.Tests.Queues;

/// <summary>
/// A synchronous call beside a pending asynchronous one is refused. The fast paths of TryConsume and ConsumeBatch, which look at
/// nothing but the reader's bound, once read under the waiting thread instead. Here the reader is handed to a wait by hand, and
/// is looked through as the waiting thread does, so that a message is there and the wait continues.
/// </summary>
public sealed class AwaitedReaderTests
{
    [Fact]
    public void TryConsume_BesideAWait_ThrowsAlthoughAMessageIsThere()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath });
        MappedFileConsumer consumer = queue.Consumer;
        for (byte i = 1; i <= 3; i++)
            queue.Producer.Produce([i]);
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> first) && first[0] == 1);
        consumer.Commit();

        Besides(ReaderOf(consumer), () =>
        {
            Assert.Throws<InvalidOperationException>(() => consumer.TryConsume(out _));
            Assert.Throws<InvalidOperationException>(() => consumer.ConsumeBatch(1).GetEnumerator().MoveNext());
            Assert.Throws<InvalidOperationException>(() => consumer.Commit());
        });

        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> second) && second[0] == 2);
        consumer.Commit();
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> third) && third[0] == 3);
    }

    [Fact]
    public void TryConsumeOfT_BesideAWait_ThrowsAlthoughAMessageIsThere()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = store.StorePath });
        MappedFileConsumer<long> consumer = queue.Consumer;
        for (long i = 1; i <= 3; i++)
            queue.Producer.Produce(i);
        Assert.True(consumer.TryConsume(out long first) && first == 1);
        consumer.Commit();

        Besides(ReaderOf(consumer), () =>
        {
            Assert.Throws<InvalidOperationException>(() => consumer.TryConsume(out _));
            Assert.Throws<InvalidOperationException>(() => consumer.ConsumeBatch(new long[2]));
            Assert.Throws<InvalidOperationException>(() => consumer.Commit());
        });

        long[] rest = new long[4];
        Assert.Equal(2, consumer.ConsumeBatch(rest));
        Assert.Equal([2, 3, 0, 0], rest);
    }

    /// <summary>
    /// A message that comes at once, or a cancellation, ends a wait before the thread that begins it comes back from there. The
    /// next thread then met a call under way, and the wait ended with "two threads call at once".
    /// </summary>
    [Fact]
    public void BeginWait_IsOverBeforeItReturns_AnotherThreadMayCall()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath });
        queue.Producer.Produce([1]);
        MappedFileConsumer consumer = queue.Consumer;
        var wait = new CallAtTheEnd(() => Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> first) && first[0] == 1));

        CoreOf(consumer).BeginWait(wait, Timeout.InfiniteTimeSpan, new CancellationToken(canceled: true));

        Assert.True(wait.HasEnded);
        Assert.Null(wait.Error);
    }

    private static void Besides(LogReader reader, Action calls)
    {
        reader.IsAwaited = true;
        calls();
        Assert.True(reader.HasSomething());
        calls();
        reader.IsAwaited = false;
    }

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_reader")]
    private static extern ref LogReader ReaderOf(MappedFileConsumer consumer);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_reader")]
    private static extern ref LogReader ReaderOf(MappedFileConsumer<long> consumer);

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_core")]
    private static extern ref LogConsumer CoreOf(MappedFileConsumer consumer);

    /// <summary>Makes a call on another thread as soon as the wait is over.</summary>
    private sealed class CallAtTheEnd(Action call) : IReadWait
    {
        public bool HasEnded { get; private set; }

        public Exception? Error { get; private set; }

        public void EndOnPool(bool found, Exception? error)
        {
            HasEnded = true;
            var thread = new Thread(() => Error = Record.Exception(call));
            thread.Start();
            thread.Join();
        }
    }
}
