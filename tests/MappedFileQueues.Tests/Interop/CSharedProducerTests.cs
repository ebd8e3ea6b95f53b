using System.Diagnostics;
using System.Globalization;
using System.Text;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// Shared producers of the C library beside C#, and both languages' flushes: each continues after the other's death at any step.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CSharedProducerTests
{
    private const int Killed = 137;

    /// <summary>
    /// A C producer that flushes each message dies; another one in C continues, and so does C#. Of what it had said nothing is
    /// missing; the message under way is there whole or not at all.
    /// </summary>
    [Theory]
    [InlineData("SlotTaken", 1, 0)]
    [InlineData("CallChecked", 40, 0)]
    [InlineData("Claimed", 40, 1)]
    [InlineData("PayloadWritten", 40, 1)]
    [InlineData("Published", 40, 0)]
    [InlineData("SequenceRaised", 2, 0)]
    [InlineData("TemporaryMade", 1, 0)]
    [InlineData("SegmentRenamed", 1, 0)]
    [InlineData("RestPadded", 1, 0)]
    [InlineData("SegmentEntered", 2, 0)]
    [InlineData("FlushMarked", 40, 0)]
    [InlineData("FlushSynced", 40, 0)]
    [InlineData("CheckpointSlotWritten", 1, 0)]
    [InlineData("DurableRaised", 40, 0)]
    public void Produce_DiesAtAStep_TheOthersContinue(string step, int hit, int repairs)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using (ChildProcess dead = CLibrary.StartTrapped(
            step, hit, "produce", store.StorePath, "shared-group", "dead", "0", "100000"))
        {
            // It waits for messages, so that there is somebody to be woken.
            using ChildProcess sleeper = CLibrary.Start(
                CLibrary.Checked, "consume", store.StorePath, "sleeper", "100000", "30000");
            dead.ExpectExit(Killed);
            int said = dead.Lines.Count(line => line != "opened");
            Produce(store, "shared-group", "next", 200);
            Assert.Equal((ulong)repairs, Repairs(store));
            queue.Producer.Produce("last 0"u8);
            Assert.Equal(queue.Producer.Offset, queue.Flush());

            Dictionary<string, int> found = InteropStore.CountOfEach(InteropStore.ReadAll(store));
            Assert.InRange(found.GetValueOrDefault("dead"), said, said + 1);
            Assert.Equal((200, 1), (found["next"], found["last"]));
            sleeper.WaitForLine(line => line.StartsWith("last ", StringComparison.Ordinal));
            Assert.Equal(InteropStore.ReadAll(store), sleeper.Lines.Skip(1));
        }
    }

    /// <summary>The reverse; the C producer repairs what is in the way of its flush, and no dead leader stops it.</summary>
    [Theory]
    [InlineData("Claimed")]
    [InlineData("PayloadWritten")]
    [InlineData("Published")]
    [InlineData("RestPadded")]
    [InlineData("SegmentEntered")]
    [InlineData("FlushMarked")]
    [InlineData("FlushSynced")]
    [InlineData("DurableRaised")]
    public void Produce_ProducerOfCSharpDiedAtAStep_ContinuesAfterIt(string step)
    {
        using var store = new TempStore();
        // Consumes only: it holds the store open, and repairs nothing before the end.
        using ChildProcess holder = Hold(store);
        int acked;
        using (PeerAgent agent = PeerAgent.Start())
        {
            agent.Ask($"open path={store.StorePath} mode=Shared level=Group");
            agent.Ask("append prefix=message count=3 what=text");
            agent.Trap(step, 1);
            agent.Send("append prefix=message first=3 count=9000 what=text");
            agent.ExpectKilled();
            acked = agent.AckedCount;
        }

        Produce(store, "shared-group", "next", 200);
        bool hasClaim = step is "Claimed" or "PayloadWritten";
        Assert.Equal(hasClaim ? 1ul : 0ul, Repairs(store));
        Dictionary<string, int> found = InteropStore.CountOfEach(InteropStore.ReadAll(store));
        Assert.InRange(found["message"], acked, hasClaim ? acked : acked + 1);
        Assert.Equal(200, found["next"]);
    }

    /// <summary>Readers wait at the claim of a producer that stands still, until an operator takes it away.</summary>
    [Theory]
    [InlineData("Claimed")]
    [InlineData("PayloadWritten")]
    public void Produce_StandsStillAndIsFenced_FailsOnceAndContinues(string step)
    {
        const int Hit = 40;
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess slow = CLibrary.StartStopping(step, Hit, "produce", store.StorePath, "shared", "slow", "0", "100");
        Eventually.Equal(1, () => queue.GetInfo().OpenClaims.Count);
        queue.Producer.Produce("other 0"u8);
        int slot = queue.GetInfo().OpenClaims[0].Slot;
        ToolRun.Of("fence", store.StorePath, $"{slot}", "--after", "100ms").Expect(0);
        Assert.Equal("other 0", InteropStore.ReadAll(store)[^1]);

        slow.Continue();
        slow.ExpectExit();
        Assert.Contains("produce: fenced", slow.ErrorText, StringComparison.Ordinal);
        string[] others = [.. Enumerable.Range(0, 100).Where(i => i != Hit - 1).Select(i => $"{i}")];
        Assert.Equal(["opened", .. others], slow.Lines);
        Assert.Equal(others, InteropStore.ReadAll(store).Where(text => text.StartsWith("slow ", StringComparison.Ordinal))
            .Select(text => text.Split(' ')[1]));
    }

    /// <summary>
    /// A processor of arm64 without LSE may show a payload before its claim, since nothing orders the two there. Another producer
    /// that met it told that messages are missing.
    /// </summary>
    [Fact]
    public void Produce_PayloadIsSeenBeforeItsClaim_LooksAgain()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        _ = queue.Producer;
        Write(8, [0xAA]);
        using ChildProcess late = CLibrary.StartStopping("PayloadMet", 1, "append", store.StorePath, "shared");
        late.Input.WriteLine("1 8");
        late.Input.Flush();
        Eventually.Equal(true, () => ProcFiles.IsStopped(late.Id));
        Write(0, [8, 0, 0, 0x20]);
        late.Continue();
        late.WaitForLine("ok");

        void Write(long position, byte[] bytes)
        {
            using var file = new FileStream(
                store.PathOf("commitlog", "00000000000000000000.log"), FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
            file.Position = position;
            file.Write(bytes);
        }
    }

    [Theory]
    [InlineData("shared-group")]
    [InlineData("exclusive-group")]
    [InlineData("shared-flush")]
    [InlineData("exclusive-flush")]
    public void Produce_AndFlush_EverythingIsConfirmedForAllProcesses(string mode)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        Produce(store, mode, "m", 2000);
        // Nobody but the C producer has flushed the end: at PageCache this queue flushes complete segments only.
        Assert.Equal(queue.Producer.Offset, queue.Producer.ConfirmedOffset);
        Assert.Equal(2000, InteropStore.CountOfEach(InteropStore.ReadAll(store))["m"]);
    }

    [Fact]
    public void Produce_ManyAtOnceInBothLanguages_EachMessageComesOnceAndInOrder()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        string[] modes = ["shared", "shared-group", "shared-flush"];
        ChildProcess[] producers = [.. modes.Select((mode, i) => CLibrary.Start(
            CLibrary.Checked, "produce", store.StorePath, mode, $"c{i}", "0", "3000"))];
        for (int i = 0; i < 3000; i++)
            queue.Producer.Produce(Encoding.UTF8.GetBytes(string.Create(CultureInfo.InvariantCulture, $"here {i}")));
        foreach (ChildProcess producer in producers)
        {
            producer.ExpectExit();
            producer.Dispose();
        }

        Dictionary<string, int> found = InteropStore.CountOfEach(InteropStore.ReadAll(store));
        Assert.Equal(["c0", "c1", "c2", "here"], found.Keys.Order(StringComparer.Ordinal));
        Assert.All(found.Values, count => Assert.Equal(3000, count));
    }

    /// <summary>Two readers and producers that open again and again, all in threads of one process.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Produce_InThreadsOfOneProcess_HasNoRaces(bool isRaced)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess run = CLibrary.Start(
            isRaced ? CLibrary.Raced : CLibrary.Checked, "threads", store.StorePath, "4", "2500");
        run.ExpectExit(deadline: TimeSpan.FromMinutes(3));
        Assert.Equal("10000 messages, 0 wrong", run.Lines[^1]);
    }

    [Fact]
    public void Open_ExclusiveProducerIsAttached_IsRefusedAndTheReverse()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using (ChildProcess holder = CLibrary.Start(
            CLibrary.Checked, "produce", store.StorePath, "shared-bursts", "m", "0", "10000000"))
        {
            holder.WaitForLine("opened");
            using ChildProcess refused = CLibrary.Start(
                CLibrary.Checked, "produce", store.StorePath, "exclusive", "m", "0", "1");
            Assert.Equal(1, refused.WaitForExit());
            Assert.Contains("open: in-use: ", refused.ErrorText, StringComparison.Ordinal);
            queue.Producer.Produce("here 0"u8);
        }

        using var other = new TempStore();
        using MappedFileQueue alone = InteropStore.Open(other);
        using ChildProcess exclusive = CLibrary.Start(
            CLibrary.Checked, "produce", other.StorePath, "exclusive-bursts", "m", "0", "10000000");
        exclusive.WaitForLine("opened");
        using ChildProcess shared = CLibrary.Start(CLibrary.Checked, "produce", other.StorePath, "shared", "m", "0", "1");
        Assert.Equal(1, shared.WaitForExit());
        Assert.Contains("open: in-use: ", shared.ErrorText, StringComparison.Ordinal);
    }

    /// <summary>A sync fails in C: no process confirms anything any more, and a recovery keeps what was said.</summary>
    [Theory]
    [InlineData("shared-group")]
    [InlineData("exclusive-group")]
    public void Produce_SyncFails_NothingIsDurableInAnyProcess(string mode)
    {
        Assert.SkipUnless(InteropTools.Has("strace"), "strace is not installed");
        using var store = new TempStore();
        int said;
        using (MappedFileQueue queue = InteropStore.Open(store))
        {
            using ChildProcess failing = ChildProcess.Start(new ProcessStartInfo("strace", [
                "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=20",
                CLibrary.Fast, "produce", store.StorePath, mode, "m", "0", "1000",
            ]));
            Assert.Equal(1, failing.WaitForExit());
            Assert.Contains("produce: disk: The message is appended, but perhaps not on disk.", failing.ErrorText,
                StringComparison.Ordinal);
            said = failing.Lines.Count - 1;
            Assert.InRange(said, 5, 19);
            Assert.Throws<QueuePoisonedException>(() => queue.Flush());
            using ChildProcess refused = CLibrary.Start(CLibrary.Checked, "produce", store.StorePath, mode, "m", "0", "1");
            Assert.Equal(1, refused.WaitForExit());
            Assert.Contains("open: recovery: ", refused.ErrorText, StringComparison.Ordinal);
        }

        using MappedFileQueue again = InteropStore.Open(store);
        Assert.InRange(InteropStore.CountOfEach(InteropStore.ReadAll(store))["m"], said, said + 1);
        Produce(store, mode, "next", 3);
    }

    /// <summary>A stopped leader is waited for, never robbed.</summary>
    [Fact]
    public void Produce_LeaderOfAnotherProcessIsStopped_EndsInTime()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using PeerAgent agent = StartStoppedLeader(store);
        using ChildProcess waits = CLibrary.Start(
            CLibrary.Checked, "produce", store.StorePath, "shared-group-impatient", "m", "0", "1");
        Assert.Equal(1, waits.WaitForExit());
        Assert.Contains("produce: timeout: The message is appended", waits.ErrorText, StringComparison.Ordinal);
        agent.Continue();
        agent.Answer();
        Produce(store, "shared-group", "n", 1);
        Assert.Equal(["a-0", "m 0 !", "n 0 !"], InteropStore.ReadAll(store));
    }

    /// <summary>Another leader had flushed the message while the waiter was not running; it said that the time was up.</summary>
    [Fact]
    public void Produce_FlushedWhileItsTimeRanOut_IsNoTimeout()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using PeerAgent agent = StartStoppedLeader(store);
        using ChildProcess waits = CLibrary.StartStopping(
            "LeaderMet", 1, "produce", store.StorePath, "shared-group-impatient", "m", "0", "1");
        Eventually.Equal(true, () => ProcFiles.IsStopped(waits.Id));
        agent.Continue();
        agent.Answer();
        Assert.Equal(queue.Producer.Offset, queue.Flush());
        Thread.Sleep(300);
        waits.Continue();
        waits.ExpectExit();
        Assert.Equal("0", waits.Lines[^1]);
    }

    /// <summary>
    /// Damage zeroes the header of the message that is being flushed. No walk comes past it, and the tail hint is there too: the
    /// flush walked again and again, without a pause and without an end.
    /// </summary>
    [Fact]
    public void Produce_HeaderOfTheMessageIsZeroed_SaysThatTheLogIsDamaged()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess run = CLibrary.StartStopping(
            "Published", 1, "produce", store.StorePath, "shared-group", "m", "0", "1");
        Eventually.Equal(true, () => ProcFiles.IsStopped(run.Id));
        // It holds a lock on the file, which .NET would ask for.
        using (FileStream segment = new(
            store.PathOf("commitlog", $"{0:D20}.log"), FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
            segment.Write(new byte[8]);
        run.Continue();
        Assert.Equal(1, run.WaitForExit());
        Assert.Contains("produce: corrupt: The message is appended, but perhaps not on disk. The log is damaged: messages are "
            + "missing, offset=0,", run.ErrorText, StringComparison.Ordinal);
    }

    /// <summary>
    /// A producer is stopped after it has read how far there are blocks; others fill the segment, and a removal takes it. The
    /// producer said that the log was damaged, or made the removed segment anew, of zeros.
    /// </summary>
    [Theory]
    [InlineData(64 * 1024)]
    [InlineData(1024 * 1024)]
    public void Produce_SegmentIsRemovedBeforeItGetsBlocks_ContinuesAtTheTail(int segmentLength)
    {
        using var store = new TempStore();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = segmentLength,
            Durability = DurabilityLevel.PageCache,
        });
        using ChildProcess run = CLibrary.StartStopping(
            "AllocatedRead", 2, "produce", store.StorePath, "shared", "m", "0", "10000");
        Eventually.Equal(true, () => ProcFiles.IsStopped(run.Id), TimeSpan.FromMinutes(1));
        for (int i = 0; i < 9; i++)
            queue.Producer.Produce(new byte[segmentLength / 3]);
        queue.Flush();
        queue.Trim(queue.Producer.Offset);
        string[] before = Segments();
        run.Continue();
        run.ExpectExit();
        Assert.Equal("9999", run.Lines[^1]);
        Assert.StartsWith("m 9999 ", InteropStore.ReadAll(store)[^1], StringComparison.Ordinal);
        Assert.Equal(before[0], Segments()[0]);

        string[] Segments() =>
            [.. Directory.GetFiles(store.PathOf("commitlog"), "*.log").Order(StringComparer.Ordinal)];
    }

    /// <summary>A process that is stopped while it leads a flush, once it has synced.</summary>
    private static PeerAgent StartStoppedLeader(TempStore store)
    {
        PeerAgent agent = PeerAgent.Start();
        agent.Ask($"open path={store.StorePath} mode=Shared level=Group");
        agent.Trap("FlushSynced", 1, "stop");
        agent.Send("append prefix=a what=text");
        agent.WaitUntilStopped();
        return agent;
    }

    private static ChildProcess Hold(TempStore store)
    {
        InteropStore.Open(store).Dispose();
        ChildProcess holder = CLibrary.Start(CLibrary.Checked, "hold", store.StorePath, "holder");
        holder.WaitForLine("held");
        return holder;
    }

    private static void Produce(TempStore store, string mode, string word, int count)
    {
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "produce", store.StorePath, mode, word, "0", $"{count}");
        run.ExpectExit();
    }

    private static unsafe ulong Repairs(TempStore store)
    {
        using var words = new StoreWords(store.StorePath);
        return SharedWord.ReadAcquire(words.Control.RepairCount);
    }
}
