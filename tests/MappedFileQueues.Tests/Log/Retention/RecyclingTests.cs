using System.Collections.Concurrent;
using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>
/// Files of removed segments that become the next ones: nothing is lost, and nothing old comes back as a message. The messages
/// are full of words that look like headers of messages.
/// </summary>
[Trait("Category", "Slow")]
public sealed class RecyclingTests : IDisposable
{
    private const int SegmentLength = 1 << 20;
    private const int MessageLength = 1000;

    /// <summary>Messages that fill a segment.</summary>
    private const int Round = SegmentLength / (MessageLength + 8);

    private static readonly RetentionOptions s_small = new() { MaxBytes = 2 * SegmentLength };

    private readonly TempStore _temp = new();
    private long _count;

    public static TheoryData<ProducerMode, DurabilityLevel> Modes => new()
    {
        { ProducerMode.Shared, DurabilityLevel.PageCache },
        { ProducerMode.Shared, DurabilityLevel.Interval },
        { ProducerMode.Exclusive, DurabilityLevel.Interval },
        { ProducerMode.Exclusive, DurabilityLevel.PageCache },
        { ProducerMode.Shared, DurabilityLevel.Group },
        { ProducerMode.Exclusive, DurabilityLevel.Group },
    };

    public void Dispose() => _temp.Dispose();

    [Theory, MemberData(nameof(Modes))]
    public void Recycle_ManyRounds_UsesTheSameFilesAndKeepsOrder(ProducerMode mode, DurabilityLevel level)
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open(mode, level);
        queue.SetRetention(s_small);

        for (int i = 0; i < 30; i++)
            AppendRound(queue);

