using MappedFileQueues.Format;
using MappedFileQueues.Log.Sequences;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Platform;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tests.Queues;

/// <summary>Producers with an id: each sequence is in the log once, whatever is repeated, closed, removed or damaged.</summary>
public sealed class IdempotentProducerTests : IDisposable
{
    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    public static TheoryData<ProducerMode, bool> Variants => MessageLengthTests.Variants;

    /// <summary>
    /// A batch whose last message had the highest sequence was an OverflowException, as was the message after it, although the
    /// same message alone was appended.
    /// </summary>
    [Fact]
    public void TryProduceBatch_UpToTheHighestSequence_IsAppended()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false);
        using MappedFileIdempotentProducer producer = queue.OpenProducer("last");
        ReadOnlyMemory<byte>[] three = [Bytes("a"), Bytes("b"), Bytes("c")];

        Assert.Equal("firstSequence", Assert.Throws<ArgumentOutOfRangeException>(
            () => producer.TryProduceBatch(three, ulong.MaxValue - 1)).ParamName);
        Assert.Equal(3, producer.TryProduceBatch(three, ulong.MaxValue - 2));
        Assert.Equal(0, producer.TryProduceBatch(three.AsSpan(2), ulong.MaxValue));
        Assert.Contains("id=\"last\"", Assert.Throws<InvalidOperationException>(() => producer.Produce("d"u8)).Message);
        Assert.Equal(["a", "b", "c"], Read(queue));
    }

    [Theory, MemberData(nameof(Variants))]
    public void TryProduce_Repetitions_AreTold(ProducerMode mode, bool portable)
    {
        using (MappedFileQueue queue = Open(mode, portable))
        {
            using MappedFileIdempotentProducer producer = queue.OpenProducer("Orders");
            Assert.Equal((0ul, "Orders"), (producer.LastSequence, producer.Id));
            Assert.True(producer.TryProduce("a"u8, 5));
            Assert.False(producer.TryProduce("a"u8, 5));
            Assert.False(producer.TryProduce("x"u8, 4));
            producer.Produce("b"u8);
            Assert.Equal(6ul, producer.LastSequence);
            Assert.Equal(2, producer.TryProduceBatch([Bytes("x"), Bytes("c"), Bytes("d")], 6));
            Assert.Equal(0, producer.TryProduceBatch([Bytes("x"), Bytes("x")], 7));
            Assert.Equal(0, producer.TryProduceBatch([], 1));
            Assert.Throws<ArgumentOutOfRangeException>(() => producer.TryProduce("x"u8, 0));
            Assert.Throws<ArgumentOutOfRangeException>(() => producer.TryProduceBatch([], 0));
            Assert.Throws<QueueInUseException>(() => queue.OpenProducer("orders"));
        }

        // The file says nothing yet, or everything: the log is asked.
        using (MappedFileQueue queue = Open(mode, portable))
        {
            using MappedFileIdempotentProducer producer = queue.OpenProducer("orders");
            Assert.Equal(8ul, producer.LastSequence);
            Assert.False(producer.TryProduce("x"u8, 8));
            Assert.True(producer.TryProduce("e"u8, 9, new ProduceOptions { Headers = new() { Key = Bytes("key") } }));
        }

        using (MappedFileQueue queue = Open(mode, portable))
        {
            Assert.Equal(["a", "b", "c", "d", "e"], Read(queue));
            using MappedFileReader reader = queue.OpenReader();
            ulong id = 0;
            foreach (ulong sequence in (ulong[])[5, 6, 7, 8, 9])
            {
                Assert.True(reader.TryRead(out _));
                Assert.Equal(sequence, reader.Headers!.Sequence);
                id = id == 0 ? reader.Headers.ProducerId : id;
                Assert.Equal(id, reader.Headers.ProducerId);
            }

            Assert.Equal("key"u8, reader.Headers!.Key.Span);
        }
    }

    [Theory, MemberData(nameof(Variants))]
    public async Task Structs_AllWays_AppendOnce(ProducerMode mode, bool portable)
    {
        PlatformScope.Use(portable);
        using var queue = new MappedFileQueue<Tick>(
            new() { StorePath = _store.StorePath, SegmentSize = 4096, ProducerMode = mode });
        using MappedFileIdempotentProducer<Tick> producer = queue.OpenProducer("ticks");
        for (long i = 0; i < 300; i += 3)
        {
            Tick tick = Tick.Make(1, i);
            Assert.True(producer.TryProduce(in tick, (ulong)i + 1));
            Assert.False(producer.TryProduce(in tick, (ulong)i + 1));
            Assert.True(await producer.TryProduceAsync(Tick.Make(1, i + 1), (ulong)i + 2));
            Assert.False(await producer.TryProduceAsync(Tick.Make(1, i + 1), (ulong)i + 2));
            Assert.Equal(1, producer.TryProduceBatch([Tick.Make(1, i), Tick.Make(1, i + 1), Tick.Make(1, i + 2)], (ulong)i + 1));
        }

        for (long i = 0; i < 300; i++)
        {
            Assert.True(queue.Consumer.TryConsume(out Tick tick));
            Assert.Equal(i, tick.Verify());
            queue.Consumer.Commit();
        }

        Assert.False(queue.Consumer.TryConsume(out _));
    }

    /// <summary>
    /// Everything is removed while the producer's file is behind. Without it being brought up first, nothing would know the
    /// sequences any more.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Trim_ProducerIsBehind_SequencesOutliveTheirMessages(bool isOpen)
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false, DurabilityLevel.PageCache);
        MappedFileIdempotentProducer producer = queue.OpenProducer("orders");
        try
        {
            for (ulong sequence = 1; sequence <= 200; sequence++)
                producer.TryProduce(new byte[100], sequence);
            if (!isOpen)
                producer.Dispose();
            for (int i = 0; i < 100; i++)
                queue.Producer.Produce(new byte[100]);
            Assert.True(queue.Trim(long.MaxValue) > 200 * 100);
            Assert.Equal(200ul, Known(queue).Sequence);
            Assert.Equal(!isOpen, IsClosed(queue));
        }
        finally
        {
            producer.Dispose();
        }

        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(200ul, again.LastSequence);
        Assert.False(again.TryProduce("x"u8, 200));
        Assert.False(IsClosed(queue));
    }

    /// <summary>
    /// A removal reads the messages of a producer that has gone up to what is on disk. Those after it, which go with a later
    /// removal, must be read then: otherwise they would be appended again.
    /// </summary>
    [Fact]
    public void Trim_TwiceAfterTheProducerHasGone_KnowsWhatWasPublishedLast()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false, DurabilityLevel.PageCache);
        long middle = 0;
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            for (int i = 0; i < 200; i++)
            {
                long offset = producer.Produce(new byte[100]);
                middle = i == 100 ? offset : middle;
            }
        }

        Assert.InRange(queue.Trim(middle), 1, middle);
        Assert.InRange(Known(queue).Sequence, 1ul, 100ul);
        for (int i = 0; i < 100; i++)
            queue.Producer.Produce(new byte[100]);
        Assert.True(queue.Trim(long.MaxValue) > 200 * 100);
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(200ul, again.LastSequence);
    }

    /// <summary>
    /// The file of a producer never knows more than what is on disk. All is in one segment: a completed one is flushed in the
    /// background, and at times the file knew of the messages in it when the test looked.
    /// </summary>
    [Fact]
    public void File_MessagesAreNotDurable_SaysNothingOfThem()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false, DurabilityLevel.PageCache, 4 << 20);
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            for (ulong sequence = 1; sequence <= 5000; sequence++)
                producer.TryProduce(new byte[200], sequence);
            Assert.Equal(0ul, Known(queue).Sequence);
            long durable = queue.Flush();
            for (ulong sequence = 5001; sequence <= 10_000; sequence++)
                producer.TryProduce(new byte[200], sequence);
            Assert.InRange(Known(queue).Sequence, 1ul, 5000ul);
            Assert.InRange(Known(queue).Offset, 1, durable);
        }

        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(10_000ul, again.LastSequence);
    }

    [Fact]
    public void Snapshot_OfAStoreWithProducers_KnowsTheirSequences()
    {
        string copy = _store.StorePath + "-copy";
        using (MappedFileQueue queue = Open(ProducerMode.Shared, portable: false))
        {
            using MappedFileIdempotentProducer producer = queue.OpenProducer("orders");
            for (ulong sequence = 1; sequence <= 100; sequence++)
                producer.TryProduce(new byte[200], sequence);
            queue.Snapshot(copy);
            producer.TryProduce(new byte[200], 101);
        }

        using var snapshot = new MappedFileQueue(new MappedFileQueueOptions { StorePath = copy });
        using MappedFileIdempotentProducer there = snapshot.OpenProducer("orders");
        Assert.Equal(100ul, there.LastSequence);
        Assert.True(there.TryProduce("other"u8, 101));
    }

    [Fact]
    public void DeleteProducer_KnownAndUnknown_ForgetsAndTells()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false);
        Assert.False(queue.DeleteProducer("orders"));
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            producer.Produce("1"u8);
            Assert.Throws<QueueInUseException>(() => queue.DeleteProducer("orders"));
        }

        Assert.True(File.Exists(_store.PathOf("locks", "producer-orders")));
        Assert.True(queue.DeleteProducer("Orders"));
        Assert.False(File.Exists(_store.PathOf("locks", "producer-orders")));
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(0ul, again.LastSequence);
        foreach (string id in new[] { "", "a/b", new string('x', 101) })
            Assert.Throws<ArgumentException>("id", () => queue.OpenProducer(id));
    }

    /// <summary>Hostile bytes in the producer's file: a typed error, and the removal of segments continues.</summary>
    [Theory]
    [InlineData(0)]
    [InlineData(8)]
    [InlineData(20)]
    [InlineData(60)]
    public void Open_DamagedFile_IsRefusedUntilItIsDeleted(int at)
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false);
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            for (ulong sequence = 1; sequence <= 100; sequence++)
                producer.TryProduce(new byte[200], sequence);
        }

        string path = _store.PathOf("offset", "producers", "orders.producer");
        byte[] page = File.ReadAllBytes(path);
        page[at] ^= 0x10;
        File.WriteAllBytes(path, page);

        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => queue.OpenProducer("orders"));
        Assert.Contains("DeleteProducer", error.Message, StringComparison.Ordinal);
        Assert.True(queue.Trim(long.MaxValue) > 0);
        Assert.True(queue.DeleteProducer("orders"));
        queue.OpenProducer("orders").Dispose();
    }

    /// <summary>
    /// An offset that damage has made: before or after the log, the sequences in the log were not looked for and were appended
    /// again, or a good log was called damaged.
    /// </summary>
    [Theory]
    [InlineData(-8)]
    [InlineData(4)]
    [InlineData(16)]
    [InlineData(1L << 40)]
    [InlineData(long.MaxValue)]
    public void Open_ImpossibleOffset_IsRefusedUntilItIsDeleted(long offset)
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false, segmentSize: 65536);
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
            producer.Produce("one message"u8);
        queue.Flush();
        ChangeWord(ProducerLayout.OffsetAt, offset);

        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => queue.OpenProducer("orders"));
        Assert.Contains("DeleteProducer", error.Message, StringComparison.Ordinal);
        Assert.True(queue.DeleteProducer("orders"));
        queue.OpenProducer("orders").Dispose();
    }

    /// <summary>
    /// A bit of the last sequence, which no checksum covers: each message of a lower one passed for a repetition and was lost.
    /// </summary>
    [Theory]
    [InlineData(ProducerLayout.SequenceAt)]
    [InlineData(ProducerLayout.SequenceCopyAt)]
    public void Open_SequenceRaisedByDamage_LosesNothing(int position)
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false, segmentSize: 65536);
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            Assert.True(producer.TryProduce("1"u8, 1));
            Assert.True(producer.TryProduce("2"u8, 2));
        }

        queue.Flush();
        queue.OpenProducer("orders").Dispose();
        ChangeWord(position, 2 | (1L << 40));

        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.False(again.TryProduce("2"u8, 2));
        Assert.True(again.TryProduce("3"u8, 3));
    }

    /// <summary>
    /// The log is read once for all producers that are behind, from the least of their offsets on. One that damage had put into
    /// the middle of a message ended the reading of that segment, and the others' sequences went with it.
    /// </summary>
    /// <param name="isZeroed">Whether the first message's header is zeroed: a walk from the segment's start ends there.</param>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Trim_OffsetOfAnotherProducerIsWithinAMessage_ForgetsNothing(bool isZeroed)
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false, DurabilityLevel.PageCache);
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        using (MappedFileIdempotentProducer other = queue.OpenProducer("other"))
        {
            other.TryProduce(new byte[100], 1);
            for (ulong sequence = 1; sequence <= 20; sequence++)
                producer.TryProduce(new byte[100], sequence);
        }

        long second;
        using (MappedFileReader reader = MappedFileReader.Open(_store.StorePath))
        {
            Assert.True(reader.TryRead(out _) && reader.TryRead(out _));
            second = reader.MessageOffset;
        }

        foreach (string id in new[] { "orders", "other" })
        {
            ChangeWord(ProducerLayout.OffsetAt, id == "other" ? 64 : second, id);
            ChangeWord(ProducerLayout.SequenceAt, 0, id);
            ChangeWord(ProducerLayout.SequenceCopyAt, 0, id);
        }

        for (int i = 0; i < 100; i++)
            queue.Producer.Produce(new byte[100]);
        queue.Flush();
        if (isZeroed)
        {
            using FileStream segment = new(
                _store.PathOf("commitlog", "00000000000000000000.log"), FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
            segment.Write(new byte[8]);
        }

        Assert.True(queue.Trim(long.MaxValue) > 4096);
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(20ul, again.LastSequence);
    }

    /// <summary>
    /// The end of a producer that had gone moved on with the log, and its file never came to it: each removal read its segments
    /// and synced the file, for ever.
    /// </summary>
    [Fact]
    public void Trim_ProducerHasGone_IsSoonPassedOver()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false, DurabilityLevel.PageCache);
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
            producer.TryProduce(new byte[100], 1);
        List<long> known = [];
        for (int round = 0; round < 90; round++)
        {
            for (int i = 0; i < 40; i++)
                queue.Producer.Produce(new byte[100]);
            queue.Flush();
            queue.Trim(long.MaxValue);
            known.Add(Known(queue).Offset);
        }

        // Up to 64 segments had names when it was closed.
        Assert.Equal(known[75], known[^1]);
        Assert.True(IsClosed(queue));
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(1ul, again.LastSequence);
    }

    /// <summary>
    /// With a producer that had gone, a removal read the whole log, at 1 GiB in 1 to 2.5 s, and no process could open the store
    /// meanwhile.
    /// </summary>
    [Fact]
    public void Trim_ProducerHasGone_ReadsOneSegmentMoreThanItRemoves()
    {
        using MappedFileQueue queue = OpenAfterOrdersHasGone(2000, DurabilityLevel.PageCache, out FaultyDisk disk);
        queue.Flush();
        Thread thread = Thread.CurrentThread;
        SortedSet<string> read = [];
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Open && Thread.CurrentThread == thread
                && name.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal))
                read.Add(name);
        };

        Assert.Equal(4096 * 2, queue.Trim(4096 * 2));

        disk.Before = null;
        Assert.Equal([StoreNames.Segment(0), StoreNames.Segment(4096), StoreNames.Segment(8192)], read);
        Assert.Equal(1ul, Known(queue).Sequence);
        for (long before = 4096 * 3; before < 4096 * 40; before += 4096)
            Assert.Equal(before, queue.Trim(before));
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(1ul, again.LastSequence);
    }

    /// <summary>
    /// The files of all producers that were behind were open at once, with their locks. With 400 of them and a limit of 512
    /// descriptors no removal came about any more.
    /// </summary>
    [Fact]
    public void Trim_ManyProducersAreBehind_OpensAFewAtATime()
    {
        using MappedFileQueue queue = OpenAfterOrdersHasGone(100, DurabilityLevel.Interval, out FaultyDisk disk);
        Guid storeId = queue.GetInfo().StoreId;
        byte[] page = File.ReadAllBytes(_store.PathOf("offset", "producers", "orders.producer"));
        Assert.True(ProducerLayout.TryReadId(page, storeId, out ulong id));
        for (uint i = 0; i < 500; i++)
        {
            string path = _store.PathOf("offset", "producers", $"p{i}.producer");
            File.WriteAllBytes(path, ProducerLayout.Make(id + i, storeId, 0, 0));
        }

        Thread thread = Thread.CurrentThread;
        (int inARow, int most) = (0, 0);
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Open || Thread.CurrentThread != thread)
                return;
            inARow = name.StartsWith(StoreNames.Producers, StringComparison.Ordinal) ? inARow + 1
                : name.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal) ? 0 : inARow;
            most = Math.Max(most, inARow);
        };

        Assert.True(queue.Trim(long.MaxValue) > 0);

        disk.Before = null;
        Assert.InRange(most, 1, 128);
        using MappedFileIdempotentProducer again = queue.OpenProducer("p0");
        Assert.Equal(1ul, again.LastSequence);
    }

    /// <summary>
    /// A removal passed over a producer's file when the process had no descriptor left for a moment, and nothing knew the
    /// sequences any more.
    /// </summary>
    [Fact]
    public void Trim_NoDescriptorForAMoment_FailsAndForgetsNothing()
    {
        using MappedFileQueue queue = OpenAfterOrdersHasGone(100, DurabilityLevel.PageCache, out FaultyDisk disk);
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Open || !name.StartsWith(StoreNames.Producers, StringComparison.Ordinal))
                return;
            disk.Before = null;
            throw new QueueDiskException("No descriptor is left.", DiskErrors.EMFILE, name);
        };

        Assert.Equal(DiskErrors.EMFILE, Assert.Throws<QueueDiskException>(() => queue.Trim(long.MaxValue)).Errno);
        Assert.True(queue.Trim(long.MaxValue) > 0);
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(1ul, again.LastSequence);
    }

    /// <summary>
    /// After a failed sync the system takes the page for clean. The next removal's sync succeeded and wrote nothing, and the
    /// messages went: after a power loss nothing knew their sequences, and a repetition was appended again. That of a
    /// producer that had gone was not even synced.
    /// </summary>
    [Fact]
    public void Trim_SyncOfAProducersFileFails_TheNextOneWritesThePage()
    {
        using MountedFileSystem mounted = MountedFileSystem.Make("ext4", _store.Root);
        var disk = new FaultyDisk();
        using var queue = new MappedFileQueue(new() { StorePath = mounted.PathOf("store"), SegmentSize = 4096 });
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
            producer.Produce(new byte[100]);
        for (int i = 0; i < 100; i++)
            queue.Producer.Produce(new byte[100]);
        string name = ProducerFile.NameOf("orders");
        string path = mounted.PathOf("store", name);
        DateTime longAgo = DateTime.UtcNow.AddDays(-1);
        disk.Before = (call, file) =>
        {
            if (call != DiskCall.Sync || file != name)
                return;
            disk.Before = null;
            using (SafeFileHandle handle = File.OpenHandle(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite))
                RandomAccess.FlushToDisk(handle);
            File.SetLastWriteTimeUtc(path, longAgo);
            throw FaultyDisk.Broken(file);
        };

        Assert.Throws<QueueDiskException>(() => queue.Trim(long.MaxValue));

        // The system notices a store into a clean page.
        Assert.InRange(File.GetLastWriteTimeUtc(path), longAgo.AddHours(1), DateTime.MaxValue);
        bool isSynced = false;
        disk.Before = (call, file) => isSynced |= call == DiskCall.Synced && file == name;
        Assert.True(queue.Trim(long.MaxValue) > 0);
        Assert.True(isSynced);
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(1ul, again.LastSequence);
    }

    /// <summary>Messages of another store's producer, copied here with their numbers, count for nobody.</summary>
    [Fact]
    public void Carried_Numbers_DoNotCount()
    {
        using MappedFileQueue queue = Open(ProducerMode.Shared, portable: false);
        ulong id;
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            producer.Produce("1"u8);
            queue.Consumer.Consume();
            id = queue.Consumer.Headers!.ProducerId;
        }

        queue.Producer.Produce("x"u8, new ProduceOptions { Headers = new() { ProducerId = id, Sequence = 1000 } });
        using MappedFileIdempotentProducer again = queue.OpenProducer("orders");
        Assert.Equal(1ul, again.LastSequence);
    }

    /// <summary>
    /// An asynchronous call that waits for consumers: nobody may overtake it, and its cancellation appends nothing.
    /// </summary>
    [Fact]
    public async Task TryProduceAsync_WaitsForConsumers_IsCountedWhenItIsAppended()
    {
        using MappedFileQueue queue = OpenLimited(200);
        MappedFileConsumer consumer = queue.Consumer;
        using MappedFileIdempotentProducer producer = queue.OpenProducer("orders");
        Assert.True(await producer.TryProduceAsync(new byte[150], 1));
        using var cancelled = new CancellationTokenSource();
        Task<bool> waits = producer.TryProduceAsync(new byte[150], 2, cancelled.Token).AsTask();
        Assert.Equal(1ul, producer.LastSequence);
        Assert.Throws<InvalidOperationException>(() => producer.TryProduce(new byte[1], 3));
        cancelled.Cancel();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => waits);
        waits = producer.TryProduceAsync(new byte[150], 2).AsTask();
        consumer.Consume();
        consumer.Commit();
        Assert.True(await waits);
        Assert.Equal(2ul, producer.LastSequence);
        Assert.True(producer.ConfirmedOffset > 300);
        Assert.False(await producer.TryProduceAsync(new byte[150], 2));
    }

    /// <summary>
    /// The fast path publishes a message and then meets the poison. An asynchronous call did not remember that: each repetition
    /// was appended once more.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public async Task TryProduceAsync_QueueIsPoisoned_RepetitionIsNotAppendedAgain(ProducerMode mode)
    {
        const ulong Last = 20;
        MappedFileQueueOptions options = new()
        {
            StorePath = _store.StorePath,
            SegmentSize = 65536,
            ProducerMode = mode,
            MaxUnconsumedBytes = 1 << 20,
        };
        using (var queue = new MappedFileQueue(options))
        {
            MappedFileIdempotentProducer producer = queue.OpenProducer("orders");
            for (ulong sequence = 1; sequence <= Last; sequence++)
                Assert.True(await producer.TryProduceAsync("m"u8.ToArray(), sequence));
            File.WriteAllText(_store.PathOf("poison"), "");
            StoreWords.Poison(_store.StorePath);

            for (int repetition = 0; repetition < 3; repetition++)
                await Assert.ThrowsAsync<QueuePoisonedException>(
                    async () => await producer.TryProduceAsync("m"u8.ToArray(), Last + 1));
        }

        using var again = new MappedFileQueue(options);
        Assert.InRange(Read(again).Count, (int)Last, (int)Last + 1);
    }

    /// <summary>
    /// A call that was appended, and waited for its flush, took away the guard of the one after it when it ended: a third one
    /// came before the one that waited for consumers. The last sequence went back then, and a repetition was appended again.
    /// </summary>
    [Fact]
    public async Task TryProduceAsync_FlushOfTheCallBeforeEnds_NobodyOvertakesIt()
    {
        WatchedServices services = WatchedServices.Use(portable: false);
        using MappedFileQueue queue = OpenLimited(250);
        MappedFileConsumer consumer = queue.Consumer;
        using MappedFileIdempotentProducer producer = queue.OpenProducer("orders");
        using var gate = new FlushGate(services);
        Task<bool> flushes = producer.TryProduceAsync(new byte[150], 1).AsTask();
        Assert.Equal(1ul, producer.LastSequence);
        gate.WaitForFlush();
        Task<bool> waits = producer.TryProduceAsync(new byte[150], 2).AsTask();
        gate.Open();
        Assert.True(await flushes);

        Assert.Throws<InvalidOperationException>(() => producer.TryProduce(new byte[1], 3));

        consumer.Consume();
        consumer.Commit();
        Assert.True(await waits);
        Assert.True(producer.TryProduce(new byte[1], 3));
        Assert.Equal(3ul, producer.LastSequence);
    }

    [Fact]
    public void TryProduce_SteadyState_AllocatesNothing()
    {
        using var queue = new MappedFileQueue(new() { StorePath = _store.StorePath, SegmentSize = 16 << 20 });
        using MappedFileIdempotentProducer producer = queue.OpenProducer("orders");
        ulong sequence = 0;
        AllocationTests.AssertNothing("numbered", () => producer.TryProduce("message"u8, ++sequence), 5000);
    }

    private MappedFileQueue Open(
        ProducerMode mode, bool portable, DurabilityLevel level = DurabilityLevel.Interval, long segmentSize = 4096)
    {
        PlatformScope.Use(portable);
        return new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = _store.StorePath,
            SegmentSize = segmentSize,
            ProducerMode = mode,
            Durability = level,
        });
    }

    /// <summary>A durable queue whose producers wait for consumers.</summary>
    private MappedFileQueue OpenLimited(long unconsumedMax) => new(new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        SegmentSize = 65536,
        MaxUnconsumedBytes = unconsumedMax,
        Durability = DurabilityLevel.Group,
    });

    /// <summary>A queue of one message of a producer that has gone, and of others after it.</summary>
    private MappedFileQueue OpenAfterOrdersHasGone(int others, DurabilityLevel level, out FaultyDisk disk)
    {
        PlatformScope.Use(portable: false);
        disk = new FaultyDisk();
        var queue = new MappedFileQueue(new() { StorePath = _store.StorePath, SegmentSize = 4096, Durability = level });
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
            producer.Produce(new byte[100]);
        for (int i = 0; i < others; i++)
            queue.Producer.Produce(new byte[100]);
        return queue;
    }

    private (ulong Sequence, long Offset) Known(MappedFileQueue queue) => Look(queue, file => file.Known);

    private bool IsClosed(MappedFileQueue queue) => Look(queue, file => file.End != long.MaxValue);

    private T Look<T>(MappedFileQueue queue, Func<ProducerFile, T> look)
    {
        Assert.True(queue.GetInfo().StoreId != Guid.Empty);
        byte[] meta = File.ReadAllBytes(_store.PathOf("queue.meta"));
        using var directory = CurrentPlatform.Services.OpenDirectory(
            _store.StorePath, create: false, mode: null)!;
        using ProducerFile file = ProducerFile.TryOpen(directory, StoreMeta.Parse(meta, ""), ProducerFile.NameOf("orders"))!;
        return look(file);
    }

    private static ReadOnlyMemory<byte> Bytes(string text) => System.Text.Encoding.UTF8.GetBytes(text);

    private static List<string> Read(MappedFileQueue queue)
    {
        List<string> read = [];
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            read.Add(System.Text.Encoding.UTF8.GetString(message));
            queue.Consumer.Commit();
        }

        return read;
    }

    private void ChangeWord(int position, long value, string id = "orders")
    {
        string path = _store.PathOf("offset", "producers", $"{id}.producer");
        byte[] page = File.ReadAllBytes(path);
        System.Buffers.Binary.BinaryPrimitives.WriteInt64LittleEndian(page.AsSpan(position), value);
        File.WriteAllBytes(path, page);
    }
}
