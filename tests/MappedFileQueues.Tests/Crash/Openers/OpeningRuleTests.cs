using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Crash.Openers;

/// <summary>docs/DESIGN.md section 3: who counts as alone, and what an opener does then and does not do otherwise.</summary>
[Trait("Category", "Slow")]
public sealed unsafe class OpeningRuleTests
{
    private const ulong Mark = 12345;

    /// <summary>Only a lone opener writes the control page anew; a counter that no rule needs shows who did.</summary>
    [Fact]
    public void Open_BesideOthers_RebuildsNothing()
    {
        using var store = new CrashStore();
        MappedFileQueue first = store.Open();
        using (var words = new StoreWords(store.Path))
        {
            SharedWord.WriteRelease(words.Control.RepairCount, Mark);
            using (MappedFileQueue second = store.Open())
            {
                using PeerAgent third = store.StartAttached();
                first.Dispose();
                third.Ask("close");
                third.Ask(store.OpenCommand);
                Assert.Equal(Mark, SharedWord.ReadAcquire(words.Control.RepairCount));
                third.Kill();
            }

            Assert.Equal(Mark, SharedWord.ReadAcquire(words.Control.RepairCount));
            using MappedFileQueue alone = store.Open();
            Assert.Equal(0u, SharedWord.ReadAcquire(words.Control.RepairCount));
        }
    }

    /// <summary>A process that was killed is no longer attached: the next one is alone.</summary>
    [Fact]
    public void Open_AfterEverybodyWasKilled_IsAlone()
    {
        using var store = new CrashStore();
        using (PeerAgent one = store.StartAttached())
        using (PeerAgent two = store.StartAttached())
        {
            one.Ask("append prefix=c count=3");
            using (var words = new StoreWords(store.Path))
                SharedWord.WriteRelease(words.Control.RepairCount, Mark);
            one.Kill();
            two.Kill();
        }

        using MappedFileQueue alone = store.Open();
        using var after = new StoreWords(store.Path);
        Assert.Equal(0u, SharedWord.ReadAcquire(after.Control.RepairCount));
        Assert.Equal(["c-0", "c-1", "c-2"], CrashStore.ReadAll(alone, "all"));
    }

    /// <summary>
    /// `attached` is shared by everyone once open, also by the one who was alone, and nobody upgrades it again when the others
    /// have gone (a failed upgrade would drop it).
    /// </summary>
    [Fact]
    public void Attached_AfterOpening_IsSharedAndNeverUpgraded()
    {
        using var store = new CrashStore();
        using MappedFileQueue first = store.Open();
        using var words = new StoreWords(store.Path);
        ExpectShared(words);
        using (MappedFileQueue second = store.Open())
        {
            second.OpenProducer();
            ExpectShared(words);
        }

        CrashStore.Append(first, "m");
        ExpectShared(words);
    }

    /// <summary>Waiting for the producers' lock happens without `open` in the hand.</summary>
    [Fact]
    public void Open_WhileAnotherWaitsForTheProducersLock_DoesNotWait()
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using PeerAgent holder = store.StartAttached();
        holder.Ask("append prefix=c");
        using PeerAgent waiting = PeerAgent.Start();
        waiting.Ask(store.OpenCommand + " wait=600000");
        waiting.Send("append prefix=w");

        for (int i = 0; i < 20; i++)
        {
            using MappedFileQueue queue = store.Open();
            Assert.Equal(["c-0"], CrashStore.ReadAll(queue, $"reads-{i}"));
        }

