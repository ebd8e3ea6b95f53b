using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tests.Log.Waiting;

/// <summary>
/// A producer that dies between its publish and its wake leaves sleepers whom nobody wakes. One thread of the process looks after
/// them (docs/DESIGN.md section 5, decision 6): each of its three reasons must end a sleep that would last a minute.
/// </summary>
[Trait("Category", "Slow")]
public sealed unsafe class SleeperWatchTests : IDisposable
{
    private static readonly TimeSpan s_sleep = TimeSpan.FromMinutes(1);
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(10);

    private readonly TempStore _store = new();
    private readonly QueueCore _queue;
    private readonly WakeSignal _wake;
    private readonly nint _header = (nint)NativeMemory.AllocZeroed(sizeof(ulong));

    public SleeperWatchTests()
    {
        _queue = new QueueCore(new MappedFileQueueOptions { StorePath = _store.StorePath }, StoreKind.Messages, 0, 0);
        _wake = _queue.Store.Wake;
    }

    public void Dispose()
    {
        _queue.Dispose();
        _store.Dispose();
        NativeMemory.Free((void*)_header);
    }

    [Fact]
    public void AMessageThatNobodyWokeForEndsTheSleep() => AssertEnds(() => SharedWord.WriteRelease((ulong*)_header, 1));

    [Fact]
    public void AWakerThatDiedBeforeItsSystemCallEndsTheSleep() => AssertEnds(() => SharedWord.Add(_wake.SequenceWord, 1));

    [Fact]
    public void PoisonEndsTheSleep() => AssertEnds(() => SharedWord.SetBits(_wake.Flag, ControlLayout.PoisonBit));

    [Fact]
    public void ASleeperWithoutAReasonSleepsOn()
    {
        _wake.Prepare(out ulong sequence);
        long began = Stopwatch.GetTimestamp();
        _wake.SleepWatched(sequence, TimeSpan.FromSeconds(1), (ulong*)_header);
        Assert.InRange(Stopwatch.GetElapsedTime(began), TimeSpan.FromSeconds(0.99), s_limit);
    }

    [Fact]
    public void ManySleepersAreAllLookedAfter()
    {
        _wake.Prepare(out ulong sequence);
        List<Thread> sleepers = [.. Enumerable.Range(0, 40).Select(_ => Start(sequence))];
        SharedWord.WriteRelease((ulong*)_header, 1);
        Assert.All(sleepers, sleeper => Assert.True(sleeper.Join(s_limit), "a sleeper was forgotten"));
    }

    private void AssertEnds(Action change)
    {
        _wake.Prepare(out ulong sequence);
        Thread sleeper = Start(sequence);
        Assert.False(sleeper.Join(TimeSpan.FromMilliseconds(250)), "the sleep ended without a reason");
        change();
        Assert.True(sleeper.Join(s_limit), "the watch did not end the sleep");
    }

    private Thread Start(ulong sequence)
    {
        Thread sleeper = new(() => _wake.SleepWatched(sequence, s_sleep, (ulong*)_header)) { IsBackground = true };
        sleeper.Start();
        return sleeper;
    }
}
