using System.Diagnostics;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// A flush wakes those whom it has served and one more. The rules that keep the others from being forgotten are in
/// models/followers.pml; here is that the code wakes whom the model wakes, and that nobody is forgotten at full speed.
/// </summary>
[Trait("Category", "Slow")]
public sealed unsafe class FlushFollowersTests
{
    private readonly RecordingServices _os = new();

    [Fact]
    public void Leave_NobodySleeps_MakesNoSystemCall()
    {
        var followers = new FlushFollowers(_os);

        for (int i = 0; i < 10; i++)
        {
            followers.Close();
            long served = followers.EndServing();
            followers.CallNext();
            followers.WakeServed(served);
        }

        Assert.Empty(_os.Wakes);
    }

    [Fact]
    public void Leave_TwoGroupsSleep_CallsOneOfTheOpenOneThenWakesTheServedOne()
    {
        var followers = new FlushFollowers(_os);
        long first = followers.Prepare(out _);
        followers.Close();
        long second = followers.Prepare(out _);

        long served = followers.EndServing();
        followers.CallNext();
        followers.WakeServed(served);

        Assert.Equal(first, served);
        Assert.True(followers.IsServed(first));
        Assert.False(followers.IsServed(second));
        Assert.Equal([1, int.MaxValue], _os.Wakes.Select(static wake => wake.CountMax));
        Assert.NotEqual(_os.Wakes[0].Word, _os.Wakes[1].Word);
    }

    [Fact]
    public void CallNext_OnlyTheServedGroupSleeps_CallsNobody()
    {
        var followers = new FlushFollowers(_os);
        followers.Prepare(out _);
        followers.Close();
        followers.EndServing();

        followers.CallNext();

        Assert.Empty(_os.Wakes);
    }

    [Theory]
    [InlineData("called")]
    [InlineData("served")]
    [InlineData("interrupted")]
    public void Sleep_WokenBetweenTheLookAndTheSleep_ReturnsAtOnce(string how)
    {
        var followers = new FlushFollowers(CurrentPlatform.Services);
        long group = followers.Prepare(out uint word);
        if (how == "called")
            followers.CallNext();
        else if (how == "interrupted")
            followers.Interrupt();
        else
        {
            followers.Close();
            followers.WakeServed(followers.EndServing());
        }

        long began = Stopwatch.GetTimestamp();
        followers.Sleep(group, word, TimeSpan.FromHours(1));

        Assert.True(Stopwatch.GetElapsedTime(began) < Eventually.DefaultDeadline);
    }

    /// <summary>
    /// In a process whose sleeps last an hour a forgotten caller is a hang. Those with a time-out leave when they have just been
    /// called, or are about to be.
    /// </summary>
    [Theory]
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

    private sealed class RecordingServices() : ForwardingServices(CurrentPlatform.Services)
    {
        public List<(nint Word, int CountMax)> Wakes { get; } = [];

        public override void WakeWord(uint* word, int countMax = int.MaxValue) => Wakes.Add(((nint)word, countMax));

        protected override HeldDirectory Wrap(HeldDirectory directory) => directory;
    }
}
