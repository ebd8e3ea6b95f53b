using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// docs/DESIGN.md section 3, after a power loss. The opener is a child that lives in another boot; what the cut took from the
/// disk is damaged by hand before.
/// </summary>
[Trait("Category", "Slow")]
public sealed class CutRecoveryTests
{
    [Fact]
    public void Recover_WholeLog_KeepsAllAndRaisesTheEpoch()
    {
        using CutStore cut = CutStore.Make(segmentSize: 4096, count: 100);
        cut.Recover();

        Assert.Equal(cut.Texts, cut.Store.Peek());
        MappedFileQueueInfo info = cut.Info();
        Assert.Equal(1, info.Epoch);
        Assert.Equal(info.TailOffset, info.ConfirmedOffset);
    }

    /// <summary>The log ends at a claimed frame: nobody knows whether what is after it was acknowledged to anyone.</summary>
    [Fact]
    public void Recover_ClaimedFrame_EndsTheLog()
    {
        using var store = new CrashStore();
        long behind;
        using (MappedFileQueue queue = store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            producer.Produce(CrashMessage.Make("before", 64));
            using (PeerAgent child = store.StartAttached())
            {
                child.Trap("PayloadWritten", 1);
                child.Send("append prefix=never size=300");
                child.ExpectKilled();
            }

            behind = producer.Produce(CrashMessage.Make("behind", 64));
            queue.OpenConsumer("ahead", QueueStart.FromOffset(behind)).Dispose();
        }

        using PeerAgent opener = store.StartAttached(Guid.NewGuid());
        Assert.Equal(["before"], store.Peek());
        opener.Ask("consumer name=ahead");
        opener.Ask("append prefix=new");
        Assert.Equal("new-0", opener.Ask("consume"));
    }

    /// <summary>
    /// A small machine without a clock and without entropy had the same boot id in each of its boots: a store was recovered as if
    /// its processes had only been killed. The id of the kernel's memory is another one.
    /// </summary>
    [Fact]
    public void Recover_SameBootIdAfterAPowerLoss_IsACut()
    {
        using var store = new CrashStore();
        var disk = new FaultyDisk { MemoryIdOverride = 0x1111_1111_2222_2222 };
        using (MappedFileQueue queue = store.Open())
            CrashStore.Append(queue, "whole");
        using (MappedFileQueue queue = store.Open())
            Assert.Equal(0, queue.GetInfo().Epoch);
        disk.MemoryIdOverride = 0x3333_3333_4444_4444;

        using MappedFileQueue again = store.Open();

        Assert.Equal(1, again.GetInfo().Epoch);
        Assert.Equal(["whole"], CrashStore.ReadAll(again, "all"));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(8)]
    [InlineData(90)]
    public void Recover_TornMessage_EndsTheLogAndSetsAsideTheRest(int index)
    {
        using CutStore cut = CutStore.Make(segmentSize: 65536, count: 100);
        cut.Damage(index);
        byte[] lost = cut.BytesFrom(index);

        cut.Recover();

        Assert.Equal(cut.Texts.Take(index), cut.Store.Peek());
        Assert.Equal(lost, cut.Salvaged().AsSpan(0, lost.Length));
        Assert.Equal(-1, cut.BytesFrom(index).AsSpan().IndexOfAnyExcept((byte)0));
    }

    [Fact]
    public void Recover_BatchThatIsNotWhole_EndsBeforeItsFirstMessage()
    {
        using var store = new CrashStore();
        using (MappedFileQueue queue = store.Open())
        {
            using MappedFileProducer producer = queue.OpenProducer();
            producer.Produce(CrashMessage.Make("before", 64));
            long batch = producer.ProduceBatch(CrashUnits.MakeBatch("b", 64));
            producer.Produce(CrashMessage.Make("behind", 64));
            using var words = new StoreWords(store.Path);
            words.WriteAt(batch + (3 * 72) + 20, 0xEE);
        }

        using PeerAgent opener = store.StartAttached(Guid.NewGuid());
        Assert.Equal(["before"], store.Peek());
    }

    /// <summary>Later segments go away: else their old frames come back one day, when the new log has grown up to them.</summary>
    [Fact]
    public void Recover_LaterSegments_NeverComeBack()
    {
        using CutStore cut = CutStore.Make(segmentSize: 4096, count: 200);
        cut.Damage(30);
        using (PeerAgent opener = cut.Store.StartAttached(Guid.NewGuid()))
        {
            opener.Ask("append prefix=new count=25 size=100");
            opener.Ask("close");
        }

        using PeerAgent next = cut.Store.StartAttached(Guid.NewGuid());
        Assert.Equal([.. cut.Texts.Take(30), .. Enumerable.Range(0, 25).Select(i => $"new-{i}")], cut.Store.Peek());
        Assert.Equal(2, cut.Info().Epoch);
    }