        AssertRecycles(queue);
        // The next segment may be in the making.
        Eventually.True(
            () => Directory.GetFiles(_temp.PathOf(StoreNames.CommitLog), "*.tmp").Length == 0, "no temporary file stays");
        AssertRest(queue);
    }

    /// <summary>
    /// A removal that syncs its record beside a flush of everything took 50 ms. A producer made eight new files meanwhile, so
    /// that a store that keeps 256 MiB took 600.
    /// </summary>
    [Fact]
    public void Recycle_RemovalIsSlow_ProducerWaitsForItsFile()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        ConcurrentQueue<int> counts = [];
        queue.SegmentDeleting += (_, _) =>
        {
            Thread.Sleep(10);
            counts.Enqueue(Directory.GetFiles(_temp.PathOf(StoreNames.CommitLog)).Length);
        };
        queue.SetRetention(new RetentionOptions { MaxBytes = 4 * SegmentLength });

        // Seven; a slow machine may need a few more, and many while its thread of retention does not run: for a producer waits
        // for a fifth of a second at most.
        int most = int.MaxValue;
        for (int attempt = 0; attempt < 20 && most > 12; attempt++)
        {
            counts.Clear();
            for (int i = 0; i < 40; i++)
                Append(queue, Round);
            Eventually.True(() => !counts.IsEmpty, "segments go");
            most = counts.Max();
        }

        Assert.InRange(most, 4, 12);
        AssertRest(queue);
    }

    /// <summary>Of small segments 32 MiB waited to be used again, however little the policy kept.</summary>
    [Fact]
    public void Recycle_PolicyComesLate_TwiceWhatItKeepsIsLeft()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        for (int i = 0; i < 30; i++)
            Append(queue, Round);

        queue.SetRetention(new RetentionOptions { MaxBytes = 4 * SegmentLength });

        Eventually.True(() => queue.GetInfo().LogStart >= queue.Producer.Offset - (4 * SegmentLength), "old segments go");
        Eventually.True(
            () => Directory.GetFiles(_temp.PathOf(StoreNames.CommitLog)).Length <= 8, "most of their files go");
        for (int i = 0; i < 10; i++)
            Append(queue, Round);
        AssertRecycles(queue);
        AssertRest(queue);
    }

    /// <summary>
    /// At this level the preparer syncs the room ahead, which turns allocated blocks into written ones. Those of a recycled
    /// segment are, and a sync would write zeros that the next flush of the messages writes over.
    /// </summary>
    [Fact]
    public void Recycle_Group_RoomAheadIsSyncedInNewFilesAlone()
    {
        WatchedServices watched = WatchedServices.Use(portable: false);
        ConcurrentQueue<bool> syncedAhead = [];
        watched.OnSegmentFlush = name =>
        {
            if (Thread.CurrentThread.Name?.Contains("preparer", StringComparison.Ordinal) == true)
                syncedAhead.Enqueue(new FileInfo(_temp.PathOf(name)).Length > SegmentLength);
        };
        using MappedFileQueue queue = Open(level: DurabilityLevel.Group);
        queue.SetRetention(s_small);

        for (int i = 0; i < 30; i++)
            AppendRound(queue);

        AssertRecycles(queue);
        Assert.Contains(false, syncedAhead);
        Assert.DoesNotContain(true, syncedAhead);
        AssertRest(queue);
    }

    [Fact]
    public void Recycle_IsOff_NoFileIsUsedAgain()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        queue.SetRetention(s_small with { Recycle = false });

        for (int i = 0; i < 10; i++)
            AppendRound(queue);

        Assert.Equal(0, CountRecycled());
        AssertRest(queue);
    }

    [Fact]
    public void Recycle_Portable_NoFileIsUsedAgain()
    {
        PlatformScope.Use(portable: true);
        using MappedFileQueue queue = Open();
        queue.SetRetention(s_small);

        for (int i = 0; i < 10; i++)
            AppendRound(queue);

        Assert.Equal(0, CountRecycled());
        AssertRest(queue);
    }

    [Fact]
    public void Recycle_SpanIsOut_StaysAsItWas()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        queue.SetRetention(s_small with { KeepUnconsumed = false });
        AppendRound(queue);
        using MappedFileConsumer consumer = queue.OpenConsumer("slow", QueueStart.Earliest);
        ReadOnlySpan<byte> span = consumer.Consume();
        byte[] before = span.ToArray();

        for (int i = 0; i < 20; i++)
            AppendRound(queue);

        Assert.True(queue.GetInfo().LogStart > SegmentLength);
        Assert.True(span.SequenceEqual(before));
        Assert.Equal("m0", CrashMessage.Read(span));
        AssertRecycles(queue);
    }

    [Fact]
    public void Recycle_HardLink_ArchiveStaysAsItWas()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        string archive = Path.Combine(_temp.StorePath, "..", "archive");
        Directory.CreateDirectory(archive);
        Dictionary<string, byte[]> contents = [];
        queue.SegmentDeleting += (_, segment) =>
        {
            if (segment.Offset >= 4 * SegmentLength)
                return;
            string link = Path.Combine(archive, Path.GetFileName(segment.Path));
            Link(segment.Path, link);
            contents[link] = File.ReadAllBytes(segment.Path);
        };
        queue.SetRetention(s_small);

        for (int i = 0; i < 20; i++)
            AppendRound(queue);

        Assert.Equal(4, contents.Count);
        Assert.All(contents, pair => Assert.True(File.ReadAllBytes(pair.Key).AsSpan().SequenceEqual(pair.Value)));
        AssertRecycles(queue);
        AssertRest(queue);
    }

    [Fact]
    public void Recycle_AnotherProcessMapsTheSegment_ReadsWhatWasThere()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        queue.SetRetention(s_small with { KeepUnconsumed = false });
        AppendRound(queue);
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask(OpenCommand);
        agent.Ask("consumer name=slow");
        Assert.Equal("m0", agent.Ask("peek"));

        for (int i = 0; i < 20; i++)
            AppendRound(queue);

        // Everything that its segment held, in order, although the file has no name any more.
        string[] texts = agent.Ask($"consume commit=0 count={Round}").Split(' ');
        Assert.Equal(Enumerable.Range(0, Round).Select(i => $"m{i}"), texts);
        AssertRecycles(queue);
    }

    /// <summary>
    /// What waits takes the room that the disk is short of, and each look removed one more segment without making any.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Recycle_DiskIsShortOrRecyclingIsTurnedOff_NoFileWaits(bool isShort)
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        queue.SetRetention(s_small);
        for (int i = 0; i < 6; i++)
            AppendRound(queue);
        string spare = _temp.PathOf(StoreNames.Spare(0));
        File.WriteAllBytes(spare, new byte[SegmentLength]);

        queue.SetRetention(isShort ? s_small with { MinFreeBytes = long.MaxValue } : s_small with { Recycle = false });

        Eventually.True(() => !File.Exists(spare), "the file that waits goes");
        for (int i = 0; i < 6; i++)
            AppendRound(queue);
        Assert.Equal(0, CountRecycled());
        AssertRest(queue);
    }

    /// <summary>
    /// A Portable process cannot mark what it maps. One that attached between the maker's look for such processes and its lock on
    /// the file may have mapped the segment that the file was. Only the makers wait: in a process that was stopped as a whole,
    /// the retention thread kept `open` now and then.
    /// </summary>
    [Fact]
    public void Recycle_PortableProcessAttachesMeanwhile_FileIsNotUsedAgain()
    {
        PlatformScope.Use(portable: false);
        using (MappedFileQueue queue = Open())
            queue.SetRetention(s_small);
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask(OpenCommand);
        string attached = Path.Combine(_temp.Root, "attached");
        agent.HoldAt("SpareTaken", attached);
        agent.Send($"append prefix=m size={MessageLength} count={10 * Round}");
        agent.WaitUntilHeld();

        PlatformScope.Use(portable: true);
        using MappedFileQueue portable = Open();
        // What was made of the file must not be removed before it is counted.
        portable.SetRetention(new RetentionOptions());
        File.WriteAllBytes(attached, []);
        agent.Answer();

        Assert.Equal(0, CountRecycled());
        AssertRun(ReadAll(portable), "m-");
    }

    public static TheoryData<string, int> Kills => new()
    {
        { "LogStartRaised", 3 },
        { "LogStartRecorded", 3 },
        { "SegmentDeleted", 3 },
        { "SpareTaken", 2 },
        { "SpareTaken", 1 },
        { "SpareZeroed", 2 },
        { "SpareZeroed", 1 },
        { "SegmentRenamed", 9 },
        { "ZeroingBegun", 2 },
        { "RecycledZeroed", 1 },
        { "RecycledZeroed", 4 },
        { "RecycledZeroed", 7 },
    };

    [Theory, MemberData(nameof(Kills))]
    public void Recycle_KilledAtAStep_NothingIsLostAndNothingIsLeftOver(string step, int hit)
    {
        PlatformScope.Use(portable: false);
        using (MappedFileQueue queue = Open())
            queue.SetRetention(s_small);
        int acked;
        using (PeerAgent agent = PeerAgent.Start())
        {
            agent.Ask(OpenCommand);
            agent.Trap(step, hit);
            agent.Send($"append prefix=m size={MessageLength} count={60 * Round}");
            agent.ExpectKilled();
            acked = agent.AckedCount;
        }

        // Otherwise the queue that looks applies it at once, and has spares of its own.
        File.Delete(_temp.PathOf(StoreNames.Retention));
        using MappedFileQueue after = Open();

        Assert.All(Directory.GetFiles(_temp.PathOf(StoreNames.CommitLog)), path => Assert.EndsWith(".log", path));
        after.SetRetention(s_small);
        List<int> numbers = ReadNumbers(after);
        Assert.InRange(numbers[^1], acked - 1, acked);
        Assert.Equal(Enumerable.Range(numbers[0], numbers.Count), numbers);
        Assert.True(numbers.Count >= Round, $"{numbers.Count} messages are left");
        _count = numbers[^1] + 1;
        for (int i = 0; i < 5; i++)
            AppendRound(after);
        AssertRest(after);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(5)]
    public void Recycle_ZeroerStandsStill_OthersGoOnInTheNextSegment(int hit)
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        queue.SetRetention(s_small with { MaxBytes = 40 * SegmentLength });
        // Before the other process stands still: it may hold the `open` lock then, which a new producer needs.
        _ = queue.Producer;
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask(OpenCommand);
        agent.Trap("RecycledZeroed", hit, "stop");
        // 25 segments go, so that some are used again however late the threads of retention are; and what comes after the stop
        // leaves all that is appended here.
        agent.Send($"append prefix=m size={MessageLength} count={65 * Round}");
        agent.WaitUntilStopped();
        long stopped = queue.GetInfo().TailOffset;

        for (int i = 0; i < 5 * Round; i++)
            queue.Producer.Produce(CrashMessage.Make(string.Create(CultureInfo.InvariantCulture, $"ours-{i}"), MessageLength));
        agent.Continue();
        agent.Answer();
        queue.Producer.Produce(CrashMessage.Make("last", MessageLength));

        Assert.True(queue.Producer.Offset > stopped + (5 * SegmentLength));
        List<string> texts = ReadAll(queue);
        Assert.Equal("last", texts[^1]);
        AssertRun(texts, "m-");
        AssertRun(texts, "ours-");
    }

    [Fact]
    public void Recycle_StoreIsReopenedInTheMiddle_OldBytesAreNoMessages()
    {
        PlatformScope.Use(portable: false);
        for (int i = 0; i < 12; i++)
        {
            using MappedFileQueue queue = Open();
            queue.SetRetention(s_small);
            AppendRound(queue);
            AppendRound(queue, 3);
            AssertRest(queue);
        }
    }

    private static void Link(string from, string to)
    {
        using var process = System.Diagnostics.Process.Start("ln", [from, to]);
        process.WaitForExit();
        Assert.Equal(0, process.ExitCode);
    }

    private string OpenCommand =>
        string.Create(CultureInfo.InvariantCulture, $"open path={_temp.StorePath} segment={SegmentLength}");

    private MappedFileQueue Open(
        ProducerMode mode = ProducerMode.Shared,
        DurabilityLevel level = DurabilityLevel.PageCache) => new(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            SegmentSize = SegmentLength,
            ProducerMode = mode,
            Durability = level,
        });

    /// <summary>Fills a segment, or a part of it; then waits until the policy is fulfilled.</summary>
    private void AppendRound(MappedFileQueue queue, int part = 1)
    {
        Append(queue, Round / part);
        long tail = queue.Producer.Offset / SegmentLength * SegmentLength;
        Eventually.True(() => queue.GetInfo().LogStart >= Math.Max(0, tail - SegmentLength), "the oldest segments go");
    }

    private void Append(MappedFileQueue queue, int count)
    {
        const int batchLength = 20;
        for (int i = 0; i < count; i += batchLength)
            queue.Producer.ProduceBatch([.. Enumerable.Range(0, batchLength).Select(_ => NextMessage())]);
    }

    private ReadOnlyMemory<byte> NextMessage() =>
        CrashMessage.Make(string.Create(CultureInfo.InvariantCulture, $"m{_count++}"), MessageLength);

    /// <summary>A file may be removed, or get another name, after it was listed: one look tells both.</summary>
    private int CountRecycled() => new DirectoryInfo(_temp.PathOf(StoreNames.CommitLog)).EnumerateFiles("*.log")
        .Count(file => file.Exists && file.Length > SegmentLength);

    /// <summary>A producer that waited for a file for too long has made a new one, also of the last few segments.</summary>
    private void AssertRecycles(MappedFileQueue queue)
    {
        for (int i = 0; i < 100 && CountRecycled() == 0; i++)
            Append(queue, Round);
        Assert.True(CountRecycled() > 0);
    }

    /// <summary>Everything from some message on is there, in order.</summary>
    private void AssertRest(MappedFileQueue queue)
    {
        List<int> numbers = ReadNumbers(queue);
        Assert.Equal(_count - 1, numbers[^1]);
        Assert.Equal(Enumerable.Range(numbers[0], numbers.Count), numbers);
    }

    private static List<int> ReadNumbers(MappedFileQueue queue) =>
        [.. ReadAll(queue).Select(text => int.Parse(text.AsSpan(1).TrimStart('-'), CultureInfo.InvariantCulture))];

    private static void AssertRun(List<string> texts, string prefix)
    {
        List<int> numbers =
        [
            .. texts.Where(text => text.StartsWith(prefix, StringComparison.Ordinal))
                .Select(text => int.Parse(text.AsSpan(prefix.Length), CultureInfo.InvariantCulture)),
        ];
        Assert.NotEmpty(numbers);
        Assert.Equal(Enumerable.Range(numbers[0], numbers.Count), numbers);
    }

    private static List<string> ReadAll(MappedFileQueue queue)
    {
        while (true)
        {
            try
            {
                return TryReadAll(queue);
            }
            catch (OffsetOutOfRangeException)
            {
                // The policy is still being applied, and took the segment before the reader. It ends by itself.
            }
        }
    }

    private static List<string> TryReadAll(MappedFileQueue queue)
    {
        using MappedFileReader reader = MappedFileReader.Open(queue.GetInfo().StorePath);
        List<string> texts = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            texts.Add(CrashMessage.Read(message));
        return texts;
    }
}
