using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>Deletion of the oldest segments: what goes, what stays, and who notices.</summary>
public sealed class TrimTests : IDisposable
{
    private const int SegmentLength = 4096;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Trim_NoConsumer_DeletesWholeSegmentsBelowTheOffset()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);

        long kept = queue.Trim(offsets[200]);

        Assert.Equal(offsets[200] / SegmentLength * SegmentLength, kept);
        Assert.Equal(kept, queue.GetInfo().LogStart);
        Assert.Equal(kept, Segments().Min());
        using MappedFileConsumer consumer = queue.OpenConsumer("late", QueueStart.Earliest);
        Assert.Equal(offsets.First(offset => offset >= kept), First(consumer));
    }

    /// <summary>
    /// A producer with an id that was opened meanwhile knew too little, and a flush covered too little: to them the log ended
    /// where its messages had gone.
    /// </summary>
    [Fact]
    public void FindPublishedEnd_RemovalHasOvertakenTheWalk_ContinuesAtTheLogStart()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        queue.Trim(offsets[200]);
        using var engine = new StoreEngine(
            new MappedFileQueueOptions { StorePath = _temp.StorePath }, StoreKind.Messages, 0, 0);

        Assert.Equal(queue.GetInfo().TailOffset, new FrameWalk(engine.Store).FindPublishedEnd(0));
    }

    [Fact]
    public void Trim_ConsumerBehind_KeepsWhatItHasNotCommitted()
    {
        using MappedFileQueue queue = Open();
        using MappedFileConsumer slow = queue.OpenConsumer("slow", QueueStart.Earliest);
        long[] offsets = Fill(queue, 300);
        for (int i = 0; i < 100; i++)
        {
            slow.Consume();
            slow.Advance();
        }

        Assert.Equal(0, queue.Trim(long.MaxValue));
        for (int i = 0; i < 150; i++)
        {
            slow.Consume();
            slow.Commit();
        }

        long kept = queue.Trim(long.MaxValue);

        Assert.Equal(slow.CommittedOffset / SegmentLength * SegmentLength, kept);
        Assert.Equal(offsets[250], First(slow));
    }

    [Fact]
    public void Trim_KeepUnconsumedIsOff_ConsumerBehindIsToldThatItsMessagesAreGone()
    {
        using MappedFileQueue queue = Open();
        using MappedFileConsumer slow = queue.OpenConsumer("slow", QueueStart.Earliest);
        Fill(queue, 300);
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });

        long kept = queue.Trim(long.MaxValue);

        Assert.InRange(kept, SegmentLength, long.MaxValue);
        Assert.Throws<OffsetOutOfRangeException>(() => slow.Consume().Length);
        Assert.Throws<OffsetOutOfRangeException>(() => slow.AdjustOffset(0));
        slow.SeekToStart();
        Assert.Equal(kept, slow.Offset / SegmentLength * SegmentLength);
    }

    /// <summary>
    /// A new name threw, whatever its policy said. A program that keeps its offset elsewhere, and begins under a new name, could
    /// not start once retention had overtaken it. A reader could.
    /// </summary>
    [Theory]
    [InlineData(OutOfRangePolicy.Earliest)]
    [InlineData(OutOfRangePolicy.Latest)]
    public void Open_NewConsumerAtARemovedOffset_DoesWhatOnOutOfRangeSays(OutOfRangePolicy policy)
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        long kept = queue.Trim(long.MaxValue);
        List<(long, long)> skipped = [];
        queue.MessagesSkipped += (_, gap) => skipped.Add((gap.Offset, gap.NextOffset));

        using MappedFileConsumer consumer = queue.OpenConsumer(
            "new", new ConsumerOptions { Start = QueueStart.FromOffset(offsets[3]), OnOutOfRange = policy });
        bool found = consumer.TryConsume(out _);

        Assert.Equal(policy == OutOfRangePolicy.Earliest, found);
        long next = found ? kept : queue.Producer.Offset;
        Assert.Equal([(offsets[3], next)], skipped);
        Assert.Equal(next, consumer.CommittedOffset);
    }

    /// <summary>The text said that no frame starts there, and to use an offset that Produce returned. It was one.</summary>
    [Fact]
    public void Offset_WhoseMessagesWereRemoved_ErrorSaysThatTheyWereRemoved()
    {
        using MappedFileQueue queue = Open();
        using MappedFileConsumer consumer = queue.OpenConsumer("first", QueueStart.Latest);
        long[] offsets = Fill(queue, 300);
        consumer.SeekToEnd();
        queue.Trim(long.MaxValue);
        var start = QueueStart.FromOffset(offsets[3]);

        Action[] uses =
        [
            () => consumer.AdjustOffset(offsets[3]), () => consumer.Commit(offsets[3]), () => consumer.Seek(start),
            () => queue.OpenConsumer("second", start).Dispose(), () => queue.OpenReader(start).Dispose(),
        ];
        Assert.All(uses, use => Assert.StartsWith("The messages at this offset were removed: ",
            Assert.Throws<OffsetOutOfRangeException>(use).Message, StringComparison.Ordinal));
    }

    [Fact]
    public void Trim_ReopenedAfterwards_BeginsWhereItWasTrimmed()
    {
        long kept;
        using (MappedFileQueue queue = Open())
        {
            Fill(queue, 300);
            kept = queue.Trim(long.MaxValue);
        }

        using MappedFileQueue again = Open();
        Assert.Equal(kept, again.GetInfo().LogStart);
        Assert.Equal(0, again.Trim(0) - kept);
        again.Producer.Produce(CrashMessage.Make("more", 64));
    }

    /// <summary>
    /// A consumer was opened while its messages were removed: they were there at the first look, and gone at the walk that checks
    /// the stored offset. That counted as damage of the cursor.
    /// </summary>
    [Fact]
    public void Trim_WhileAConsumerIsOpened_ItIsToldThatItsMessagesAreGone()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });
        queue.ResetConsumer("slow", QueueStart.FromOffset(offsets[3]));
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask($"open path={_temp.StorePath}");
        agent.Trap("SegmentInUse", 1, "stop");
        agent.Send("consumer name=slow");
        agent.WaitUntilStopped();

        Assert.True(queue.Trim(long.MaxValue) > offsets[3]);
        agent.Continue();

        Assert.StartsWith($"error {nameof(OffsetOutOfRangeException)}", agent.Answer(), StringComparison.Ordinal);
    }

    /// <summary>
    /// The next removal took the log start for what was done already, and removed files without a record of it on disk: after a
    /// power loss their names, with the bytes of other segments, were part of the log. The model `trim` found it.
    /// </summary>
    [Fact]
    public void Trim_AnotherProcessDiedBehindLogStart_IsCarriedOn()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        PeerAgent.KillRemover(_temp.StorePath, "LogStartRaised");

        Assert.Equal(0, Segments().Min());

        long kept = queue.Trim(0);

        Assert.Equal(offsets[^1] / SegmentLength * SegmentLength, kept);
        Assert.Equal(kept, Segments().Min());
        byte[] record = File.ReadAllBytes(_temp.PathOf(StoreNames.LogStart));
        Assert.Contains(kept, new[] { BitConverter.ToInt64(record), BitConverter.ToInt64(record, 4096) });
    }

    [Fact]
    public void Trim_AnotherProcessDiedAndAConsumerStandsBefore_LogStartGoesBack()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        PeerAgent.KillRemover(_temp.StorePath, "LogStartRaised");

        // As a consumer does that moved back just before the log start was raised.
        File.WriteAllBytes(_temp.PathOf(StoreNames.Cursor("back")), CursorAt(offsets[70]));

        Assert.Equal(offsets[70] / SegmentLength * SegmentLength, queue.Trim(0));

        using MappedFileConsumer back = queue.OpenConsumer("back");
        Assert.Equal(offsets[70], First(back));
    }

    /// <summary>
    /// The next opener believed a log start that was raised and not recorded: a consumer that had moved back just before was
    /// dropped, although nothing was removed, and the segments were left over. The crash laboratory found it.
    /// </summary>
    [Fact]
    public void Open_RemoverDiedBehindLogStart_NothingIsRemoved()
    {
        long[] offsets;
        using (MappedFileQueue queue = Open())
            offsets = Fill(queue, 300);
        PeerAgent.KillRemover(_temp.StorePath, "LogStartRaised");

        File.WriteAllBytes(_temp.PathOf(StoreNames.Cursor("back")), CursorAt(offsets[70]));
        using MappedFileQueue again = Open();

        Assert.Equal(0, again.GetInfo().LogStart);
        using MappedFileConsumer back = again.OpenConsumer("back");
        Assert.Equal(offsets[70], First(back));
    }

    /// <summary>
    /// A consumer moves back, a removal that has read the cursors before raises the log start, and will take it back when it
    /// reads them again. A consumer that looked at the log start in between dropped itself. When the remover died there, it
    /// stayed so until the next removal.
    /// </summary>
    [Theory]
    [InlineData(OutOfRangePolicy.Throw)]
    [InlineData(OutOfRangePolicy.Earliest)]
    public void Read_RemoverDiedBehindLogStart_NothingIsSkipped(OutOfRangePolicy policy)
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        PeerAgent.KillRemover(_temp.StorePath, "LogStartRaised");

        File.WriteAllBytes(_temp.PathOf(StoreNames.Cursor("back")), CursorAt(offsets[70]));

        using MappedFileConsumer back = queue.OpenConsumer("back", new ConsumerOptions { OnOutOfRange = policy });
        Assert.Equal(offsets[70], First(back));
    }

    /// <summary>
    /// A removal confirms what it removes without a flush. A consumer that was still in the segment met a dead process's claim
    /// there, took it for damage, because it was below what was durable, and threw. The crash laboratory found it.
    /// </summary>
    [Fact]
    public void Read_DeadClaimInARemovedSegment_ReadsOnToTheEndOfTheSegment()
    {
        using MappedFileQueue queue = Open();
        using MappedFileConsumer slow = queue.OpenConsumer(
            "slow", new ConsumerOptions { OnOutOfRange = OutOfRangePolicy.Earliest });
        List<MessagesSkippedEventArgs> skipped = [];
        queue.MessagesSkipped += (_, gap) => skipped.Add(gap);
        queue.Producer.Produce(CrashMessage.Make("first", 64));
        First(slow);
        using (PeerAgent agent = PeerAgent.Start())
        {
            agent.Ask($"open path={_temp.StorePath}");
            agent.Trap("Claimed", hit: 1);
            agent.Send("append prefix=x size=64 count=1");
            agent.ExpectKilled();
        }

        long[] offsets = Fill(queue, 300);
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });

        long kept = queue.Trim(long.MaxValue);

        Assert.InRange(kept, SegmentLength, long.MaxValue);
        foreach (long offset in offsets.Where(offset => offset < SegmentLength))
        {
            slow.Advance();
            Assert.Equal(offset, First(slow));
        }

        slow.Advance();
        Assert.Equal(offsets.First(offset => offset >= kept), First(slow));
        Assert.Equal((SegmentLength, kept), (Assert.Single(skipped).Offset, skipped[0].NextOffset));
    }

    /// <summary>
    /// The second look at the cursors may find them further on than the first. A removal that then went further removed what no
    /// sync of the cursors and no the log start had covered: after a power loss the older cursor was before the log. Found while
    /// the crash laboratory let consumers commit between the two.
    /// </summary>
    [Fact]
    public void Trim_ConsumerCommitsBetweenTheLooks_GoesNoFurtherThanLogStartWasRaised()
    {
        using MappedFileQueue queue = Open();
        using MappedFileConsumer slow = queue.OpenConsumer("slow", QueueStart.Earliest);
        Fill(queue, 300);
        CommitMessages(slow, 100);
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask($"open path={_temp.StorePath}");
        agent.Trap("LogStartRaised", hit: 1, "stop");
        agent.Send("trim");
        agent.WaitUntilStopped();
        long raised = queue.GetInfo().LogStart;
        CommitMessages(slow, 150);

        agent.Continue();
        agent.Answer();

        Assert.Equal(raised, queue.GetInfo().LogStart);
    }

    private static void CommitMessages(MappedFileConsumer consumer, int count)
    {
        for (int i = 0; i < count; i++)
        {
            consumer.Consume();
            consumer.Commit();
        }
    }

    /// <summary>A power loss in the middle of SetRetention left the file for good. The crash laboratory found it.</summary>
    [Fact]
    public void Open_UnfinishedPolicy_IsRemoved()
    {
        using (MappedFileQueue queue = Open())
            Fill(queue, 1);
        string path = _temp.PathOf(StoreNames.Retention + ".tmp");
        File.WriteAllBytes(path, [1, 2, 3]);

        using MappedFileQueue again = Open();

        Assert.False(File.Exists(path));
    }

    [Fact]
    public void Trim_NoRecordYet_MakesOneThatSurvivesACut()
    {
        using MappedFileQueue queue = Open();
        Fill(queue, 300);
        File.Delete(_temp.PathOf(StoreNames.LogStart));

        long kept = queue.Trim(long.MaxValue);

        byte[] record = File.ReadAllBytes(_temp.PathOf(StoreNames.LogStart));
        Assert.Contains(kept, new[] { BitConverter.ToInt64(record), BitConverter.ToInt64(record, 4096) });
    }

    private static byte[] CursorAt(long offset)
    {
        byte[] page = new byte[CursorWord.FileLength];
        BitConverter.TryWriteBytes(page, CursorWord.From(offset));
        return page;
    }

    [Fact]
    public void SetRetention_NegativeLimit_ThrowsAndNothingIsStored()
    {
        using MappedFileQueue queue = Open();

        Assert.Throws<ArgumentOutOfRangeException>(() => queue.SetRetention(new RetentionOptions { MaxBytes = -1 }));

        Assert.False(File.Exists(Path.Combine(_temp.StorePath, StoreNames.Retention)));
    }

    private static long First(MappedFileConsumer consumer)
    {
        consumer.Consume();
        return consumer.MessageOffset;
    }

    private static long[] Fill(MappedFileQueue queue, int count) =>
        [.. Enumerable.Range(0, count).Select(i => queue.Producer.Produce(CrashMessage.Make($"m{i}", 64)))];

    private IEnumerable<long> Segments() =>
        from path in Directory.EnumerateFiles(Path.Combine(_temp.StorePath, StoreNames.CommitLog), "*.log")
        select long.Parse(Path.GetFileNameWithoutExtension(path), System.Globalization.CultureInfo.InvariantCulture);

    private MappedFileQueue Open() =>
        new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = SegmentLength });
}
