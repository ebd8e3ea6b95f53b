using System.Diagnostics;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Platform.Contract;

/// <summary>Locks, within this process, between the two implementations, and against another process.</summary>
public abstract partial class PlatformContractTests
{
    private const string LockName = "lock";

    [Fact]
    public void TryLock_HeldExclusively_IsRefusedToAll()
    {
        using HeldDirectory second = Services.OpenDirectory(Temp.StorePath, create: true, mode: null)!;
        using (PlatformLock? held = Store.TryLock(LockName, LockKind.Exclusive))
        {
            Assert.NotNull(held);
            Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
            Assert.Null(second.TryLock(LockName, LockKind.Exclusive));
            Assert.Null(second.TryLock(LockName, LockKind.Shared));
        }

        using PlatformLock? next = second.TryLock(LockName, LockKind.Exclusive);
        Assert.NotNull(next);
        Assert.Equal([LockName], Store.List(""));
    }

    [Fact]
    public void TryLock_HeldShared_IsGivenToSharersOnly()
    {
        using PlatformLock? first = Store.TryLock(LockName, LockKind.Shared);
        using (PlatformLock? second = Store.TryLock(LockName, LockKind.Shared))
        {
            Assert.NotNull(first);
            Assert.NotNull(second);
            Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
        }

        Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
        first.Dispose();
        using PlatformLock? alone = Store.TryLock(LockName, LockKind.Exclusive);
        Assert.NotNull(alone);
    }

    [Fact]
    public void Dispose_OfALockTwice_DoesNotFreeTheNextHolders()
    {
        PlatformLock first = Store.TryLock(LockName, LockKind.Exclusive)!;
        first.Dispose();
        using PlatformLock? second = Store.TryLock(LockName, LockKind.Exclusive);
        first.Dispose();
        Assert.NotNull(second);
        Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
    }

    [Fact]
    public void Lock_NobodyDisposes_StaysHeld()
    {
        ForgetLock();
        for (int round = 0; round < 3; round++)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }

