using System.Diagnostics;
using MappedFileQueues.Format.Index;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Index;

/// <summary>What the leaders of flushes write into the index, and what others find there.</summary>
public sealed class IndexKeeperTests
{
    [Fact]
    public void Flush_MoreThanAStep_WritesAnEntryForEachEdge()
    {
        using IndexedStore store = new();
        store.Fill(400);
        (List<IndexEntry> entries, _, IndexPage page) = store.ReadIndex();

        long last = store.Queue.GetInfo().PublishedOffset;
        Assert.Equal(
            Enumerable.Range(0, (int)page.StepOf(last - 1) + 1), entries.Select(entry => (int)page.StepOf(entry.Offset)));
        foreach (IndexEntry entry in entries)
        {
            // The first frame that begins in the step; the padding at a segment's end is one too.
            long edge = page.StepOf(entry.Offset) << page.StepBits;
            Assert.DoesNotContain(store.Offsets, offset => offset >= edge && offset < entry.Offset);
            Assert.Equal(store.Offsets.Count(offset => offset < entry.Offset), entry.Number);
            Assert.Equal(
                entry.Number == 0 ? null : store.Times[..(int)entry.Number].Max(), entry.AsTime());
        }
    }

    /// <summary>
    /// A power loss takes what is not on disk, so an entry for it would speak of a log that is gone. Each time when a sync begins
    /// or an entry is about to be written, what is in the file is durable.
    /// </summary>
    [Fact]
    public void Flush_AtEachSyncAndWrite_NoEntryIsAboveTheDurableOffset()
    {
        using IndexedStore store = new();
        FaultyDisk disk = new();
        store.Close();
        store.Open(options => options.Platform = disk);
        int looks = 0;
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Sync && name != "offset/index")
                return;
            looks++;
            (List<IndexEntry> entries, IndexEntry? counted, _) = store.ReadIndex();
            Assert.All(entries, entry => Assert.True(entry.Offset < store.Queue.ConfirmedOffset));
            Assert.True(counted is null || counted.Value.Offset <= store.Queue.ConfirmedOffset);
        };
        store.Fill(600);

        Assert.True(looks > 12, $"looks={looks}");
        disk.Before = null;
        Assert.True(store.ReadIndex().Entries.Count > 10);
    }

    /// <summary>The count at the durable offset is known to one of the two, and every other flush is the other one's.</summary>
    [Fact]
    public void Flush_TwoQueuesInTurn_NumbersAreRight()
    {
        using IndexedStore store = new();
        using (var other = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.Temp.StorePath,
            Durability = DurabilityLevel.PageCache,
            TimeProvider = store.Time,
        }))
        {
            for (int i = 0; i < 300; i++)
            {
                MappedFileQueue queue = i % 2 == 0 ? store.Queue : other;
                store.Produce(200, queue);
                store.Produce(10, queue);
                store.Flush(queue);
                if (i % 50 == 0)
                    store.CheckNumbers(5, new Random(i));
            }
        }

        // The end of one has counted what both had flushed.
        (List<IndexEntry> entries, IndexEntry? counted, _) = store.ReadIndex();
        Assert.Equal(600, counted?.Number);
        Assert.True(entries.Count > 15, $"entries={entries.Count}");
        store.Fill(100);
        store.Close();
        Assert.Equal(700, store.ReadIndex().Counted?.Number);
        store.CheckNumbers(20, new Random(1));
    }

    /// <summary>The ring covers 16 steps; the log that is kept grows to 200, then is cut down.</summary>
    [Fact]
    public void Flush_LogLongerThanTheRing_DoublesTheStep()
    {
        using IndexedStore store = new(countBits: 4);
        store.Fill(2000, length: 392, flushEvery: 7);
        (List<IndexEntry> entries, _, IndexPage page) = store.ReadIndex();

        Assert.InRange(page.StepBits, 16, 17);
        Assert.True(entries.Count >= 6, $"entries={entries.Count}");
        Assert.All(entries, entry => Assert.Equal(store.Offsets.Count(offset => offset < entry.Offset), entry.Number));
        store.CheckNumbers(50, new Random(1));
        store.Queue.Trim(20 * IndexedStore.SegmentSize);
        store.CheckNumbers(50, new Random(2));
        Assert.Equal(0, store.Queue.GetInfo().NumberedFrom);
    }

    [Fact]
    public void Snapshot_OfPartOfTheLog_HasTheNumbersUpToItsEnd()
    {
        using IndexedStore store = new();
        store.Fill(600);
        store.Queue.Trim(IndexedStore.SegmentSize);
        string target = Path.Combine(store.Temp.Root, "snapshot");
        long end = store.Queue.Snapshot(target);
        int first = store.Offsets.FindIndex(offset => offset >= IndexedStore.SegmentSize);

        using MappedFileReader reader = MappedFileReader.Open(target);
        Assert.Equal(600, reader.FindNumber(end));
        Assert.Equal(store.Offsets[first], reader.FindOffset(first));
        MappedFileQueueInfo info = reader.GetInfo(countsMessages: true);
        Assert.Equal(0, info.NumberedFrom);
        Assert.Equal(600 - first, info.MessageCount);
    }

    [Fact]
    public void ClearFrom_EntriesBeyondATail_AreGoneAndOthersStay()
    {
        using IndexedStore store = new();
        store.Fill(400);
        store.Close();
        List<IndexEntry> before = store.ReadIndex().Entries;
        long tail = before[5].Offset;
        using (HeldDirectory directory = store.OpenDirectory())
        using (IndexFile file = IndexFile.TryOpen(directory, StoreMetaFile.Read(directory)!, FileOpening.ReadWrite)!)
            file.ClearFrom(tail);

        (List<IndexEntry> entries, IndexEntry? counted, _) = store.ReadIndex();
        Assert.Equal(before[..5], entries);
        Assert.Null(counted);
    }

    /// <summary>An index that cannot be written is no reason for a flush to fail.</summary>
    [Fact]
    public void Flush_IndexIsAFolder_FlushesAndCountsByWalking()
    {
        using IndexedStore store = new();
        store.Close();
        File.Delete(store.IndexPath);
        Directory.CreateDirectory(store.IndexPath);
        store.Open();
        store.Fill(200);

        Assert.Equal(store.Queue.GetInfo().PublishedOffset, store.Queue.ConfirmedOffset);
        store.CheckNumbers(20, new Random(1));
        store.Close();
        Assert.Equal(200, StoreInspector.Inspect(store.Temp.StorePath, countsMessages: true).MessageCount);
    }

    /// <summary>The background of a queue takes up what others have left, in pieces, and comes to an end.</summary>
    [Fact]
    public void Background_StoreWithoutAnIndex_CountsAllOfIt()
    {
        using TempStore temp = new();
        MappedFileQueueOptions options = new() { StorePath = temp.StorePath, FlushInterval = TimeSpan.FromMilliseconds(20) };
        using (var queue = new MappedFileQueue(options))
        {
            byte[] message = new byte[1000];
            for (int i = 0; i < 9000; i++)
                queue.Producer.Produce(message);
        }

        string path = temp.PathOf("offset", "index");
        File.Delete(path);
        using (var queue = new MappedFileQueue(options))
        {
            Eventually.True(
                () => File.Exists(path) && new FileInfo(path).Length > IndexPage.Length + (5 * IndexEntry.Length),
                "the index is there again");
            Assert.Equal(9000, queue.GetInfo(countsMessages: true).MessageCount);
            Assert.Equal(8191, queue.FindNumber(queue.FindOffset(8191)));
        }
    }

    /// <summary>
    /// The index of a backup may be younger than its log. The copy gives the offsets after its end to other messages, so the
    /// entries for them would count what only the original has.
    /// </summary>
    [Fact]
    public void Open_CopyWithAYoungerIndex_CountsItsOwnMessages()
    {
        using IndexedStore store = new();
        store.Fill(200);
        store.Close();
        string copy = Path.Combine(store.Temp.Root, "copy");
        using (Process cp = Process.Start("cp", ["-a", store.Temp.StorePath, copy]))
            cp.WaitForExit();
        store.Open();
        store.Fill(200);
        store.Close();
        File.Copy(store.IndexPath, Path.Combine(copy, "offset", "index"), overwrite: true);

        long last = 0;
        using (var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = copy,
            SegmentSize = IndexedStore.SegmentSize,
            Durability = DurabilityLevel.PageCache,
        }))
        {
            // Frames of the same length, so that they begin where those of the original do.
            for (int i = 0; i < 30; i++)
                queue.Producer.DangerousClaim(100).Dispose();
            for (int i = 0; i < 170; i++)
                last = queue.Producer.Produce(new byte[100]);
            Assert.Equal(369, queue.FindNumber(last));
            queue.Flush();
            Assert.Equal(369, queue.FindNumber(last));
        }

        using MappedFileReader reader = MappedFileReader.Open(copy);
        Assert.Equal(369, reader.FindNumber(last));
        Assert.Equal(last, reader.FindOffset(369));
    }

    /// <summary>Three processes lead flushes as it comes; each counts where it can, and the numbers are a walk's.</summary>
    [Fact]
    [Trait("Category", "Slow")]
    public void Flush_SeveralProcesses_NumbersAreThoseOfAWalk()
    {
        const int count = 30_000;
        using TempStore temp = new();
        MappedFileQueueOptions options = new() { StorePath = temp.StorePath, FlushInterval = TimeSpan.FromMilliseconds(5) };
        string[] arguments = ["produce", temp.StorePath, "--messages", $"{count}", "--size", "200"];
        using (var queue = new MappedFileQueue(options))
        {
            using ChildProcess one = ChildProcess.StartTool(arguments);
            using ChildProcess other = ChildProcess.StartTool(arguments);
            for (int i = 0; i < count; i++)
                queue.Producer.Produce(new byte[30]);
            one.ExpectExit();
            other.ExpectExit();
        }

        MappedFileQueueInfo info = StoreInspector.Inspect(temp.StorePath, countsMessages: true);
        Assert.Equal(3 * count, info.MessageCount);
        using MappedFileReader reader = MappedFileReader.Open(temp.StorePath);
        long[] numbers = [.. Enumerable.Range(1, 40).Select(i => i * 2L * count / 41)];
        long[] offsets = [.. numbers.Select(reader.FindOffset)];
        Assert.Equal(numbers, offsets.Select(reader.FindNumber));
        File.Delete(temp.PathOf("offset", "index"));
        Assert.Equal(offsets, numbers.Select(reader.FindOffset));
    }
}
