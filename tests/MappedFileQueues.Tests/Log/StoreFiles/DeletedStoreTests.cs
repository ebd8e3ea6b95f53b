using MappedFileQueues.Tests.Log.Opening;

namespace MappedFileQueues.Tests.Log.StoreFiles;

/// <summary>
/// A store that is deleted, moved away or replaced under an open queue: what is mapped lives on, so nobody crashes, but
/// whoever rolls, waits, flushes or asks for its state is told.
/// </summary>
[Trait("Category", "Slow")]
public sealed class DeletedStoreTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("delete")]
    [InlineData("move")]
    [InlineData("replace")]
    [InlineData("meta")]
    public void Flush_StoreIsGone_Throws(string how) => Told(how, queue => queue.Flush());

    /// <summary>The leader's look may be a millisecond old: nobody is told for longer that his message is on disk.</summary>
    [Theory]
    [InlineData("delete")]
    [InlineData("move")]
    [InlineData("replace")]
    [InlineData("meta")]
    public void ProduceDurable_StoreIsGone_ThrowsSoon(string how)
    {
        var group = new ProduceOptions { Durability = DurabilityLevel.Group };
        using MappedFileQueue queue = Open();
        queue.Producer.Produce([1], group);
        Remove(how);
        const int FarMoreThanInAMillisecond = 10_000;
        Assert.Throws<QueueDeletedException>(() =>
        {
            for (int i = 0; i < FarMoreThanInAMillisecond; i++)
                queue.Producer.Produce([1], group);
        });
    }

    [Theory]
    [InlineData("delete")]
    [InlineData("move")]
    [InlineData("replace")]
    [InlineData("meta")]
    public void GetInfo_StoreIsGone_Throws(string how) => Told(how, queue => queue.GetInfo());

    /// <summary>A reader mixed the pages of the former store with the files of the one in its place.</summary>
    [Theory]
    [InlineData("delete")]
    [InlineData("move")]
    [InlineData("replace")]
    [InlineData("meta")]
    public void GetInfo_StoreOfAReaderIsGone_Throws(string how) =>
        Told(how, queue => queue.OpenReader(), reader => reader.GetInfo());

    [Theory]
    [InlineData("delete")]
    [InlineData("move")]
    [InlineData("replace")]
    [InlineData("meta")]
    public void OpenConsumer_StoreIsGone_Throws(string how) => Told(how, queue => queue.OpenConsumer("another"));

    [Theory]
    [InlineData("delete")]
    [InlineData("move")]
    [InlineData("replace")]
    [InlineData("meta")]
    public void Consume_StoreIsGone_ThrowsAfterAWait(string how) => Told(how, queue => queue.Consumer.Consume());

    /// <summary>
    /// A program that looks at something else between two waits never got as far as the check: each wait began its interval anew.
    /// `mfq consume --follow --commit` followed a deleted store for ever.
    /// </summary>
    [Theory]
    [InlineData("delete")]
    [InlineData("replace")]
    public void TryConsume_StoreIsGone_ThrowsAfterManyShortWaits(string how) =>
        Told(how, queue => RepeatShortWaits(wait => queue.Consumer.TryConsume(out _, wait)));

    /// <summary>A program that polls and never waits was never told, and asked a deleted store for ever.</summary>
    [Theory]
    [InlineData("delete")]
    [InlineData("replace")]
    public void TryConsume_StoreIsGone_ThrowsAfterManyCallsWithoutAWait(string how) =>
        Told(how, queue => Poll(() => queue.Consumer.TryConsume(out _)));

    /// <inheritdoc cref="TryConsume_StoreIsGone_ThrowsAfterManyCallsWithoutAWait"/>
    [Theory]
    [InlineData("delete")]
    [InlineData("replace")]
    public void TryConsume_StoreOfAGroupIsGone_ThrowsAfterManyCallsWithoutAWait(string how) =>
        Told(how, queue => queue.OpenGroupMember("workers"), member => Poll(() => member.TryConsume(out _)));

    /// <inheritdoc cref="TryConsume_StoreIsGone_ThrowsAfterManyCallsWithoutAWait"/>
    [Theory]
    [InlineData("delete")]
    [InlineData("replace")]
    public void TryRead_StoreIsGone_ThrowsAfterManyCallsWithoutAWait(string how) =>
        Told(how, queue => queue.OpenReader(), reader => Poll(() => reader.TryRead(out _)));

    [Theory]
    [InlineData("delete")]
    [InlineData("replace")]
    public void TryConsume_StoreOfAGroupIsGone_ThrowsAfterManyShortWaits(string how) =>
        Told(how, queue => queue.OpenGroupMember("workers"), member => RepeatShortWaits(wait => member.TryConsume(out _, wait)));

    [Theory]
    [InlineData("delete")]
    [InlineData("move")]
    [InlineData("replace")]
    [InlineData("meta")]
    public async Task ConsumeAsync_StoreIsGone_ThrowsAfterAWait(string how)
    {
        using MappedFileQueue queue = Open();
        MappedFileConsumer consumer = queue.Consumer;
        Task<ReadOnlyMemory<byte>> pending = consumer.ConsumeAsync(TestContext.Current.CancellationToken).AsTask();
        Remove(how);
        await Assert.ThrowsAsync<QueueDeletedException>(() => pending.WaitAsync(Eventually.DefaultDeadline));
    }

    [Theory]
    [InlineData("delete", ProducerMode.Shared)]
    [InlineData("move", ProducerMode.Exclusive)]
    [InlineData("replace", ProducerMode.Shared)]
    [InlineData("meta", ProducerMode.Exclusive)]
    public void Produce_StoreIsGone_ThrowsAtARoll(string how, ProducerMode mode)
    {
        using MappedFileQueue queue = Open(mode);
        queue.Producer.Produce(new byte[1000]);
        Remove(how);
        const int EnoughToRoll = 1000;
        QueueDeletedException error = Assert.Throws<QueueDeletedException>(() =>
        {
            for (int i = 0; i < EnoughToRoll; i++)
                queue.Producer.Produce(new byte[1000]);
        });
        Refusal.CheckMessage(error.Message, _temp.StorePath);
    }

    /// <summary>
    /// Where the preparing thread had no time to make the next segment, the producer makes it: the missing folder was reported
    /// as an error of the disk (once in a few hundred rolls on a busy machine). Here it makes the first one.
    /// </summary>
    [Fact]
    public void Produce_SegmentOfAStoreThatIsGone_Throws()
    {
        using MappedFileQueue queue = Open();
        MappedFileProducer producer = queue.Producer;
        Remove("delete");
        QueueDeletedException error = Assert.Throws<QueueDeletedException>(() => producer.Produce([1]));
        Refusal.CheckMessage(error.Message, _temp.StorePath);
    }

    [Fact]
    public void Prepare_SegmentOfAStoreThatIsGone_Throws()
    {
        using MappedFileQueue queue = Open();
        MappedFileProducer producer = queue.Producer;
        Remove("delete");
        Assert.Throws<QueueDeletedException>(() => producer.Prepare(1 << 20));
    }

    [Fact]
    public void CommitDurable_FirstOneInAStoreThatIsGone_Throws()
    {
        using MappedFileQueue queue = Open();
        queue.Producer.Produce([1]);
        MappedFileConsumer consumer = queue.Consumer;
        _ = consumer.Consume();
        Remove("delete");
        Assert.Throws<QueueDeletedException>(() => consumer.Commit(durable: true));
    }

    [Theory]
    [InlineData("delete")]
    [InlineData("replace")]
    public void TryRead_StoreIsGone_ThrowsAfterAWait(string how)
    {
        using MappedFileQueue queue = Open();
        using MappedFileReader reader = queue.OpenReader();
        Remove(how);
        Assert.Throws<QueueDeletedException>(() => reader.TryRead(out _, Eventually.DefaultDeadline));
    }

    /// <summary>
    /// A consumer that had not come to the end of the log yet found the next segment missing, and reported a damaged store.
    /// </summary>
    [Fact]
    public void Consume_StoreIsGoneUnderTheUnread_Throws()
    {
        using (MappedFileQueue producing = Open())
        {
            for (int i = 0; i < 200; i++)
                producing.Producer.Produce(new byte[1000]);
            producing.Flush();
        }

        using MappedFileQueue queue = Open();
        using MappedFileReader reader = queue.OpenReader();
        MappedFileConsumer consumer = queue.Consumer;
        consumer.Consume();
        Assert.True(reader.TryRead(out _));
        Remove("delete");

        Refusal.CheckMessage(Assert.Throws<QueueDeletedException>(() =>
        {
            for (int i = 0; i < 200; i++)
            {
                consumer.Advance();
                consumer.Consume();
            }
        }).Message, _temp.StorePath);
        Assert.Throws<QueueDeletedException>(() =>
        {
            for (int i = 0; i < 200; i++)
                reader.TryRead(out _);
        });
    }

    [Fact]
    public void Dispose_StoreIsGone_LeavesTheNewOneAlone()
    {
        using (MappedFileQueue queue = Open())
        {
            queue.Producer.Produce([9]);
            Remove("replace");
        }

        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    /// <summary>The library's own deletion asks first.</summary>
    [Fact]
    public void Delete_StoreIsOpen_IsRefused()
    {
        using (MappedFileQueue queue = Open())
        {
            QueueInUseException error = Assert.Throws<QueueInUseException>(() => MappedFileQueue.Delete(_temp.StorePath));
            Refusal.CheckMessage(error.Message, _temp.StorePath, "holder=");
            queue.Producer.Produce([1, 2, 3, 0]);
        }

        Assert.Equal(1, Refusal.CountMessages(_temp.StorePath));
        MappedFileQueue.Delete(_temp.StorePath);
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    private void Told(string how, Action<MappedFileQueue> act) => Told(
        how,
        queue =>
        {
            _ = queue.Consumer;
            return queue;
        },
        act);

    /// <summary>What is opened before the store is gone tells of that when it is used afterwards.</summary>
    private void Told<T>(string how, Func<MappedFileQueue, T> open, Action<T> act)
        where T : IDisposable
    {
        using MappedFileQueue queue = Open();
        using T opened = open(queue);
        Remove(how);
        QueueDeletedException error = Assert.Throws<QueueDeletedException>(() => act(opened));
        Refusal.CheckMessage(error.Message, _temp.StorePath);
    }

    /// <summary>More than a second: so long may pass between two looks at the store's place.</summary>
    private static void Poll(Func<bool> asks)
    {
        const int Enough = 2000;
        for (int i = 0; i < Enough; i++)
        {
            Assert.False(asks());
            Thread.Sleep(1);
        }
    }

    private static void RepeatShortWaits(Func<TimeSpan, bool> waits)
    {
        const int Enough = 300;
        for (int i = 0; i < Enough; i++)
            Assert.False(waits(TimeSpan.FromMilliseconds(20)));
    }

    private MappedFileQueue Open(ProducerMode mode = ProducerMode.Shared) =>
        new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 64 * 1024, ProducerMode = mode });

    private void Remove(string how)
    {
        string aside = Path.Combine(_temp.Root, "aside");
        switch (how)
        {
            case "delete":
                Eventually.True(TryDelete, "the folder is gone");
                break;
            case "meta":
                File.Delete(_temp.PathOf("queue.meta"));
                break;
            case "move":
                Directory.Move(_temp.StorePath, aside);
                break;
            default:
                Directory.Move(_temp.StorePath, aside);
                Refusal.MakeStore(_temp.StorePath);
                break;
        }
    }

    /// <summary>The queue may be making segments ahead while its folder is being emptied.</summary>
    private bool TryDelete()
    {
        try
        {
            Directory.Delete(_temp.StorePath, recursive: true);
        }
        catch (IOException)
        {
            // Looked at again.
        }

        return !Directory.Exists(_temp.StorePath);
    }
}
