using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Index;

/// <summary>Numbers and times against a list of all messages, whatever the index is.</summary>
public sealed class MessageSearchTests
{
    private static readonly TimeSpan s_hour = TimeSpan.FromHours(1);

    /// <summary>What the index may be instead of whole.</summary>
    public enum Harm
    {
        None,
        Deleted,
        Zeros,
        Short,
        Noise,
        OfAnotherStore,
        OfAnotherSeries,
        Older,
        CountedIsTorn,
        EntriesAreTorn,
    }

    [Theory]
    [InlineData(1, false)]
    [InlineData(2, false)]
    [InlineData(3, true)]
    [InlineData(4, false)]
    [InlineData(5, true)]
    [InlineData(6, false)]
    public void Find_RandomStore_AsTheListSays(int seed, bool portable)
    {
        PlatformScope.Use(portable);
        Random random = new(seed);
        using IndexedStore store = new();
        for (int step = 0; step < 400; step++)
        {
            switch (random.Next(12))
            {
                case < 5:
                    store.Produce(random.Next(8) == 0 ? random.Next(IndexedStore.SegmentSize - 8) : random.Next(400));
                    break;
                case 5:
                    store.ProduceBatch([random.Next(300), random.Next(3000), random.Next(30)]);
                    break;
                case 6:
                    store.Queue.Producer.DangerousClaim(random.Next(2000)).Dispose();
                    break;
                case 7 or 8:
                    store.Advance(TimeSpan.FromSeconds(random.Next(100)));
                    break;
                case 9 when random.Next(5) == 0:
                    store.Flush();
                    store.Queue.Trim(
                        Math.Max(0, store.Queue.GetInfo().PublishedOffset - random.Next(10 * IndexedStore.SegmentSize)));
                    break;
                case 10 when random.Next(5) == 0:
                    store.Close();
                    store.Open();
                    break;
                case 11 when random.Next(5) == 0:
                    store.Advance(random.Next(2) == 0 ? s_hour : -s_hour);
                    break;
                default:
                    break;
            }

            if (step % 40 == 0 && store.Offsets.Count > 0)
                store.CheckNumbers(5, random);
        }

        store.CheckNumbers(100, random);
        for (int i = 0; i < 100; i++)
            store.CheckTime(store.Time.GetUtcNow() + TimeSpan.FromSeconds(random.Next(-20_000, 10_000)));
    }

    [Fact]
    public void FindOffset_TimesOfAStore_BeginAStepTooEarlyAtMost()
    {
        using IndexedStore store = new();
        DateTimeOffset first = store.Time.GetUtcNow();
        store.Fill(2000);

        for (DateTimeOffset time = first - s_hour; time < store.Time.GetUtcNow() + s_hour; time += TimeSpan.FromSeconds(31))
            store.CheckTime(time, tooEarlyMax: 4096 + 108);
        Assert.Equal(store.Offsets[0], store.Queue.FindOffset(first - s_hour));
        store.Close();
        store.Open();
        Assert.Equal(store.Queue.GetInfo().PublishedOffset, store.Queue.FindOffset(store.Time.GetUtcNow() + s_hour));
    }

    /// <summary>A jump repeats messages, in both directions, and loses none.</summary>
    [Theory, InlineData(-1), InlineData(1)]
    public void FindOffset_ClockWrongByAnHour_IsNeverTooLate(int hours)
    {
        using IndexedStore store = new();
        store.Fill(500);
        DateTimeOffset jump = store.Time.GetUtcNow();
        store.Advance(hours * s_hour);
        store.Fill(500);
        store.Advance(-hours * s_hour);
        store.Fill(500);

        for (DateTimeOffset time = jump - (3 * s_hour); time < jump + (3 * s_hour); time += TimeSpan.FromSeconds(53))
            store.CheckTime(time);
        store.Close();
        store.Open();
        for (DateTimeOffset time = jump - (3 * s_hour); time < jump + (3 * s_hour); time += TimeSpan.FromSeconds(53))
            store.CheckTime(time);
    }

