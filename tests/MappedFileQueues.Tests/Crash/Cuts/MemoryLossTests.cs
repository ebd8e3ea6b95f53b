using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// A file system that failed, was unmounted and mounted again in the same boot has lost what was not flushed. Recovery looked at
/// boot and poison only and called it deaths: a cursor was above the tail, and skipped new messages once the log had come up to
/// it; what an older page still held came back behind new messages; half a message was in the log. docs/DESIGN.md section 3.
/// Real processes of a real file system: <see cref="LostFileSystemTests"/>.
/// </summary>
[Trait("Category", "Slow")]
public sealed unsafe class MemoryLossTests : IDisposable
{
    private const int Count = 40;

    private readonly CrashStore _store = new(65536);
    private readonly List<long> _offsets = [];

    public void Dispose() => _store.Dispose();

    /// <summary>The cursor is an older one than the log of the page cache, and newer than the log on the disk.</summary>
    [Fact]
    public void Open_CursorBeyondTheTail_CutsAndNewMessagesAreAllRead()
    {
        Fill();
        using (MappedFileQueue queue = _store.Open())
            queue.OpenConsumer("ahead", QueueStart.Latest).Dispose();
        Lose(from: 10);
        SetHint(_offsets[10]);

        using MappedFileQueue again = _store.Open();
        ExpectCutAt(again, 10);
        using MappedFileConsumer ahead = again.OpenConsumer("ahead");
        Assert.Equal(_offsets[10], ahead.Offset);
        string[] added = [.. Enumerable.Range(0, 2 * Count).Select(i => $"new-{i}")];
        CrashStore.Append(again, added);
        foreach (string expected in added)
        {
            Assert.True(ahead.TryConsume(out ReadOnlySpan<byte> message));
            Assert.Equal(expected, CrashMessage.Read(message));
            ahead.Commit();
        }
    }

    [Fact]
    public void Open_TailHintBeyondTheTail_Cuts()
    {
        Fill();
        Lose(from: 10);
        SetHint(_offsets[20]);
        using MappedFileQueue queue = _store.Open();
        ExpectCutAt(queue, 10);
    }

    [Fact]
    public void Open_ConfirmedBeyondTheTailAndNothingBehind_Cuts()
    {
        Fill(flushed: 20);
        Lose(from: 10);
        SetHint(0);
        using MappedFileQueue queue = _store.Open();
        ExpectCutAt(queue, 10);
    }

    /// <summary>One page of the middle is missing, and the hint is older than it.</summary>
    [Fact]
    public void Open_MessagesBehindTheTail_AreSetAsideAndNeverComeBack()
    {
        Fill();
        using (var words = new StoreWords(_store.Path))
            words.WriteAt(_offsets[10], new byte[8]);
        SetHint(0);

        using MappedFileQueue queue = _store.Open();
        ExpectCutAt(queue, 10);
        CrashStore.Append(queue, "new");
        Assert.Equal([.. Names(10), "new"], _store.Peek());
        Assert.Single(Directory.GetFiles(Path.Combine(_store.Path, "salvage")));
    }

    /// <summary>The header's page was written, the payload's was not.</summary>
    [Theory]
    [InlineData(0x55, 12)]
    [InlineData(0x70, 3)]
    public void Open_BadFrameThatWasNeverFlushed_EndsTheLog(byte damage, int place)
    {
        Fill();
        Damage(10, damage, place);
        using MappedFileQueue queue = _store.Open();
        ExpectCutAt(queue, 10);
    }

    [Fact]
    public void Open_HalfABatch_EndsTheLogBeforeIt()
    {
        long batch, end;
        using (MappedFileQueue queue = _store.Open())
        {
            CrashStore.Append(queue, "before");
            using MappedFileProducer producer = queue.OpenProducer();
            batch = producer.ProduceBatch(CrashUnits.MakeBatch("b", 64));
            end = producer.Offset;
        }

        using (var words = new StoreWords(_store.Path))
        {
            words.ResetCheckpoint();
            words.WriteAt(batch + 72, new byte[end - batch - 72]);
        }

        SetHint(0);
        using MappedFileQueue again = _store.Open();
        Assert.Equal(["before"], _store.Peek());
        Assert.Equal(1, again.GetInfo().Epoch);
    }

