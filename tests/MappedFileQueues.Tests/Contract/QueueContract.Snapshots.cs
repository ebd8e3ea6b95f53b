using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Contract;

/// <summary>A store that is copied while it is in use.</summary>
public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void Snapshot_OfMessages_HoldsThemUnderAnIdOfItsOwn(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, Many);
        using ConsumerUnderTest consumer = pair.Right.OpenConsumer("half");
        consumer.Take(Many / 2);
        string target = TargetOf(pair);

        long end = pair.Left.Snapshot(target);
        Assert.InRange(end, offsets[^1] + 1, pair.Left.GetInfo().ConfirmedOffset);
        ProduceMany(pair.Producer, 50, Many);

        MappedFileQueueInfo info = StoreInspector.Inspect(target);
        MappedFileQueueInfo source = pair.Left.GetInfo();
        Assert.Equal((0L, end, end, end), (info.LogStart, info.PublishedOffset, info.TailOffset, info.ConfirmedOffset));
        Assert.NotEqual(source.StoreId, info.StoreId);
        Assert.Equal((source.SegmentSize, source.StructSize), (info.SegmentSize, info.StructSize));
        Assert.Equal(offsets[Many / 2], Assert.Single(info.Consumers).Offset);
        using (QueueUnderTest copy = OpenAt(pair, target))
        {
            Assert.Equal(Numbers(0, Many), copy.ReadAll());
            using (ConsumerUnderTest half = copy.OpenConsumer("half"))
                Assert.Equal(Numbers(Many / 2, Many / 2), half.Take(Many / 2));
            // The two go different ways from here on.
            Assert.Equal(end, copy.Producer.Produce(7000));
            ProduceMany(copy.Producer, Many, 7001);
            copy.Flush();
        }

        using (QueueUnderTest copy = OpenAt(pair, target))
            Assert.Equal([.. Numbers(0, Many), .. Numbers(7000, Many + 1)], copy.ReadAll());
        Assert.Equal(Numbers(0, Many + 50), pair.Left.ReadAll());
        Assert.Equal(Numbers(Many / 2, 10), consumer.Take(10));
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_KeepsItsId_IsTheSameStoreElsewhere(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 20);
        string target = TargetOf(pair);

        pair.Left.Snapshot(target, new SnapshotOptions { KeepStoreId = true });

        MappedFileQueueInfo info = StoreInspector.Inspect(target);
        MappedFileQueueInfo source = StoreInspector.Inspect(pair.Path);
        Assert.Equal((source.StoreId, source.Created), (info.StoreId, info.Created));
        using QueueUnderTest copy = OpenAt(pair, target);
        Assert.Equal(Numbers(0, 20), copy.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_OfASnapshot_IsWhole(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, Many);
        pair.Left.Snapshot(TargetOf(pair));
        using QueueUnderTest first = OpenAt(pair, TargetOf(pair));
        ProduceMany(first.Producer, Many, Many);

        first.Snapshot(TargetOf(pair, "second"));

        using QueueUnderTest second = OpenAt(pair, TargetOf(pair, "second"));
        ProduceMany(second.Producer, 3, 2 * Many);
        Assert.Equal(Numbers(0, (2 * Many) + 3), second.ReadAll());
        Assert.Equal(Numbers(0, 2 * Many), first.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_OfAnEmptyStore_IsEmpty(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);

        Assert.Equal(0, pair.Left.Snapshot(TargetOf(pair)));

        using QueueUnderTest copy = OpenAt(pair, TargetOf(pair));
        Assert.Equal(0, copy.Producer.Produce(1));
        Assert.Equal([1], copy.ReadAll());
    }

    /// <summary>Everything before a later segment was removed.</summary>
    [Theory, MemberData(nameof(Places))]
    public void Snapshot_OfALogThatBeginsLater_BeginsThere(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        long start = 5 * pair.Options.SegmentSize;
        pair.Close();
        LaterLog.Begin(pair.Options.StorePath, start);
        pair.Reopen();
        Assert.Equal(start, pair.Left.Snapshot(TargetOf(pair)));
        ProduceMany(pair.Producer, Many);

        pair.Left.Snapshot(TargetOf(pair, "second"));

        using QueueUnderTest empty = OpenAt(pair, TargetOf(pair));
        Assert.Equal(start, empty.Producer.Produce(1));
        using QueueUnderTest copy = OpenAt(pair, TargetOf(pair, "second"));
        Assert.Equal(start, copy.GetInfo().LogStart);
        Assert.Equal(Numbers(0, Many), copy.ReadAll());
    }

    /// <summary>The end is the first byte of a segment, which may have a file already or not.</summary>
    [Theory, MemberData(nameof(Places))]
    public void Snapshot_EndOnASegmentsEdge_GoesOnThere(Segments segments, bool two)
    {
        if (segments == Segments.Default)
            return;
        using QueuePair pair = Open(segments, two);
        long number = 0;
        long frame = 0;
        while (frame == 0 || pair.Producer.Offset % pair.Options.SegmentSize != 0)
        {
            long at = pair.Producer.Produce(number++);
            frame = pair.Producer.Offset - at;
            if (number > 100_000)
                // Frames of this kind never end on an edge here.
                return;
        }

        long end = pair.Left.Snapshot(TargetOf(pair));

        Assert.Equal(0, end % pair.Options.SegmentSize);
        using QueueUnderTest copy = OpenAt(pair, TargetOf(pair));
        Assert.Equal(end, copy.Producer.Produce(number));
        Assert.Equal(Numbers(0, (int)number + 1), copy.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_ConsumerIsAheadOfTheEnd_StandsAtTheEnd(Segments segments, bool two)
    {
        const int AtMost = 20_000;
        using QueuePair pair = Open(segments, two);
        bool stop = false;
        BackgroundCall working = BackgroundCall.Start(() =>
        {
            using ProducerUnderTest producer = pair.Left.OpenProducer();
            using ConsumerUnderTest fast = pair.Left.OpenConsumer("fast");
            for (long i = 0; i < AtMost && !Volatile.Read(ref stop); i++)
            {
                producer.Produce(i);
                fast.Take(1);
            }
        });
        for (int i = 0; i < 3; i++)
        {
            string target = TargetOf(pair, $"round-{i}");
            long end = pair.Right.Snapshot(target);
            foreach (MappedFileConsumerInfo fast in StoreInspector.Inspect(target).Consumers)
                Assert.InRange(fast.Offset, 0, end);
            using QueueUnderTest copy = OpenAt(pair, target);
            List<long> all = copy.ReadAll();
            Assert.Equal(Numbers(0, all.Count), all);
        }

        Volatile.Write(ref stop, true);
        working.Join();
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_SourceIsDeleted_StaysWhole(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, Many);
        string target = TargetOf(pair);
        pair.Left.Snapshot(target);
        pair.Close();

        MappedFileQueue.Delete(pair.Path);

        using QueueUnderTest copy = OpenAt(pair, target);
        Assert.Equal(Numbers(0, Many), copy.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_TargetIsDeleted_SourceStaysWhole(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, Many);
        pair.Left.Snapshot(TargetOf(pair));

        MappedFileQueue.Delete(TargetOf(pair));

        Assert.Equal(Numbers(0, Many), pair.Left.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_TargetIsNotEmpty_IsRefusedAndUntouched(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 5);
        string target = TargetOf(pair);
        Directory.CreateDirectory(target);
        File.WriteAllText(Path.Combine(target, "notes.txt"), "mine");

        QueueFormatException refused = Assert.Throws<QueueFormatException>(() => pair.Left.Snapshot(target));

        Assert.Contains("notes.txt", refused.Message, StringComparison.Ordinal);
        Assert.Equal("notes.txt", Path.GetFileName(Assert.Single(Directory.GetFileSystemEntries(target))));
        Assert.Throws<QueueFormatException>(() => pair.Left.Snapshot(pair.Path));
        Assert.Throws<QueueFormatException>(() => pair.Left.Snapshot(Path.Combine(pair.Path, "inside")));
        Assert.False(Directory.Exists(Path.Combine(pair.Path, "inside")));
        pair.Left.Snapshot(TargetOf(pair, "second"));
        Assert.Throws<QueueFormatException>(() => pair.Left.Snapshot(TargetOf(pair, "second")));
        Assert.Throws<ArgumentException>(() => pair.Left.Snapshot(" "));
        pair.Producer.Produce(5);
        Assert.Equal(Numbers(0, 6), pair.Left.ReadAll());
    }

    [Theory, MemberData(nameof(Places))]
    public void Snapshot_TargetIsAnEmptyFolder_IsUsed(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 5);
        Directory.CreateDirectory(TargetOf(pair));

        pair.Left.Snapshot(TargetOf(pair) + Path.DirectorySeparatorChar);

        using QueueUnderTest copy = OpenAt(pair, TargetOf(pair));
        Assert.Equal(Numbers(0, 5), copy.ReadAll());
    }

    private static string TargetOf(QueuePair pair, string name = "snapshot") => Path.Combine(pair.Store.Root, name);

    private QueueUnderTest OpenAt(QueuePair pair, string path) => QueueUnderTest.Open(_kind, new MappedFileQueueOptions
    {
        StorePath = path,
        CreateIfMissing = false,
        ProducerMode = _mode,
        // Another one than the store's, which counts.
        SegmentSize = 2 * pair.Options.SegmentSize,
    });
}