    /// <summary>Retention has removed all that a count was to count: it looked again without end.</summary>
    [Fact]
    public async Task CountFrom_EverythingUpToTheEndIsRemoved_IsZero()
    {
        using IndexedStore store = new();
        store.Produce(100);
        long end = store.Queue.GetInfo().PublishedOffset;
        for (int i = 0; i < 10; i++)
            store.Produce(IndexedStore.SegmentSize - 100);
        Assert.True(store.Queue.Trim(long.MaxValue) > end);
        using MessageSearch search = new(store.Queue.Engine.Store);
        Assert.Equal(0, await Task.Run(() => search.CountFrom(0, end)).WaitAsync(TimeSpan.FromSeconds(30)));
    }

    /// <summary>
    /// A flush looked at the clock, then walked. Producers appended meanwhile, and the walk counted their messages as of that
    /// look: a search by the time at which one of them was appended began after it.
    /// </summary>
    [Fact]
    public void FindOffset_MessageAppendedWhileAFlushWalks_IsNotTooLate()
    {
        using TempStore store = new();
        ClockThatLetsOthersWork clock = new();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            Durability = DurabilityLevel.PageCache,
            TimeProvider = clock,
        });
        // Until there is an index: the flush that makes it looks at the clock too.
        queue.Producer.Produce([1]);
        queue.Flush();
        queue.Producer.Produce([2]);
        long offset = -1;
        DateTimeOffset appended = default;
        clock.AfterALook(() =>
        {
            appended = clock.Advance(s_hour);
            offset = queue.Producer.Produce([3]);
            // An entry of the index comes after it.
            queue.Producer.Produce(new byte[2 * 1024 * 1024]);
            queue.Producer.Produce([4]);
        });
        queue.Flush();
        queue.Flush();

        Assert.InRange(offset, 1, long.MaxValue);
        Assert.InRange(queue.FindOffset(appended), 0, offset);
    }

    [Theory]
    [InlineData(Harm.None)]
    [InlineData(Harm.Deleted)]
    [InlineData(Harm.Zeros)]
    [InlineData(Harm.Short)]
    [InlineData(Harm.Noise)]
    [InlineData(Harm.OfAnotherStore)]
    [InlineData(Harm.OfAnotherSeries)]
    [InlineData(Harm.Older)]
    [InlineData(Harm.CountedIsTorn)]
    [InlineData(Harm.EntriesAreTorn)]
    public void Find_HarmedIndex_GivesTheSameAnswers(Harm harm)
    {
        using IndexedStore store = new();
        store.Fill(300);
        store.Close();
        byte[] older = File.ReadAllBytes(store.IndexPath);
        store.Open();
        store.Fill(300);
        store.Close();
        Do(harm, store, older);

        store.CheckNumbers(50, new Random(1));
        store.Open();
        store.CheckNumbers(50, new Random(2));
        for (int i = 0; i < store.Times.Count; i += 37)
            store.CheckTime(store.Times[i]);
        store.Fill(100);
        store.Close();

        // The end of the queue has brought the index up again.
        store.CheckNumbers(50, new Random(3));
        (_, IndexEntry? counted, _) = store.ReadIndex();
        Assert.Equal(700, counted?.Number);
    }

    /// <summary>
    /// After a cut that took more than it may, another frame begins where an entry says that one begins, or none does.
    /// </summary>
    [Fact]
    public void Find_EntryOfAnotherLogEnd_IsNotUsed()
    {
        using IndexedStore store = new();
        store.Fill(100);
        store.Close();
        byte[] index = File.ReadAllBytes(store.IndexPath);
        IndexPage page = store.ReadIndex().Page;
        // One inside a message, one at a message with a wrong checksum of its own.
        Write(index, page, store.Offsets[60] + 16, 1000);
        File.WriteAllBytes(store.IndexPath, index);

        store.CheckNumbers(50, new Random(1));
        store.Open();
        store.CheckNumbers(50, new Random(2));

        void Write(byte[] bytes, IndexPage of, long offset, long number)
        {
            bytes.AsSpan(IndexPage.CountedAt, IndexEntry.Length).Clear();
            new IndexEntry(offset, number, IndexEntry.NoTime).Write(
                bytes.AsSpan((int)of.PositionOf(of.StepOf(offset))), of.Series, LogIdOf(store));
        }
    }

    [Fact]
    public void Find_BesideALostIndexOfATrimmedStore_NumbersBeginAnew()
    {
        using IndexedStore store = new();
        store.Fill(600);
        store.Queue.Trim(2 * IndexedStore.SegmentSize);
        Assert.Equal(0, store.Queue.GetInfo().NumberedFrom);
        Assert.Equal(600, store.Queue.FindNumber(store.Queue.GetInfo().PublishedOffset));
        store.Close();
        File.Delete(store.IndexPath);

        MappedFileQueueInfo info = StoreInspector.Inspect(store.Temp.StorePath, countsMessages: true);
        Assert.Equal(2 * IndexedStore.SegmentSize, info.NumberedFrom);
        store.CheckNumbers(20, new Random(1));
        store.Open();
        store.Fill(10);
        store.Close();
        store.CheckNumbers(20, new Random(2));
        Assert.Equal(2 * IndexedStore.SegmentSize, store.ReadIndex().Page.Origin);
    }

    [Fact]
    public void Start_FromTimeAndFromMessage_BeginThere()
    {
        using IndexedStore store = new();
        store.Fill(400);
        using MappedFileConsumer consumer = store.Queue.OpenConsumer("late", QueueStart.FromMessage(123));
        Assert.Equal(store.Offsets[123], consumer.Offset);
        consumer.Seek(QueueStart.FromMessage(7));
        Assert.Equal(store.Offsets[7], consumer.CommittedOffset);
        consumer.Seek(QueueStart.FromTime(store.Times[200]));
        Assert.Equal(store.Queue.FindOffset(store.Times[200]), consumer.Offset);
        Assert.Throws<OffsetOutOfRangeException>(() => consumer.Seek(QueueStart.FromMessage(401)));
        Assert.Throws<ArgumentOutOfRangeException>(() => QueueStart.FromMessage(-1));
        Assert.Throws<ArgumentOutOfRangeException>(() => store.Queue.FindOffset(-1));

        using MappedFileReader reader = store.Queue.OpenReader(QueueStart.FromMessage(399));
        Assert.True(reader.TryRead(out _));
        Assert.False(reader.TryRead(out _));
        reader.Seek(QueueStart.FromTime(DateTimeOffset.MinValue));
        Assert.Equal(0, reader.Offset);
        reader.Seek(QueueStart.FromTime(DateTimeOffset.MaxValue));
        Assert.Equal(store.Queue.GetInfo().PublishedOffset, reader.Offset);
        Assert.Equal("message 7", QueueStart.FromMessage(7).ToString());
        Assert.Equal(
            "time 2026-03-01 12:00:00Z", QueueStart.FromTime(new DateTime(2026, 3, 1, 12, 0, 0, DateTimeKind.Utc)).ToString());
    }

    [Fact]
    public void Structs_FindAndSeek_AsForBytes()
    {
        using TempStore store = new();
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = store.StorePath });
        long[] offsets = [.. Enumerable.Range(0, 100).Select(number => queue.Producer.Produce(number))];
        queue.Flush();

        Assert.Equal(offsets[42], queue.FindOffset(42));
        Assert.Equal(42, queue.FindNumber(offsets[42]));
        Assert.Equal(0, queue.FindOffset(DateTimeOffset.MinValue));
        queue.Consumer.Seek(QueueStart.FromMessage(42));
        queue.Consumer.Consume(out long message);
        Assert.Equal(42, message);
        using MappedFileReader<long> reader = queue.OpenReader();
        Assert.Equal(offsets[42], reader.FindOffset(42));
        Assert.Equal(42, reader.FindNumber(offsets[42]));
        Assert.Equal(0, reader.FindOffset(DateTimeOffset.MinValue));
    }

    [Fact]
    public void LagTime_ConsumerBehind_IsTheAgeOfItsNextMessage()
    {
        using IndexedStore store = new();
        store.Fill(200);
        store.Queue.ResetConsumer("behind", QueueStart.FromMessage(100));
        store.Queue.ResetConsumer("done", QueueStart.Latest);
        store.Advance(s_hour);
        Dictionary<string, MappedFileConsumerInfo> consumers = store.Queue.GetInfo().Consumers.ToDictionary(one => one.Name);

        Assert.Equal(TimeSpan.Zero, consumers["done"].LagTime);
        // Counted 62 minutes ago, and the next place of the index is a minute or two later.
        Assert.InRange(consumers["behind"].LagTime!.Value, s_hour, TimeSpan.FromMinutes(62));
        Assert.Null(consumers["behind"].LagMessages);
        Assert.Equal(100, store.Queue.GetInfo(countsMessages: true).Consumers.Single(one => one.Name == "behind").LagMessages);
    }

    [Fact]
    public void LagTime_NothingFlushed_IsNotKnown()
    {
        using IndexedStore store = new();
        store.Produce(10);
        store.Queue.ResetConsumer("behind", QueueStart.Earliest);

        Assert.Null(store.Queue.GetInfo().Consumers.Single().LagTime);
    }

    private static Guid LogIdOf(IndexedStore store)
    {
        using MappedFileQueues.Platform.HeldDirectory directory = store.OpenDirectory();
        return MappedFileQueues.Log.StoreFiles.StoreMetaFile.Read(directory)!.LogId;
    }

    private static void Do(Harm harm, IndexedStore store, byte[] older)
    {
        byte[] bytes = File.ReadAllBytes(store.IndexPath);
        IndexPage page = store.ReadIndex().Page;
        switch (harm)
        {
            case Harm.Deleted:
                File.Delete(store.IndexPath);
                return;
            case Harm.Zeros:
                bytes.AsSpan().Clear();
                break;
            case Harm.Short:
                bytes = bytes[..100];
                break;
            case Harm.Noise:
                new Random(5).NextBytes(bytes);
                break;
            case Harm.OfAnotherStore:
                (page with { StoreId = Guid.NewGuid() }).ToBytes().CopyTo(bytes, 0);
                break;
            case Harm.OfAnotherSeries:
                // Its numbers count from elsewhere.
                (page with { Series = page.Series + 1 }).ToBytes().CopyTo(bytes, 0);
                break;
            case Harm.Older:
                bytes = older;
                break;
            case Harm.CountedIsTorn:
                bytes[IndexPage.CountedAt + 9] ^= 1;
                break;
            case Harm.EntriesAreTorn:
                for (int at = IndexPage.Length; at < bytes.Length; at += 3 * IndexEntry.Length)
                    bytes[at + 9] ^= 1;
                break;
            default:
                break;
        }

        File.WriteAllBytes(store.IndexPath, bytes);
    }

    /// <summary>Others work between the moment that it tells and the caller's next step.</summary>
    private sealed class ClockThatLetsOthersWork : TimeProvider
    {
        private long _ticks = new DateTime(2026, 3, 1, 12, 0, 0, DateTimeKind.Utc).Ticks;
        private Action? _work;

        public void AfterALook(Action work) => Volatile.Write(ref _work, work);

        public DateTimeOffset Advance(TimeSpan time) => new(Interlocked.Add(ref _ticks, time.Ticks), TimeSpan.Zero);

        public override DateTimeOffset GetUtcNow()
        {
            long told = Volatile.Read(ref _ticks);
            if (Interlocked.Exchange(ref _work, null) is { } work)
                Task.Run(work).Wait(TestContext.Current.CancellationToken);
            return new DateTimeOffset(told, TimeSpan.Zero);
        }
    }
}
