using System.Diagnostics;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// A flush wakes those whom it has served and one more. The rules that keep the others from being forgotten are in
/// models/followers.pml; here is that the code wakes whom the model wakes, and that nobody is forgotten at full speed.
/// <para>Callers that a flush freed together share the next one too: without that, 64 threads made two flushes for each message
/// that every one of them wrote, one for the first to come and one for the others, and all were woken twice.</para>
/// </summary>
public sealed class GroupCommitGateTests
{
    private static readonly TimeSpan s_long = TimeSpan.FromMinutes(1);

    private readonly RecordingServices _os = new();

    [Fact]
    public void Leave_NobodySleeps_MakesNoSystemCall()
    {
        var gate = new GroupCommitGate(_os, s_long);

        for (int i = 0; i < 10; i++)
        {
            gate.Close();
            long served = gate.EndServing();
            gate.CallNext();
            gate.WakeServed(served);
        }

        Assert.Empty(_os.Wakes);
    }

    [Fact]
    public void Leave_TwoGroupsSleep_CallsOneOfTheOpenOneThenWakesTheServedOne()
    {
        var gate = new GroupCommitGate(_os, s_long);
        long first = gate.Prepare(out _);
        gate.Close();
        long second = gate.Prepare(out _);

        long served = gate.EndServing();
        gate.CallNext();
        gate.WakeServed(served);

        Assert.Equal(first, served);
        Assert.True(gate.IsServed(first));
        Assert.False(gate.IsServed(second));
        Assert.Equal([1, int.MaxValue], _os.Wakes.Select(static wake => wake.CountMax));
        Assert.NotEqual(_os.Wakes[0].Word, _os.Wakes[1].Word);
    }

    [Fact]
    public void CallNext_OnlyTheServedGroupSleeps_CallsNobody()
    {
        var gate = new GroupCommitGate(_os, s_long);
        gate.Prepare(out _);
        gate.Close();
        gate.EndServing();

        gate.CallNext();

        Assert.Empty(_os.Wakes);
    }

    [Theory]
    [InlineData("called")]
    [InlineData("served")]
    [InlineData("interrupted")]
    public void Sleep_WokenBetweenTheLookAndTheSleep_ReturnsAtOnce(string how)
    {
        var gate = new GroupCommitGate(CurrentPlatform.Services, s_long);
        long group = gate.Prepare(out uint word);
        if (how == "called")
            gate.CallNext();
        else if (how == "interrupted")
            gate.Interrupt();
        else
        {
            gate.Close();
            gate.WakeServed(gate.EndServing());
        }

        long began = Stopwatch.GetTimestamp();
        gate.Sleep(group, word, TimeSpan.FromHours(1));

        Assert.True(Stopwatch.GetElapsedTime(began) < Eventually.DefaultDeadline);
    }

    /// <summary>
    /// In a process whose sleeps last an hour a forgotten caller is a hang. Those with a time-out leave when they have just been
    /// called, or are about to be.
    /// </summary>
    [Theory]
    [Trait("Category", "Slow")]
    [InlineData(24, 0)]
    [InlineData(24, 8)]
    public void Produce_NoTimeOutToFallBackOn_EveryCallerReturns(int threads, int impatient)
    {
        const int each = 200;
        using CrashStore store = new();
        using MappedFileQueue queue = store.Open();
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask("sleepmax ms=3600000");
        agent.Ask(store.OpenCommand);

        agent.Ask($"group threads={threads} impatient={impatient} count={each}");

        Assert.Equal(threads * each, store.Peek().Count);
    }

    [Fact]
    public void Gather_Alone_WaitsForNobody()
    {
        var gate = new GroupCommitGate(_os, s_long);

        for (int i = 0; i < 3; i++)
        {
            gate.Come();
            Assert.Equal(1, gate.Gather());
            gate.NoteFlush(s_long);
        }
    }

    [Fact]
    public async Task Gather_AfterAFlushForThree_WaitsUntilThreeHaveCome()
    {
        var gate = new GroupCommitGate(_os, s_long);
        Come(gate, 3);
        Assert.Equal(3, gate.Gather());
        gate.NoteFlush(s_long);
        gate.Come();

        var gathered = Task.Run(gate.Gather);
        await Task.Delay(20, TestContext.Current.CancellationToken);
        Assert.False(gathered.IsCompleted);
        Come(gate, 2);

        Assert.Equal(3, await gathered);
    }

    [Fact]
    public void Gather_OthersStayAway_GoesOnWithThoseThatCame()
    {
        var gate = new GroupCommitGate(_os, TimeSpan.FromMilliseconds(1));
        Come(gate, 3);
        gate.Gather();
        gate.NoteFlush(s_long);
        gate.Come();

        Assert.Equal(1, gate.Gather());
        gate.NoteFlush(s_long);
        gate.Come();
        Assert.Equal(1, gate.Gather());
    }

    [Fact]
    public void Gather_SomeCameDuringTheFlush_CountsThem()
    {
        var gate = new GroupCommitGate(_os, s_long);
        gate.Come();
        gate.Gather();
        Come(gate, 2);

        Assert.Equal(2, gate.Gather());
    }

    private static void Come(GroupCommitGate gate, int count)
    {
        for (int i = 0; i < count; i++)
            gate.Come();
    }

    private sealed unsafe class RecordingServices() : ForwardingServices(CurrentPlatform.Services)
    {
        public List<(nint Word, int CountMax)> Wakes { get; } = [];

        public override void WakeWord(uint* word, int countMax = int.MaxValue) => Wakes.Add(((nint)word, countMax));

        protected override HeldDirectory Wrap(HeldDirectory directory) => directory;
    }
}