        holder.Ask("close");
        Assert.Equal("ok", waiting.Answer());
        Assert.Equal(["c-0", "w-0"], store.Peek());
    }

    /// <summary>The holder of the producers' lock dies instead: who waits gets it.</summary>
    [Fact]
    public void Producer_HolderOfTheLockKilled_WaiterGetsIt()
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using PeerAgent holder = store.StartAttached();
        holder.Ask("append prefix=c");
        using PeerAgent waiting = PeerAgent.Start();
        waiting.Ask(store.OpenCommand + " wait=600000");
        waiting.Send("append prefix=w");
        Assert.Throws<QueueInUseException>(() =>
        {
            using MappedFileQueue queue = store.Open();
            queue.OpenProducer();
        });

        holder.Kill();
        Assert.Equal("ok", waiting.Answer());
        Assert.Equal(["c-0", "w-0"], store.Peek());
    }

    /// <summary>
    /// Producers walk over claims of the living, so the hint may be above a hole. A lone opener walks from the checkpoint:
    /// the hole is padding before anybody reads.
    /// </summary>
    [Fact]
    public void Recover_HoleBelowTheHint_BecomesPadding()
    {
        // One segment: after a roll the background would look after the hole itself.
        using var store = new CrashStore(4 << 20);
        long hole;
        using (MappedFileQueue queue = store.Open())
        {
            using PeerAgent child = store.StartAttached();
            child.Trap("PayloadWritten", 3);
            child.Send("append prefix=c count=5 size=300");
            child.ExpectKilled();
            using (MappedFileReader reader = MappedFileReader.Open(store.Path))
            {
                Assert.True(reader.TryRead(out _) && reader.TryRead(out _));
                hole = reader.NextOffset;
            }

            CrashStore.Append(queue, Enumerable.Range(0, 8000).Select(i => $"m-{i}"));
            using var words = new StoreWords(store.Path);
            Assert.True(words.TailHint > hole + 65536, "the hint stands above the hole");
            Assert.Equal(FrameState.Claimed, words.StateAt(hole));
        }

        using MappedFileQueue alone = store.Open();
        using var after = new StoreWords(store.Path);
        Assert.Equal(FrameState.Padding, after.StateAt(hole));
        Assert.Equal(["c-0", "c-1", .. Enumerable.Range(0, 8000).Select(i => $"m-{i}")], CrashStore.ReadAll(alone, "all"));
    }

    /// <summary>
    /// An opener that is killed lets go of its locks one after the other: `open`, and a moment later `attached`. The next one
    /// failed to get that alone, then got it shared, and took somebody alive for granted: the store that the dead one had begun
    /// to recover, or had not, was used as it was there. The moment is made here by a lock of the test's.
    /// </summary>
    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(20)]
    public void Open_DeadOpenerLetsGoOfAttachedLate_Recovers(int attempt)
    {
        using var store = new CrashStore();
        store.Open().Dispose();
        using var words = new StoreWords(store.Path);
        SharedWord.WriteRelease(words.Control.RepairCount, Mark);
        PlatformLock dying = words.TryLock(StoreNames.AttachedLock, LockKind.Exclusive)!;
        int tries = 0;
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == StoreNames.AttachedLock && ++tries == attempt)
                dying.Dispose();
        };

        using MappedFileQueue queue = store.Open();

        Assert.True(tries >= attempt);
        Assert.Equal(0u, SharedWord.ReadAcquire(words.Control.RepairCount));
    }

    /// <summary>
    /// Whatever the locks say: beside others only a store is used whose control page was written to its end.
    /// </summary>
    [Theory]
    [InlineData("stage")]
    [InlineData("missing")]
    public void Open_AttachedButNotRecovered_WaitsUntilItIsAlone(string damage)
    {
        using var store = new CrashStore();
        store.Open().Dispose();
        using var words = new StoreWords(store.Path);
        SharedWord.WriteRelease(words.Control.RepairCount, Mark);
        if (damage == "stage")
            words.Control.SetStage(RecoveryStage.AfterDeaths);
        else
            File.Delete(Path.Combine(store.Path, StoreNames.Control));
        PlatformLock other = words.TryLock(StoreNames.AttachedLock, LockKind.Shared)!;
        int tries = 0;
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == StoreNames.AttachedLock && ++tries == 10)
                other.Dispose();
        };

        using MappedFileQueue queue = store.Open();

        using var after = new StoreWords(store.Path);
        Assert.True(tries >= 10);
        Assert.Equal(0u, SharedWord.ReadAcquire(after.Control.RepairCount));
        Assert.Equal(RecoveryStage.Finished, after.Control.Stage);
    }

    /// <summary>
    /// A process that knows no more of the boot than that it is another one waited 30 s for the living to go, and then failed.
    /// Their lock says that memory is whole, whatever the boot is called.
    /// </summary>
    [Fact]
    public void Open_OthersAttachedInAnotherBoot_JoinsAtOnce()
    {
        using var store = new CrashStore();
        using PeerAgent other = store.StartAttached(Guid.NewGuid());
        other.Ask("append prefix=m size=64 count=1");
        int tries = 0;
        var disk = new FaultyDisk { BootIdOverride = Guid.NewGuid().ToString() };
        disk.Before = (call, name) => tries += call == DiskCall.Lock && name == StoreNames.AttachedLock ? 1 : 0;

        using MappedFileQueue queue = store.Open();

        Assert.InRange(tries, 1, 4);
        Assert.Equal(["m-0"], CrashStore.ReadAll(queue, "all"));
    }

    /// <summary>The same by a real death, whose order of closing nobody chooses; the waiter is there already.</summary>
    [Theory]
    [InlineData("AttachedAlone")]
    [InlineData("RecoveryBegun")]
    [InlineData("ControlCleared")]
    public void Open_OpenerKilledWhileItRecovers_WaiterRecovers(string step)
    {
        using var store = new CrashStore();
        string[] all = ["before", "behind"];
        using (MappedFileQueue queue = store.Open())
            CrashStore.Append(queue, all);
        using var words = new StoreWords(store.Path);
        for (int round = 0; round < 3; round++)
        {
            SharedWord.WriteRelease(words.Control.RepairCount, Mark);
            using PeerAgent dying = PeerAgent.Start();
            dying.Trap(step, 1, "stop");
            dying.Send(store.OpenCommand);
            dying.WaitUntilStopped();
            BackgroundCall opening = BackgroundCall.Start(() =>
            {
                using MappedFileQueue queue = store.Open();
                Assert.Equal(all, CrashStore.ReadAll(queue, "all"));
                Assert.Equal(0u, SharedWord.ReadAcquire(words.Control.RepairCount));
            });
            Eventually.True(() => opening.HasEnded || opening.IsWaiting, "it waits for the other");
            dying.Kill();
            opening.Join();
        }
    }

    private static void ExpectShared(StoreWords words)
    {
        Assert.Null(words.TryLock(StoreNames.AttachedLock, LockKind.Exclusive));
        using PlatformLock? shared = words.TryLock(StoreNames.AttachedLock, LockKind.Shared);
        Assert.NotNull(shared);
    }
}
