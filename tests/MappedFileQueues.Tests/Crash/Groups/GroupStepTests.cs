using System.Diagnostics;
using MappedFileQueues.Engine;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;

namespace MappedFileQueues.Tests.Crash.Groups;

/// <summary>
/// A member that is killed, or stopped, at each step of its changes. Whatever was not acknowledged comes back, each message once;
/// what was acknowledged does not; and a stopped member keeps nobody from working.
/// </summary>
[Trait("Category", "Slow")]
public sealed class GroupStepTests
{
    private const int Count = 10;

    private static readonly GroupOptions s_options = new() { DeliveriesMax = 0 };

    /// <summary>What the child does when it dies, the step, how often it is reached, and what comes back to others.</summary>
    public static TheoryData<string, string, int, string> Steps => new()
    {
        // Hand out: before `next` moves, nothing was handed out.
        { "take count=4", "GroupRangeTaken", 1, "" },
        { "take count=4", "GroupRangeFilled", 1, "" },
        { "take count=4", "GroupHandedOut", 1, "0:2 1:2 2:2 3:2" },

        // Acknowledge one of four, then the rest.
        { "ack texts=m-1,m-2", "GroupBitsAcknowledged", 1, "0:2 2:2 3:2" },
        { "ack texts=m-1,m-2", "GroupBitsAcknowledged", 2, "0:2 3:2" },
        { "ack", "GroupRangeEnded", 1, "" },

        // Give back: the bit decides, and exactly one single has the message.
        { "reject text=m-1", "GroupSingleTaken", 1, "0:2 1:2 2:2 3:2" },
        { "reject text=m-1", "GroupSingleFilled", 1, "0:2 1:2 2:2 3:2" },
        { "reject text=m-1", "GroupSingleWhole", 1, "0:2 1:2 2:2 3:2" },
        { "reject text=m-1", "GroupBitMoved", 1, "0:2 1:2 2:2 3:2" },
        { "reject text=m-1", "GroupReturned", 1, "0:2 1:2 2:2 3:2" },
        { "leave", "GroupBitMoved", 3, "0:1 1:1 2:2 3:2" },
    };

