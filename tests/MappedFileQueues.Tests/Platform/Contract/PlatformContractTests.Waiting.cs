using System.Diagnostics;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Platform.Contract;

/// <summary>Waiting on shared words, fences, and what tells processes and boots apart.</summary>
public abstract partial class PlatformContractTests
{
    [Fact]
    public unsafe void WaitOnWord_WordHasChanged_ReturnsAtOnce()
    {
        using PlatformFile file = NewFile("file", 4096);
        using MappedView view = file.Map(4096, writable: true);
        *(uint*)view.Pointer = 1;
        Services.WaitOnWord((uint*)view.Pointer, 0, Timeout.InfiniteTimeSpan);
        Services.WaitOnWord((uint*)view.Pointer, uint.MaxValue, TimeSpan.FromDays(1));
    }

    [Fact]
    public unsafe void WaitOnWord_NobodyWakes_ReturnsAtTheTimeOutWithoutSpinning()
    {
        using PlatformFile file = NewFile("file", 4096);
        using MappedView view = file.Map(4096, writable: true);
        *(uint*)view.Pointer = uint.MaxValue;
        TimeSpan timeout = TimeSpan.FromMilliseconds(20);
        long start = Stopwatch.GetTimestamp();
        int calls = 0;
        do
        {
            Services.WaitOnWord((uint*)view.Pointer, uint.MaxValue, timeout);
            calls++;
        }
        while (Stopwatch.GetElapsedTime(start) < 5 * timeout);
        Assert.InRange(calls, 1, 50);
        Services.WaitOnWord((uint*)view.Pointer, uint.MaxValue, TimeSpan.Zero);
        Assert.True(Stopwatch.GetElapsedTime(start) < Eventually.DefaultDeadline);
    }

    [Fact]
    public unsafe void WakeWord_ThroughAnotherMapping_WakesTheWaiter()
    {
        // Each side waits without a time-out and has its own address for the word: a lost wake-up, or one that is known by
        // address, hangs.
        const uint RoundCount = 300;
        using PlatformFile file = NewFile("file", 4096);
        using MappedView first = file.Map(4096, writable: true);
        using MappedView second = file.Map(4096, writable: true);
        ForEachThread(2, side =>
        {
            uint* word = (uint*)((side == 0 ? first : second).Pointer + 64);
            for (uint turn = (uint)side; turn < RoundCount; turn += 2)
            {
                uint now;
                while ((now = Volatile.Read(ref *word)) != turn)
                    Services.WaitOnWord(word, now, Timeout.InfiniteTimeSpan);
                Volatile.Write(ref *word, turn + 1);
                Services.WakeWord(word);
            }
        });
        Assert.Equal(RoundCount, *(uint*)(first.Pointer + 64));
    }

    [Fact]
    public unsafe void WakeWord_ManySleepers_WakesAll()
    {
        using PlatformFile file = NewFile("file", 4096);
        using MappedView view = file.Map(4096, writable: true);
        uint* word = (uint*)view.Pointer;
        const int SleeperCount = 4;
        using CountdownEvent ready = new(SleeperCount);
        ForEachThread(SleeperCount + 1, thread =>
        {
            if (thread < SleeperCount)
            {
                ready.Signal();
                while (Volatile.Read(ref *(uint*)view.Pointer) == 0)
                    Services.WaitOnWord((uint*)view.Pointer, 0, Timeout.InfiniteTimeSpan);
                return;
            }

            Assert.True(ready.Wait(Eventually.DefaultDeadline));
            Volatile.Write(ref *(uint*)view.Pointer, 1);
            Services.WakeWord((uint*)view.Pointer);
        });
        Assert.Equal(1u, *word);
    }

    [Fact]
    public void RegisterForFence_ThenFence_WorksFromAnyThread()
    {
        // Where it cannot be registered the fence must say no, for the callers then use a costlier way.
        bool registered = Services.RegisterForBarrier();
        Assert.Equal(registered, Services.RegisterForBarrier());
        Assert.False(registered && Services.IsPortable);
        ForEachThread(4, _ =>
        {
            for (int round = 0; round < 100; round++)
                Assert.Equal(registered, Services.BarrierOtherProcesses());
        });
    }

    [Fact]
    public void BootId_OnLinux_IsTheKernelsInBoth()
    {
        Assert.Equal(File.ReadAllText("/proc/sys/kernel/random/boot_id").Trim(), Services.BootId);
        Assert.Equal(Other.BootId, Services.BootId);
    }

    /// <summary>Both may open the same store, although only one of them can ask the kernel for the id of its memory.</summary>
    [Fact]
    public void Boot_OfEitherPlatform_IsTheSame()
    {
        Assert.True(Services.Boot.IsSameAs(Other.Boot.Stored));
        Assert.True(Other.Boot.IsSameAs(Services.Boot.Stored));
    }

    [Fact]
    public void ProcessStartTime_LivingAndDead_TellsThem()
    {
        long own = Services.ProcessStartTime(Environment.ProcessId);
        Assert.True(own > 0);
        Assert.Equal(own, Other.ProcessStartTime(Environment.ProcessId));
        Assert.Equal(0, Services.ProcessStartTime(int.MaxValue));
        Assert.Equal(0, Services.ProcessStartTime(0));
        Assert.Equal(0, Services.ProcessStartTime(-1));

        using ChildProcess child = ChildProcess.Start(new ProcessStartInfo("cat"));
        int id = child.Id;
        Assert.True(Services.ProcessStartTime(id) >= own);
        child.KillAndWait();
        Assert.Equal(0, Services.ProcessStartTime(id));
    }
}
