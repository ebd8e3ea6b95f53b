using System.Runtime.CompilerServices;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues.Tests.Queues;

/// <summary>
/// A synchronous call beside a pending asynchronous one is refused. The fast paths of TryConsume and ConsumeBatch, which look at
/// nothing but the reader's bound, once read under the waiting thread instead. Here the reader is handed to a wait by hand, and
/// is looked through as the waiting thread does, so that a message is there and the wait goes on.
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
}