    [Theory]
    [MemberData(nameof(Steps))]
    public void Member_KilledAtAStep_WhatIsLeftComesBackOnce(string command, string step, int hit, string back)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        bool isTaking = command.StartsWith("take", StringComparison.Ordinal);
        if (!isTaking)
            Assert.Equal("m-0:1 m-1:1 m-2:1 m-3:1", child.Ask("take count=4"));
        child.Trap(step, hit);
        child.Send(command);
        child.ExpectKilled();

        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        bool isOut = !isTaking || step == "GroupHandedOut";
        ExpectRest(member, back, firstNew: isOut ? 4 : 0);
    }

    /// <summary>Who takes a dead one's range over dies too, at each of its steps; the next one completes it.</summary>
    [Theory]
    [InlineData("GroupTakenOver", 1)]
    [InlineData("GroupBitsTurned", 1)]
    [InlineData("GroupSettled", 1)]
    [InlineData("GroupSingleTaken", 2)]
    [InlineData("GroupSingleWhole", 2)]
    [InlineData("GroupBitMoved", 2)]
    [InlineData("GroupReturned", 2)]
    [InlineData("GroupGivenBack", 1)]
    public void TakeOver_KilledAtAStep_TheNextOneCompletesIt(string step, int hit)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent first = StartMember(store, survivor);
        first.Ask("take count=4");
        first.Trap("GroupBitMoved", 1);
        first.Send("reject text=m-1");
        first.ExpectKilled();
        using PeerAgent second = store.StartAttached();
        second.Ask("member");
        second.Trap(step, hit);
        second.Send("take count=100");
        Eventually.True(() => second.HasExited || second.Received.Count == Count - 4, "it takes what is new, or looks first");
        if (!second.HasExited)
        {
            second.Answer();
            // There is nothing new: it looks before it sleeps.
            second.Send("take count=100");
        }

        second.ExpectKilled();
        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        List<string> all = TakeAll(member);
        Assert.Equal(Enumerable.Range(0, Count).Select(i => $"m-{i}"), all.Order(StringComparer.Ordinal));
    }

    [Fact]
    public void Returned_MemberKilledWithIt_CountsAgain()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent first = StartMember(store, survivor);
        first.Ask("take count=10");
        first.Kill();
        using PeerAgent second = store.StartAttached();
        second.Ask("member");
        Assert.Equal("m-0:2", Await(second));
        second.Kill();
        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        List<string> all = TakeAllCounted(member);
        Assert.Contains("m-0:3", all);
        all.Remove("m-0:3");
        Assert.Equal(Enumerable.Range(1, 9).Select(i => $"m-{i}:2"), all);
    }

    /// <summary>A poison message kills whoever takes it: three processes with batches of 64.</summary>
    [Fact]
    public void PoisonMessage_InABatch_GoesAloneToTheDeadLetters()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        CrashStore.Append(survivor, Enumerable.Range(0, 64).Select(i => $"m-{i}"));
        using (PeerAgent child = store.StartAttached())
        {
            child.Ask("member");
            Assert.Equal(64, child.Ask("take count=64").Split(' ').Length);
            child.Kill();
        }

        // Each of the returned messages comes alone. Message 20 ends its process; all others are done.
        List<string> done = [];
        for (int deaths = 0; deaths < 2; deaths++)
        {
            using PeerAgent child = store.StartAttached();
            child.Ask("member");
            while (true)
            {
                string text = Await(child).Split(':')[0];
                if (text == "m-20")
                    break;
                child.Ask($"ack texts={text}");
                done.Add(text);
            }

            child.Kill();
        }

        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", new GroupOptions { DeliveriesMax = 3 });
        done.AddRange(TakeAll(member));
        Assert.Equal(Enumerable.Range(0, 64).Where(i => i != 20).Select(i => $"m-{i}").Order(StringComparer.Ordinal),
            done.Order(StringComparer.Ordinal));
        using var letters = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.Path + "-dead-letters" });
        using MappedFileConsumer consumer = letters.OpenConsumer("test");
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
        var letter = DeadLetter.Parse(message);
        Assert.Equal(("m-20", 3, "DeliveriesMax"), (CrashMessage.Read(letter.Message.Span), letter.Attempts, letter.ErrorType));
        consumer.Advance();
        Assert.False(consumer.TryConsume(out _));
    }

    /// <summary>The letter is on disk before the message is done: killed in between, it is there twice, and tells so.</summary>
    [Fact]
    public void DeadLetter_KilledBeforeDone_IsThereTwiceWithOneOrigin()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        child.Ask("take count=1");
        child.Trap("GroupLetterSent", 1);
        child.Send("reject text=m-0 letter=1");
        child.ExpectKilled();

        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        Assert.Equal("m-0:2", Peek(member));
        member.Reject(member.MessageOffset, deadLetter: true, reason: "again");
        member.Dispose();
        using var letters = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.Path + "-dead-letters" });
        using MappedFileConsumer consumer = letters.OpenConsumer("test");
        List<(Guid, long, long, int)> origins = [];
        while (consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            var letter = DeadLetter.Parse(message);
            origins.Add((letter.StoreId, letter.Epoch, letter.Offset, letter.Attempts));
            consumer.Advance();
        }

        Assert.Equal(2, origins.Count);
        Assert.Equal(origins[0] with { Item4 = 2 }, origins[1]);
    }

    /// <summary>
    /// Who takes over may see less than the one before: it gives back all of it, and not only what it would hand out itself.
    /// </summary>
    [Fact]
    public void TakeOver_ByAMemberThatSeesOnlyWhatIsOnDisk_LosesNothing()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        child.Ask("take count=10");
        child.Kill();
        using MappedFileGroupMember member = survivor.OpenGroupMember(
            "workers", new GroupOptions { DeliveriesMax = 0, DurableOnly = true });
        Assert.Equal(Enumerable.Range(0, Count).Select(i => $"m-{i}:2"), TakeAllCounted(member));
    }

    /// <summary>It looks for the dead by the clock, however few calls it makes and however much there is to do.</summary>
    [Fact]
    public void TakeOver_ByASlowMemberWithABacklog_ComesSoon()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        CrashStore.Append(survivor, [.. Enumerable.Range(Count, 100).Select(i => $"m-{i}")]);
        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        Assert.Equal("m-0:1", child.Ask("take count=1"));
        for (int i = 1; i <= 20; i++)
            TakeOne(member);
        child.Kill();

        // At first the clock is read once in 16 calls; after that in each.
        int calls = 0;
        while (TakeOne(member) != "m-0:2")
        {
            Assert.InRange(calls++, 0, 20);
            Thread.Sleep(100);
        }
    }

    /// <summary>
    /// A member waits without a thread while nobody holds anything. Then another one is handed all there is, and dies: nothing
    /// moves any more. The waiting one never looked at the dead one's messages: models/wait.pml, hand-outs-to-others-unseen.
    /// </summary>
    [Fact]
    public async Task TakeOver_ByAMemberThatWaitsWithoutAThread_ComesSoon()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        // It does not see what is not on disk, so the other one is faster.
        using MappedFileGroupMember member = survivor.OpenGroupMember(
            "workers", new GroupOptions { DeliveriesMax = 0, DurableOnly = true });
        using var deadline = new CancellationTokenSource(TimeSpan.FromSeconds(30));
        ValueTask<ReadOnlyMemory<byte>> call = member.ConsumeAsync(deadline.Token);
        using PeerAgent child = StartMember(store, survivor);
        child.Ask("take count=10");
        child.Kill();
        Assert.Equal("m-0", CrashMessage.Read((await call).Span));
        Assert.Equal(2, member.DeliveryCount);
    }

    /// <summary>Stopped anywhere it keeps what it has; everything else goes on, and it can be woken and go on.</summary>
    [Theory]
    [InlineData("take count=4", "GroupRangeTaken", 0)]
    [InlineData("take count=4", "GroupRangeFilled", 0)]
    [InlineData("take count=4", "GroupHandedOut", 4)]
    [InlineData("ack texts=m-1", "GroupBitsAcknowledged", 4)]
    [InlineData("reject text=m-1", "GroupSingleTaken", 4)]
    [InlineData("reject text=m-1", "GroupSingleWhole", 4)]
    [InlineData("reject text=m-1", "GroupBitMoved", 4)]
    public void Member_StoppedAtAStep_OthersGoOn(string command, string step, int firstNew)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        bool isTaking = command.StartsWith("take", StringComparison.Ordinal);
        if (!isTaking)
            child.Ask("take count=4");
        child.Trap(step, 1, "stop");
        child.Send(command);
        child.WaitUntilStopped();

        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        for (int i = firstNew; i < Count; i++)
            Assert.Equal($"m-{i}:1", TakeOne(member));
        CrashStore.Append(survivor, "more");
        Assert.Equal("more:1", TakeOne(member));
        Assert.False(member.TryConsume(out _, TimeSpan.FromMilliseconds(250)), "what a stopped member has stays with it");
        if (firstNew == 0)
            CrashStore.Append(survivor, "m-0", "m-1", "m-2", "m-3");

        child.Continue();
        string answer = child.Answer();
        Assert.StartsWith("ok", answer, StringComparison.Ordinal);
        if (isTaking)
            Assert.Equal("ok m-0:1 m-1:1 m-2:1 m-3:1", answer);
        child.Ask("ack");
        if (command.StartsWith("reject", StringComparison.Ordinal))
        {
            Assert.Equal("m-1:2", Await(child));
            child.Ask("ack");
        }

        Assert.Equal([], TakeAll(member));
        Assert.Equal(0, member.UnacknowledgedCount);
    }

    /// <summary>
    /// It has read where the next messages are; then others end these, and they are removed. It threw OffsetOutOfRangeException:
    /// the laboratory found that, one seed in a hundred.
    /// </summary>
    [Fact]
    public void Member_StoppedBehindTheWord_WhatOthersEndedAndRemovedIsPassed()
    {
        using var store = new CrashStore(segmentSize: 4096);
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        child.Trap("GroupNextRead", 1, "stop");
        child.Send("take count=1");
        child.WaitUntilStopped();

        using (MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options))
        {
            CrashStore.Append(survivor, Enumerable.Range(Count, 500).Select(i => $"m-{i}"));
            for (int i = 0; i < Count + 500; i++)
                Assert.Equal($"m-{i}:1", TakeOne(member));
        }

        Assert.True(survivor.Trim(long.MaxValue) > 4096);
        CrashStore.Append(survivor, "more");
        child.Continue();
        Assert.Equal("ok more:1", child.Answer());
    }

    /// <summary>
    /// Somebody who computes the floor has read `next`; then its record ends, `next` moves on, and a member begins to fill the
    /// record anew, with the old start still in it. The floor went back to it, and a copy that was saved then had a message that
    /// had ended: the laboratory found that, one run in some thousand.
    /// </summary>
    [Fact]
    public void Floor_RecordFilledAnewDuringTheLook_DoesNotGoBack()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        using PeerAgent observer = store.StartAttached();
        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        child.Ask("take count=1");
        child.Ask("ack");
        long floor = long.Parse(observer.Ask("floor"), System.Globalization.CultureInfo.InvariantCulture);
        observer.Trap("GroupNextScanned", 1, "stop");
        observer.Send("floor");
        observer.WaitUntilStopped();

        TakeOne(member);
        child.Trap("GroupRangeTaken", 1, "stop");
        child.Send("take count=1");
        child.WaitUntilStopped();
        observer.Continue();
        Assert.Equal($"ok {floor}", observer.Answer());
    }

    [Fact]
    public void Member_Fenced_WhenItGoesOnItsCallsThrowAndThenSucceed()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor, out int slot);
        child.Ask("take count=4");
        child.Ask("ack texts=m-0");
        child.Stop();
        using (StoreEngine engine = store.OpenEngine())
            Assert.Equal(1, engine.FenceGroupMember("workers", slot));

        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        Assert.Equal("m-1:2", Peek(member));
        Assert.Equal("m-2:2", Peek(member));
        child.Continue();
        Assert.StartsWith("GroupMemberFencedException", child.AskForError("ack texts=m-3"), StringComparison.Ordinal);
        Assert.Equal("m-3:2", child.Ask("take count=1"));
        child.Ask("ack");
    }

    /// <summary>
    /// A member is stopped while it gives a message back, and fenced; who fences it has given the message back too, and dies. Who
    /// took over then took the bit of the second for one of the first as well: the message waited twice.
    /// </summary>
    [Theory]
    [InlineData("GroupBitMoved", 2)]
    [InlineData("GroupReturned", 2)]
    public void Fence_KilledWhileItGivesBack_EachMessageComesOnce(string step, int hit)
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMemberStoppedInReject(store, survivor, out int slot);
        using PeerAgent fencer = store.StartAttached();
        fencer.Trap(step, hit);
        fencer.Send($"fence path={store.Path} slot={slot}");
        fencer.ExpectKilled();

        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        Assert.Equal(
            Enumerable.Range(0, Count).Select(i => $"m-{i}"), TakeAll(member).Order(StringComparer.Ordinal));

        child.Continue();
        Assert.StartsWith("error GroupMemberFencedException", child.Answer(), StringComparison.Ordinal);
        Assert.Equal([], TakeAll(member));
    }

    /// <summary>
    /// A member died while it was fenced, and another one got its slot: that one lost what it had in hand, and its calls threw,
    /// although it worked. The laboratory found it.
    /// </summary>
    [Fact]
    public void Fence_AnotherMemberTakesTheSlotMeanwhile_LeavesThatOneAlone()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent fencer = store.StartAttached();
        using PeerAgent child = StartMember(store, survivor, out int slot);
        child.Ask("take count=4");
        fencer.Trap("GroupTakenOver", 1, "stop");
        fencer.Send($"fence path={store.Path} slot={slot}");
        fencer.WaitUntilStopped();
        child.Kill();
        using MappedFileGroupMember next = survivor.OpenGroupMember("workers", s_options);
        Assert.Equal(slot, next.Slot);
        // In ranges before and after the one that the fencer has come to.
        List<long> offsets = [];
        for (int i = 4; i < 10; i++)
        {
            Assert.True(next.TryConsume(out ReadOnlySpan<byte> message));
            Assert.Equal($"m-{i}", CrashMessage.Read(message));
            offsets.Add(next.MessageOffset);
        }

        fencer.Continue();

        Assert.Equal("ok 1", fencer.Answer());
        next.Acknowledge([.. offsets]);
    }

    /// <summary>
    /// A member is stopped while it gives a message back, and fenced; who takes over gives the message back too. A copy that was
    /// saved then had it twice, and after a power loss it came twice: the laboratory found that, one run in some hundred.
    /// </summary>
    [Fact]
    public void Save_MemberFencedWhileItGivesAMessageBack_HasTheMessageOnce()
    {
        using var store = new CrashStore();
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMemberStoppedInReject(store, survivor, out int slot);
        using StoreEngine engine = store.OpenEngine();
        engine.FenceGroupMember("workers", slot);
        using MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        member.Flush();
        SavedGroup saved = GroupFile.ReadSaved(engine.Store.Directory, engine.Store.Meta.StoreId, "workers")!;
        Assert.Equal(4, saved.Leases.Count(lease => lease.IsSingle));
        Assert.Equal(4, saved.Leases.DistinctBy(lease => lease.Start).Count());

        // All have ended, and it is still stopped.
        Assert.Equal(Enumerable.Range(0, 4).Select(i => $"m-{i}"), TakeAll(member)[..4].Order(StringComparer.Ordinal));
        member.Flush();
        saved = GroupFile.ReadSaved(engine.Store.Directory, engine.Store.Meta.StoreId, "workers")!;
        Assert.Empty(saved.Leases);
    }

    /// <summary>
    /// A member was stopped while it saved its group, in a container that was frozen for example. A removal waited for it for 30
    /// s, with the lock that openers need, and so did the end of each other member.
    /// </summary>
    [Fact]
    public void Save_MemberStoppedInIt_KeepsRemovalsAndOtherMembersForAMoment()
    {
        using var store = new CrashStore(segmentSize: 4096);
        using MappedFileQueue survivor = store.Open();
        using PeerAgent child = StartMember(store, survivor);
        child.Ask("take count=1");
        child.Ask("ack");
        child.Trap("GroupSaved", 1, "stop");
        child.Send("save");
        child.WaitUntilStopped();
        CrashStore.Append(survivor, Enumerable.Range(Count, 500).Select(i => $"m-{i}"));
        MappedFileGroupMember member = survivor.OpenGroupMember("workers", s_options);
        for (int i = 1; i < Count + 500; i++)
            Assert.Equal($"m-{i}:1", TakeOne(member));

        long began = Stopwatch.GetTimestamp();
        Assert.Throws<QueueInUseException>(() => survivor.Trim(long.MaxValue));
        member.Dispose();
        Assert.InRange(Stopwatch.GetElapsedTime(began), TimeSpan.Zero, TimeSpan.FromSeconds(20));

        child.Continue();
        Assert.Equal("ok", child.Answer());
        Assert.True(survivor.Trim(long.MaxValue) > 4096);
    }

    private static PeerAgent StartMember(CrashStore store, MappedFileQueue survivor) => StartMember(store, survivor, out _);

    private static PeerAgent StartMember(CrashStore store, MappedFileQueue survivor, out int slot)
    {
        CrashStore.Append(survivor, Enumerable.Range(0, Count).Select(i => $"m-{i}"));
        PeerAgent child = store.StartAttached();
        slot = int.Parse(child.Ask("member"), System.Globalization.CultureInfo.InvariantCulture);
        return child;
    }

    private static void ExpectRest(MappedFileGroupMember member, string back, int firstNew)
    {
        List<string> expected = [.. back.Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(text => $"m-{text}")];
        List<string> all = TakeAllCounted(member);
        Assert.Equal([.. expected, .. Enumerable.Range(firstNew, Count - firstNew).Select(i => $"m-{i}:1")],
            all.OrderBy(text => text, StringComparer.Ordinal));
    }

    private static string Await(PeerAgent agent)
    {
        string answer = "";
        Eventually.True(() => (answer = agent.Ask("take count=1")).Length > 0, "a message comes");
        return answer;
    }

    /// <summary>A member that has the first four messages, and is stopped while it gives m-1 back.</summary>
    private static PeerAgent StartMemberStoppedInReject(CrashStore store, MappedFileQueue survivor, out int slot)
    {
        PeerAgent child = StartMember(store, survivor, out slot);
        child.Ask("take count=4");
        child.Trap("GroupSingleWhole", 1, "stop");
        child.Send("reject text=m-1");
        child.WaitUntilStopped();
        return child;
    }

    private static string Peek(MappedFileGroupMember member) => member.TryConsume(
        out ReadOnlySpan<byte> message, TimeSpan.FromSeconds(30)) ? $"{CrashMessage.Read(message)}:{member.DeliveryCount}" : "";

    private static string TakeOne(MappedFileGroupMember member)
    {
        string text = Peek(member);
        member.Acknowledge();
        return text;
    }

    private static List<string> TakeAll(MappedFileGroupMember member) =>
        [.. TakeAllCounted(member).Select(text => text.Split(':')[0])];

    /// <summary>Until nothing comes for longer than it takes to see a death.</summary>
    private static List<string> TakeAllCounted(MappedFileGroupMember member)
    {
        List<string> texts = [];
        while (member.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromMilliseconds(500)))
        {
            texts.Add($"{CrashMessage.Read(message)}:{member.DeliveryCount}");
            member.Acknowledge();
        }

        return texts;
    }
}