        Assert.Null(Store.TryLock(LockName, LockKind.Shared));
    }

    [Fact]
    public void Downgrade_Exclusive_LetsSharersIn()
    {
        using (PlatformLock held = Store.TryLock(LockName, LockKind.Exclusive)!)
        {
            held.Downgrade();
            Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
            using PlatformLock? sharer = Store.TryLock(LockName, LockKind.Shared);
            Assert.NotNull(sharer);
        }

        using PlatformLock? alone = Store.TryLock(LockName, LockKind.Exclusive);
        Assert.NotNull(alone);
    }

    [Fact]
    public void Downgrade_BesideProbes_KeepsTheLock()
    {
        using CancellationTokenSource stop = new();
        using Barrier started = new(2);
        ForEachThread(2, thread =>
        {
            started.SignalAndWait(Eventually.DefaultDeadline);
            if (thread == 0)
            {
                while (!stop.IsCancellationRequested)
                    Store.Probe(LockName)?.Dispose();
                return;
            }

            try
            {
                for (int round = 0; round < 200; round++)
                {
                    PlatformLock? held = null;
                    Eventually.True(() => (held = Store.TryLock(LockName, LockKind.Exclusive)) is not null, "the lock is free");
                    held!.Downgrade();
                    Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
                    held.Dispose();
                }
            }
            finally
            {
                stop.Cancel();
            }
        });
    }

    [Fact]
    public void Probe_MissingFreeAndHeld_TellsThem()
    {
        Store.Probe(LockName)!.Dispose();
        Store.Probe("folder/lock")!.Dispose();
        Assert.Empty(Store.List(""));

        PlatformLock held = Store.TryLock(LockName, LockKind.Exclusive)!;
        Assert.Null(Store.Probe(LockName));
        held.Downgrade();
        Store.Probe(LockName)!.Dispose();
        held.Dispose();
        using PlatformLock? first = Store.Probe(LockName);
        using PlatformLock? second = Store.Probe(LockName);
        Assert.NotNull(first);
        Assert.NotNull(second);

        // While it is probed, its owner cannot come back: the repair of a claim relies on that.
        Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
    }

    [Fact]
    public void TryLock_CannotBeOpened_ThrowsAndIsNeverFree()
    {
        Assert.True(Store.CreateSubdirectory("folder"));
        Assert.Throws<QueueDiskException>(() => Store.TryLock("folder", LockKind.Exclusive));
        Assert.Throws<QueueDiskException>(() => Store.TryLock("missing/lock", LockKind.Exclusive));
        Assert.Throws<QueueDiskException>(() => Store.Probe("folder"));
    }

    [Fact]
    public void TryLock_BothImplementations_ExcludeEachOther()
    {
        using HeldDirectory other = Other.OpenDirectory(Temp.StorePath, create: true, mode: null)!;
        using (PlatformLock? held = Store.TryLock(LockName, LockKind.Exclusive))
        {
            Assert.NotNull(held);
            Assert.Null(other.TryLock(LockName, LockKind.Exclusive));
            Assert.Null(other.TryLock(LockName, LockKind.Shared));
            Assert.Null(other.Probe(LockName));
            held.Downgrade();
            Assert.Null(other.TryLock(LockName, LockKind.Exclusive));
            using PlatformLock? sharer = other.TryLock(LockName, LockKind.Shared);
            Assert.NotNull(sharer);
        }

        using PlatformLock? alone = other.TryLock(LockName, LockKind.Exclusive);
        Assert.NotNull(alone);
    }

    [Fact]
    public void TryLock_ManyThreads_OneHolderAtATime()
    {
        const int ThreadCount = 4;
        const int TurnsEach = 50;
        int holders = 0;
        int collisions = 0;
        ForEachThread(ThreadCount, _ =>
        {
            for (int turn = 0; turn < TurnsEach; turn++)
            {
                PlatformLock? held = null;
                SpinWait spin = default;
                while ((held = Store.TryLock(LockName, LockKind.Exclusive)) is null)
                    spin.SpinOnce();
                if (Interlocked.Increment(ref holders) != 1)
                    Interlocked.Increment(ref collisions);
                Interlocked.Decrement(ref holders);
                held.Dispose();
            }
        });
        Assert.Equal(0, collisions);
    }

    [Fact]
    public void TryLock_HolderKilled_IsFree()
    {
        Store.TryLock(LockName, LockKind.Exclusive)!.Dispose();

        // flock(1) takes the lock and becomes cat, which prints the line once the lock is held and then waits for more.
        ProcessStartInfo start = new("flock", ["--no-fork", "--exclusive", Temp.PathOf(LockName), "cat"]);
        using ChildProcess child = ChildProcess.Start(start);
        child.Input.WriteLine("held");
        child.Input.Flush();
        child.WaitForLine("held");
        Assert.Null(Store.TryLock(LockName, LockKind.Exclusive));
        Assert.Null(Store.Probe(LockName));
        Assert.Equal(Services.IsPortable ? [] : [child.Id], Store.LockHolders(LockName)[0]);
        child.KillAndWait();
        using PlatformLock? taken = Store.TryLock(LockName, LockKind.Exclusive);
        Assert.NotNull(taken);
    }

    [Fact]
    public void LockHolders_OwnLocks_NameThisProcessOnce()
    {
        Assert.Empty(Store.LockHolders(LockName)[0]);
        using (PlatformLock first = Store.TryLock(LockName, LockKind.Shared)!)
        using (PlatformLock second = Store.TryLock(LockName, LockKind.Shared)!)
            Assert.Equal(Services.IsPortable ? [] : [Environment.ProcessId], Store.LockHolders(LockName)[0]);
        Assert.Empty(Store.LockHolders(LockName)[0]);
    }

    [System.Runtime.CompilerServices.MethodImpl(System.Runtime.CompilerServices.MethodImplOptions.NoInlining)]
    private void ForgetLock() => Assert.NotNull(Store.TryLock(LockName, LockKind.Exclusive));
}
