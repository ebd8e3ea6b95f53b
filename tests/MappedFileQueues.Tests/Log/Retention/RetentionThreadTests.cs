using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>What a store's policy removes, when, and who notices.</summary>
public sealed class RetentionThreadTests : IDisposable
{
    private const int SegmentLength = 4096;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void MaxBytes_ManySegments_KeepsAsManyAsTheyAre()
    {
        using MappedFileQueue queue = Open();
        queue.SetRetention(new RetentionOptions { MaxBytes = 5 * SegmentLength });

        Fill(queue, 1000);

        Eventually.Equal(5 * SegmentLength, () => Tail(queue) - queue.GetInfo().LogStart);
        Eventually.Equal(queue.GetInfo().LogStart, () => Segments().Min());
    }

    /// <summary>
    /// The remedy for a full disk was a policy, and the disk had no room for the policy's file. So what the policy removes comes
    /// first, by the rules of the new one: a consumer that nobody starts any more keeps nothing.
    /// </summary>
    [Fact]
    public void SetRetention_DiskIsFull_MakesRoomFirst()
    {
        var disk = new FaultyDisk();
        using MappedFileQueue queue = Open();
        queue.OpenConsumer("dead", QueueStart.Earliest).Dispose();
        long[] offsets = Fill(queue, 300);
        disk.Before = (call, name) =>
        {
            bool isPolicy = call == DiskCall.Write && name.StartsWith(StoreNames.Retention, StringComparison.Ordinal);
            if (isPolicy && Segments().Contains(0))
                throw DiskErrors.Make("Cannot write", name, DiskErrors.ENOSPC, "No space left on device");
        };
        Assert.Throws<QueueDiskException>(() => queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength }));

        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength, KeepUnconsumed = false });

        disk.Before = null;
        Assert.Equal(StartOf(offsets[^1]), queue.GetInfo().LogStart);
        Assert.Equal(SegmentLength, queue.GetInfo().Retention!.MaxBytes);
    }

    [Fact]
    public void MaxBytes_LessThanASegment_KeepsTheCurrentOne()
    {
        using MappedFileQueue queue = Open();
        queue.SetRetention(new RetentionOptions { MaxBytes = 1 });

        long[] offsets = Fill(queue, 300);

        Eventually.Equal(StartOf(offsets[^1]), () => queue.GetInfo().LogStart);
        using MappedFileConsumer consumer = queue.OpenConsumer("late", QueueStart.Earliest);
        Assert.Equal("m299", ReadAll(consumer)[^1]);
    }

    [Fact]
    public void MaxAge_CompletedSegments_GoWhenTheyAreOld()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        queue.SetRetention(new RetentionOptions { MaxAge = TimeSpan.FromHours(2) });
        Assert.Equal(0, queue.GetInfo().LogStart);

        // Each time: the preparer may be late and still touch pages.
        Eventually.Equal(StartOf(offsets[150]), () =>
        {
            foreach (long start in Segments().Where(start => start < StartOf(offsets[150])))
                TryMakeOld(_temp.PathOf(StoreNames.Segment(start)));
            return queue.GetInfo().LogStart;
        });
    }

    /// <summary>
    /// A file system notices a store into a mapped page only when the page was clean before. A segment that was filled slowly,
    /// over pages that were ready long ago, was as old as these when it was completed, and went at once.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void MaxAge_PagesWereTouchedLongBefore_CountsFromTheCompletion(bool portable)
    {
        PlatformScope.Use(portable);
        using MappedFileQueue queue = Open();
        Fill(queue, 10);
        string first = _temp.PathOf(StoreNames.Segment(0));
        TryMakeOld(first);

        Fill(queue, 100);

        Assert.InRange(File.GetLastWriteTimeUtc(first), DateTime.UtcNow.AddHours(-1), DateTime.UtcNow.AddHours(1));
    }

    [Fact]
    public void MinFreeBytes_MoreThanTheDiskHas_KeepsTheCurrentSegment()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);

        queue.SetRetention(new RetentionOptions { MinFreeBytes = long.MaxValue });

        Eventually.Equal(StartOf(offsets[^1]), () => queue.GetInfo().LogStart);
    }

    [Fact]
    public void MinFreeBytes_DiskHasMore_KeepsAll()
    {
        using MappedFileQueue queue = Open();
        Fill(queue, 300);
        queue.SetRetention(new RetentionOptions { MinFreeBytes = 1, MaxBytes = 1 << 30 });

        Assert.Equal(0, queue.Trim(0));
        Assert.Equal(0, queue.GetInfo().LogStart);
    }

    [Fact]
    public void KeepUnconsumed_ConsumerBehind_HoldsBackAndInfoSaysWho()
    {
        using MappedFileQueue queue = Open();
        using MappedFileConsumer billing = queue.OpenConsumer("billing", QueueStart.Earliest);
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });
        long[] offsets = Fill(queue, 300);

        MappedFileQueueInfo info = queue.GetInfo();

        Assert.Equal(0, info.LogStart);
        Assert.Equal("billing", info.RetentionHeldBy);
        Assert.Equal(StartOf(offsets[^1]), info.RetentionHeldBytes);
        Assert.Equal(SegmentLength, info.Retention!.MaxBytes);
        Assert.Equal(300, ReadAll(billing).Count);
        Eventually.Equal(StartOf(offsets[^1]), () => queue.GetInfo().LogStart);
        Assert.Null(queue.GetInfo().RetentionHeldBy);
    }

    [Fact]
    public void UnconsumedBytesMax_ConsumerFurtherBehind_IsDropped()
    {
        using MappedFileQueue queue = Open();
        using MappedFileConsumer near = queue.OpenConsumer("near", QueueStart.Earliest);
        using MappedFileConsumer far = queue.OpenConsumer("far", QueueStart.Earliest);
        long[] offsets = Fill(queue, 300);
        for (int i = 0; i < 200; i++)
        {
            near.Consume();
            near.Commit();
        }

        queue.SetRetention(new RetentionOptions
        {
            MaxBytes = SegmentLength,
            UnconsumedBytesMax = Tail(queue) - near.CommittedOffset,
        });

        Eventually.Equal(StartOf(near.CommittedOffset), () => queue.GetInfo().LogStart);
        Assert.Throws<OffsetOutOfRangeException>(() => far.Consume().Length);
        Assert.Equal("near", queue.GetInfo().RetentionHeldBy);
        Assert.Equal(100, ReadAll(near).Count);
        Assert.Equal(offsets[^1], near.MessageOffset);
    }

    [Fact]
    public void SegmentDeleting_EachSegment_IsToldOfOnceBeforeItGoes()
    {
        using MappedFileQueue queue = Open();
        List<SegmentDeletingEventArgs> told = [];
        queue.SegmentDeleting += (_, segment) =>
        {
            lock (told)
                told.Add(segment);
            Assert.True(File.Exists(segment.Path));
        };
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });

        long[] offsets = Fill(queue, 300);

        Eventually.Equal(StartOf(offsets[^1]), () => queue.GetInfo().LogStart);
        long next = 0;
        Assert.All(told, segment =>
        {
            Assert.Equal(next, segment.Offset);
            next = segment.EndOffset;
        });
        Assert.Equal(StartOf(offsets[^1]), next);
    }

    [Fact]
    public void SegmentDeleting_HandlerThrows_KeepsTheSegmentUntilItDoesNot()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        bool isBroken = true;
        queue.SegmentDeleting += (_, segment) =>
        {
            if (isBroken && segment.Offset == 2 * SegmentLength)
                throw new InvalidOperationException("the archive is full");
        };

        Assert.Throws<InvalidOperationException>(() => queue.Trim(long.MaxValue));
        Assert.Equal(0, queue.GetInfo().LogStart);
        isBroken = false;

        Assert.Equal(StartOf(offsets[^1]), queue.Trim(long.MaxValue));
    }

    [Fact]
    public void SetRetention_HandlerThrowsInTheBackground_QueueGoesOn()
    {
        using MappedFileQueue queue = Open();
        int calls = 0;
        queue.SegmentDeleting += (_, _) =>
        {
            if (Interlocked.Increment(ref calls) < 3)
                throw new InvalidOperationException("the archive is full");
        };
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });

        long[] offsets = Fill(queue, 300);

        Eventually.Equal(StartOf(offsets[^1]), () => queue.GetInfo().LogStart);
    }

    [Fact]
    public void Policy_OnlyAConsumerIsAttached_IsApplied()
    {
        long[] offsets;
        using (MappedFileQueue queue = Open())
        {
            offsets = Fill(queue, 300);
            using MappedFileConsumer consumer = queue.OpenConsumer("slow", QueueStart.Earliest);
            queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });
        }

        using MappedFileQueue reopened = Open();
        using MappedFileConsumer slow = reopened.OpenConsumer("slow");
        Assert.Equal(300, ReadAll(slow).Count);

        Eventually.Equal(StartOf(offsets[^1]), () => reopened.GetInfo().LogStart);
    }

    [Fact]
    public void Policy_SetByAnotherProcess_IsAppliedByALaterOpener()
    {
        long[] offsets;
        using (MappedFileQueue queue = Open())
        {
            offsets = Fill(queue, 300);
            queue.SegmentDeleting += (_, _) => throw new InvalidOperationException("not now");
            queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });
        }

        using MappedFileQueue later = Open();

        Eventually.Equal(StartOf(offsets[^1]), () => later.GetInfo().LogStart);
    }

    [Fact]
    public void Policy_FileIsDamaged_NothingIsRemovedUntilItIsSetAgain()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        queue.SetRetention(new RetentionOptions());
        byte[] bytes = File.ReadAllBytes(_temp.PathOf(StoreNames.Retention));
        bytes[20] ^= 1;
        File.WriteAllBytes(_temp.PathOf(StoreNames.Retention), bytes);

        Assert.Throws<QueueFormatException>(() => queue.Trim(long.MaxValue));
        Assert.Null(queue.GetInfo().Retention);
        Assert.True(queue.GetInfo().IsRetentionDamaged);
        Assert.Equal(0, queue.GetInfo().LogStart);
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });
        Assert.False(queue.GetInfo().IsRetentionDamaged);

        Eventually.Equal(StartOf(offsets[^1]), () => queue.GetInfo().LogStart);
    }

    /// <summary>
    /// A look read the policy and continued with it after another one was set: what the new one keeps was removed once the call
    /// had returned.
    /// </summary>
    [Fact]
    public void SetRetention_WhileARemovalIsUnderWay_RemovesNoMoreByTheOneBefore()
    {
        using MappedFileQueue queue = Open();
        long[] offsets = Fill(queue, 300);
        int calls = 0;
        queue.SegmentDeleting += (_, _) =>
        {
            if (Interlocked.Increment(ref calls) == 1)
                queue.SetRetention(new RetentionOptions { MaxAge = TimeSpan.FromDays(1) });
        };

        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentLength });

        Eventually.True(() => Volatile.Read(ref calls) > 0, "the first policy is applied");
        // It waits for the look under way.
        Assert.Equal(0, queue.Trim(0));
        Assert.Equal(StartOf(offsets[^1]), queue.Trim(long.MaxValue));
    }

    /// <summary>The thread began with the policy that the store had, before it was replaced by the one of the options.</summary>
    [Fact]
    public void Open_PolicyKeepsMoreThanTheOldOne_RemovesNothing()
    {
        using (MappedFileQueue queue = Open())
            Fill(queue, 300);
        Guid storeId = StoreInspector.Inspect(_temp.StorePath).StoreId;
        using (HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, false, null)!)
            RetentionFile.Write(directory, storeId, new RetentionOptions { MaxBytes = SegmentLength });

        using MappedFileQueue opened = new(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            SegmentSize = SegmentLength,
            Retention = new RetentionOptions { MaxBytes = 1 << 30 },
        });

        Assert.Equal(0, opened.Trim(0));
    }

    [Fact]
    public void SetRetention_AllOptions_AreReadBack()
    {
        var policy = new RetentionOptions
        {
            MaxBytes = 1L << 40,
            MaxAge = TimeSpan.FromDays(30),
            MinFreeBytes = 5,
            KeepUnconsumed = false,
            UnconsumedBytesMax = 1L << 41,
            Recycle = false,
        };
        using MappedFileQueue queue = Open();

        queue.SetRetention(policy);

        Assert.Equal(policy, queue.GetInfo().Retention);
        Assert.Equal(policy, StoreInspector.Inspect(_temp.StorePath).Retention);
    }

    private static void TryMakeOld(string path)
    {
        try
        {
            File.SetLastWriteTimeUtc(path, DateTime.UtcNow.AddHours(-3));
        }
        catch (FileNotFoundException)
        {
            // It is gone, as it should.
        }
    }

    private static List<string> ReadAll(MappedFileConsumer consumer)
    {
        List<string> texts = [];
        while (consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            texts.Add(CrashMessage.Read(message));
            consumer.Commit();
        }

        return texts;
    }

    private static long[] Fill(MappedFileQueue queue, int count) =>
        [.. Enumerable.Range(0, count).Select(i => queue.Producer.Produce(CrashMessage.Make($"m{i}", 64)))];

    private static long StartOf(long offset) => offset / SegmentLength * SegmentLength;

    /// <summary>The end of the current segment.</summary>
    private static long Tail(MappedFileQueue queue) => StartOf(queue.Producer.Offset) + SegmentLength;

    private string[] CommitLogFiles() => Directory.GetFiles(_temp.PathOf(StoreNames.CommitLog));

    private IEnumerable<long> Segments() =>
        from path in CommitLogFiles()
        where path.EndsWith(".log", StringComparison.Ordinal)
        select long.Parse(Path.GetFileNameWithoutExtension(path), System.Globalization.CultureInfo.InvariantCulture);

    private MappedFileQueue Open() =>
        new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = SegmentLength });
}