    public static TheoryData<string, int> Steps => new()
    {
        { "SalvageCopied", 1 },
        { "PageZeroed", 1 },
        { "PageZeroed", 3 },
        { "LaterMoved", 1 },
        { "LaterMoved", 2 },
        { "CursorsClamped", 1 },
        { "CheckpointSlotWritten", 1 },
        { "CheckpointSlotWritten", 2 },
        { "ControlCleared", 1 },
        { "Recovered", 1 },
    };

    /// <summary>
    /// Killed anywhere inside and run again: the same tail, the same clamped cursor, and nothing of what was set aside is lost.
    /// </summary>
    [Theory]
    [MemberData(nameof(Steps))]
    public void Recover_KilledAtStep_SecondRunFindsTheSame(string step, int hit)
    {
        const int damaged = 70;
        using CutStore cut = CutStore.Make(segmentSize: 65536, count: 1500);
        cut.Damage(damaged);
        byte[] lost = cut.BytesFrom(damaged);
        Guid boot = Guid.NewGuid();
        using (PeerAgent killed = PeerAgent.Start(boot))
        {
            killed.Trap(step, hit);
            killed.Send(cut.Store.OpenCommand);
            killed.ExpectKilled();
        }

        using PeerAgent second = cut.Store.StartAttached(boot);
        Assert.Equal(cut.Texts.Take(damaged), cut.Store.Peek());
        Assert.Equal(lost, cut.Salvaged().AsSpan(0, lost.Length));
        cut.Store.ExpectNoTemporaries();
        MappedFileQueueInfo info = cut.Info();
        Assert.Equal(cut.Offsets[damaged], info.TailOffset);
        Assert.Equal(info.TailOffset, Assert.Single(info.Consumers).Offset);
        Assert.True(info.Epoch >= 1);
        second.Ask("consumer name=ahead");
        second.Ask("append prefix=new count=30 size=3000");
        Assert.Equal(Enumerable.Range(0, 30).Select(i => $"new-{i}"), second.Ask("consume count=100").Split(' '));
    }

    /// <summary>
    /// Each segment was looked at through a new buffer of 1 MiB: recovery spent six sevenths of its time on collecting those.
    /// </summary>
    [Fact]
    public void Recover_ManySmallSegments_AllocatesNoMegabyteForEach()
    {
        using CutStore cut = CutStore.Make(segmentSize: 4096, count: 2000);
        int segments = Directory.GetFiles(Path.Combine(cut.Store.Path, StoreNames.CommitLog)).Length;
        Assert.InRange(segments, 50, 200);
        _ = new FaultyDisk { BootIdOverride = Guid.NewGuid().ToString() };
        long before = GC.GetAllocatedBytesForCurrentThread();

        using MappedFileQueue queue = cut.Store.Open();

        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 1, segments * 32_768);
        Assert.Equal(1, queue.GetInfo().Epoch);
    }

    /// <summary>Without a checkpoint the log is read from its first segment: it is never taken for empty.</summary>
    [Fact]
    public void Recover_CheckpointLost_ReadsFromTheFirstSegment()
    {
        using CutStore cut = CutStore.Make(segmentSize: 4096, count: 100);
        LoseCheckpoint(cut.Store);

        cut.Recover();

        Assert.Equal(cut.Texts, cut.Store.Peek());
    }

    [Fact]
    public void Recover_SegmentOfTheCheckpointMissing_IsCorruption()
    {
        using CutStore cut = CutStore.Make(segmentSize: 4096, count: 100, flushes: true);
        foreach (string segment in Directory.GetFiles(Path.Combine(cut.Store.Path, "commitlog")))
            File.Delete(segment);

        using PeerAgent opener = PeerAgent.Start(Guid.NewGuid());
        Assert.StartsWith("QueueCorruptException", opener.AskForError(cut.Store.OpenCommand), StringComparison.Ordinal);
    }

    private static void LoseCheckpoint(CrashStore store)
    {
        using FileStream file = File.Open(Path.Combine(store.Path, StoreNames.Checkpoint), FileMode.Open);
        file.Write(new byte[2 * CheckpointRecord.SlotDistance]);
    }

    /// <summary>
    /// A segment below the checkpoint lost its first header. It passed for one that was made ahead, and the log seemed to begin
    /// after it.
    /// </summary>
    [Fact]
    public void Open_FirstHeaderOfASegmentIsZeroed_MessagesBeforeItAreReadThenDamage()
    {
        using CutStore cut = CutStore.Make(4096, 60, flushes: true);
        using (var words = new StoreWords(cut.Store.Path))
            words.WriteAt(4096, new byte[8]);
        cut.Recover();

        int before = cut.Offsets.Count(offset => offset < 4096);
        using MappedFileReader reader = MappedFileReader.Open(cut.Store.Path);
        for (int i = 0; i < before; i++)
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal(cut.Texts[i], CrashMessage.Read(message));
        }

        Assert.Throws<QueueCorruptException>(() => reader.TryRead(out _));
    }
}