    /// <summary>
    /// The batch's first header says "claimed" again, and looked like that of a dead producer. It became padding over the whole
    /// batch. The consumer was inside it, after the batch's first message, and waited there for ever. The laboratory found it:
    /// `--only retain --seed 19630227 --runs 1`.
    /// </summary>
    [Fact]
    public void Open_CursorInsideAClaim_CutsAtTheClaim()
    {
        long batch, end;
        using (MappedFileQueue queue = _store.Open())
        {
            CrashStore.Append(queue, "before");
            using MappedFileProducer producer = queue.OpenProducer();
            batch = producer.ProduceBatch(CrashUnits.MakeBatch("b", 64));
            end = producer.Offset;
            CrashStore.Append(queue, "after");
            using MappedFileConsumer consumer = queue.OpenConsumer("reader", QueueStart.Earliest);
            for (int i = 0; i < 2; i++)
            {
                Assert.True(consumer.TryConsume(out _));
                consumer.Commit();
            }

            Assert.InRange(consumer.Offset, batch + 1, end - 1);
        }

        using (var words = new StoreWords(_store.Path))
        {
            words.ResetCheckpoint();
            uint low = FrameHeader.LowHalf((int)(end - batch - FrameHeader.Size), FrameState.Claimed);
            words.WriteAt(batch, BitConverter.GetBytes(FrameHeader.Make(low, SlotLayout.Owner(1, 1))));
        }

        using MappedFileQueue again = _store.Open();
        Assert.Equal(["before"], _store.Peek());
        Assert.Equal(1, again.GetInfo().Epoch);
        using MappedFileConsumer reader = again.OpenConsumer("reader");
        Assert.Equal(batch, reader.Offset);
        CrashStore.Append(again, "new");
        Assert.True(reader.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal("new", CrashMessage.Read(message));
    }

    /// <summary>
    /// Without the look at what was flushed this would be a loss like any other, and good messages after it would go, of which
    /// the disk has every byte.
    /// </summary>
    [Theory]
    [InlineData(0x70, 3, false)]
    [InlineData(0x10, 3, true)]
    public void Open_BadHeaderThatWasFlushed_IsReportedNeverCutOff(byte damage, int place, bool asClaim)
    {
        Fill(flushed: Count);
        if (asClaim)
        {
            // What bit 28 alone makes of a header is nobody's claim; it passed for a dead one, and became padding.
            using var words = new StoreWords(_store.Path);
            uint low = FrameHeader.LowHalf(FrameHeader.Length(words.HeaderAt(_offsets[10])), FrameState.Claimed);
            words.WriteAt(_offsets[10], BitConverter.GetBytes(low));
        }
        else
        {
            Damage(10, damage, place);
        }

        ExpectDamageAt10Thrice();
    }

    [Fact]
    public void Open_HeaderThatWasFlushedIsZero_IsReportedNeverCutOff()
    {
        Fill(flushed: Count);
        using (var words = new StoreWords(_store.Path))
            words.WriteAt(_offsets[10], new byte[8]);
        ExpectDamageAt10Thrice();
    }

    /// <summary>As ever: the message is lost to its readers, and nothing else.</summary>
    [Fact]
    public void Open_BadPayloadThatWasFlushed_LogGoesOnBehindIt()
    {
        Fill(flushed: Count);
        Damage(10, 0x55, 12);
        // The second opener has no confirmed of its own to go by.
        for (int i = 0; i < 2; i++)
        {
            using MappedFileQueue queue = _store.Open();
            Assert.Equal(0, queue.GetInfo().Epoch);
            using var words = new StoreWords(_store.Path);
            Assert.True(words.TailHint > _offsets[^1]);
            words.ResetCheckpoint();
        }
    }

    /// <summary>A cursor that names no place of the log is that consumer's trouble, and no reason to cut the log.</summary>
    [Fact]
    public void Open_CursorBeyondAllSegments_IsDamageOfTheCursor()
    {
        Fill();
        using (MappedFileQueue queue = _store.Open())
            queue.OpenConsumer("bad", QueueStart.Latest).Dispose();
        string file = Path.Combine(_store.Path, "offset", "consumers", "bad.cursor");
        byte[] bytes = File.ReadAllBytes(file);
        BitConverter.TryWriteBytes(bytes, CursorWord.From(1L << 40));
        File.WriteAllBytes(file, bytes);

        using MappedFileQueue again = _store.Open();
        Assert.Equal(0, again.GetInfo().Epoch);
        Assert.Throws<QueueCorruptException>(() => again.OpenConsumer("bad"));
    }

    /// <summary>
    /// The cut takes away what told of the loss: the next opener of the same boot saw a log that is whole, and the offsets above
    /// the cut were handed out again under the old epoch.
    /// </summary>
    [Theory]
    [InlineData("SalvageCopied")]
    [InlineData("PageZeroed")]
    [InlineData("CursorsClamped")]
    [InlineData("CheckpointSlotWritten")]
    [InlineData("ControlCleared")]
    public void Open_KilledWhileItCuts_NextOpenerCutsAgain(string step)
    {
        Fill();
        using (MappedFileQueue queue = _store.Open())
            queue.OpenConsumer("ahead", QueueStart.Latest).Dispose();
        using (var words = new StoreWords(_store.Path))
            words.WriteAt(_offsets[10], new byte[8]);
        SetHint(0);
        using (PeerAgent child = PeerAgent.Start())
        {
            child.Trap(step, 1);
            child.Send(_store.OpenCommand);
            child.ExpectKilled();
        }

        using MappedFileQueue again = _store.Open();
        Assert.Equal(Names(10), _store.Peek());
        Assert.True(again.GetInfo().Epoch >= 1);
        Assert.Equal(_offsets[10], Assert.Single(again.GetInfo().Consumers).Offset);
        _store.ExpectNoTemporaries();
    }

    /// <summary>Nobody can say what the page knew. Nothing is cut off for that, but the offsets get a new epoch.</summary>
    [Fact]
    public void Open_ControlLost_KeepsAllAndRaisesTheEpoch()
    {
        Fill();
        File.WriteAllBytes(Path.Combine(_store.Path, "control"), new byte[4096]);
        using MappedFileQueue queue = _store.Open();
        Assert.Equal(Names(Count), _store.Peek());
        Assert.InRange(queue.GetInfo().Epoch, 1, long.MaxValue);
        Assert.False(Directory.Exists(Path.Combine(_store.Path, "salvage")));
    }

    /// <summary>
    /// A recycled segment holds old bytes beyond what is allocated, and below where the zeros over them are lost. With a control
    /// page that is older than the log they were taken for what nobody has to look at; and with any for messages. The crash
    /// laboratory found each.
    /// </summary>
    /// <param name="allocated">What is allocated ends before this message.</param>
    /// <param name="ends">Where the log has its first old bytes, which look like headers.</param>
    /// <param name="isFree">Whether there is a free header before them.</param>
    [Theory]
    [InlineData(10, 20, false)]
    [InlineData(10, 20, true)]
    [InlineData(10, 10, true)]
    [InlineData(39, 20, false)]
    public void Open_OldBytesBehindTheLogInARecycledSegment_Cuts(int allocated, int ends, bool isFree)
    {
        Fill();
        SetHint(0);
        Recycle(allocated: _offsets[allocated] - 8, oldFrom: _offsets[ends] + (isFree ? 8 : 0));
        if (isFree)
        {
            using var words = new StoreWords(_store.Path);
            words.WriteAt(_offsets[ends], new byte[8]);
        }

        using MappedFileQueue queue = _store.Open();
        ExpectCutAt(queue, ends);
        CrashStore.Append(queue, "new", "more");
        Assert.Equal([.. Names(ends), "new", "more"], _store.Peek());
    }

    /// <summary>
    /// The zeros that a segment got before its name were lost in part. The control page knows nothing of the segment yet, so
    /// nothing of it was looked at, and producers ran into old bytes.
    /// </summary>
    [Fact]
    public void Open_OldBytesInTheFirstPartOfARecycledSegment_Cuts()
    {
        _store.Open().Dispose();
        Recycle(allocated: 0, oldFrom: 512);

        using MappedFileQueue queue = _store.Open();
        Assert.Equal(1, queue.GetInfo().Epoch);
        CrashStore.Append(queue, Names(Count));
        Assert.Equal(Names(Count), _store.Peek());
    }

    /// <summary>
    /// Log and control page are of the same earlier moment, and the last message ends with its page: the next page was not
    /// zeroed then, and recovery counted it as allocated.
    /// </summary>
    [Fact]
    public void Open_TailIsWhereTheAllocatedPartOfARecycledSegmentEnds_OldBytesStayUnread()
    {
        const int page = 4096;
        byte[] message = new byte[page - FrameHeader.Size];
        using (MappedFileQueue queue = _store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            producer.Produce(message);
        }

        using (var words = new StoreWords(_store.Path))
            words.ResetCheckpoint();
        SetHint(0);
        Recycle(allocated: page, oldFrom: page + FrameHeader.Size);

        using MappedFileQueue again = _store.Open();
        using MappedFileReader reader = again.OpenReader();
        using MappedFileProducer next = again.OpenProducer();
        next.Produce([1]);
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> first));
        Assert.True(first.SequenceEqual(message));
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> second));
        Assert.True(second.SequenceEqual<byte>([1]));
        Assert.False(reader.TryRead(out _));
    }

    /// <summary>
    /// Makes the first segment one that was made of another file: from a place on it has bytes of that one, which look like
    /// claims: no checksum tells those from real ones.
    /// </summary>
    private void Recycle(long allocated, long oldFrom)
    {
        using (FileStream file = File.OpenWrite(Path.Combine(_store.Path, StoreNames.Segment(0))))
            file.SetLength(65536 + LogLimits.RecycledMark);
        using var words = new StoreWords(_store.Path);
        ulong[] headers = new ulong[(65536 - oldFrom) / sizeof(ulong)];
        Array.Fill(headers, FrameHeader.LowHalf(8, FrameState.Claimed));
        words.WriteAt(oldFrom, MemoryMarshal.AsBytes<ulong>(headers));
        words.WriteAt(65536 - sizeof(ulong), BitConverter.GetBytes(ulong.MaxValue));
        *words.Control.Allocated = allocated;
    }

    private static IEnumerable<string> Names(int count) => Enumerable.Range(0, count).Select(i => $"m-{i}");

    private void Fill(int flushed = 0)
    {
        using (MappedFileQueue queue = _store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            for (int i = 0; i < Count; i++)
            {
                if (flushed > 0 && i == flushed)
                    queue.Flush();
                _offsets.Add(producer.Produce(CrashMessage.Make($"m-{i}", 64)));
            }

            if (flushed == Count)
                queue.Flush();
        }

        using var words = new StoreWords(_store.Path);
        words.ResetCheckpoint();
    }

    /// <summary>What the disk never got reads as zeros.</summary>
    private void Lose(int from)
    {
        using var words = new StoreWords(_store.Path);
        words.WriteAt(_offsets[from], new byte[65536 - _offsets[from]]);
    }

    /// <summary>As an older page of `control` has it.</summary>
    private void SetHint(long offset)
    {
        using var words = new StoreWords(_store.Path);
        *words.Control.TailHint = offset;
    }

    private void Damage(int index, byte damage, int place)
    {
        using var words = new StoreWords(_store.Path);
        byte was = words.BytesAt(_offsets[index] + place, 1)[0];
        words.WriteAt(_offsets[index] + place, (byte)(was ^ damage));
    }

    private void ExpectCutAt(MappedFileQueue queue, int index)
    {
        Assert.Equal(Names(index), _store.Peek());
        MappedFileQueueInfo info = queue.GetInfo();
        Assert.Equal(1, info.Epoch);
        Assert.Equal(_offsets[index], info.TailOffset);
        Assert.Equal(info.TailOffset, info.ConfirmedOffset);
    }

    private void ExpectDamageAt10Thrice()
    {
        string segment = Path.Combine(_store.Path, "commitlog", "00000000000000000000.log");
        byte[] before = File.ReadAllBytes(segment);
        for (int i = 0; i < 3; i++)
        {
            using MappedFileQueue queue = _store.Open();
            QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => queue.OpenProducer());
            Assert.Equal(_offsets[10], error.Offset);
            Assert.Equal(0, queue.GetInfo().Epoch);
            Assert.Equal(before, File.ReadAllBytes(segment));
        }
    }
}
