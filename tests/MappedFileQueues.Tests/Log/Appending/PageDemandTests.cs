using MappedFileQueues.Segments;

namespace MappedFileQueues.Tests.Log.Appending;

/// <summary>When the room ahead of the tail is cached page by page.</summary>
public sealed class PageDemandTests
{
    private const long Mebibyte = 1 << 20;

    [Fact]
    public void WantsSinglePages_NothingKnownYet_False()
    {
        var demand = new PageDemand(false);
        demand.NoticeTail(1);

        Assert.False(demand.WantsSinglePages());
    }

    [Fact]
    public void WantsSinglePages_TailMovesFast_False() => Assert.False(MovingFast().WantsSinglePages());

    [Fact]
    public void WantsSinglePages_TailMovesSlowly_TrueOnceItIsNoPause()
    {
        var demand = new PageDemand(false);
        demand.NoticeTail(1);
        Thread.Sleep(100);
        demand.NoticeTail(Mebibyte);
        Assert.False(demand.WantsSinglePages());
        Thread.Sleep(100);
        demand.NoticeTail(2 * Mebibyte);

        Assert.True(demand.WantsSinglePages());
    }

    [Fact]
    public void WantsSinglePages_FlushIsAwaited_TrueHoweverFast()
    {
        PageDemand demand = MovingFast();
        demand.NoticeFlush();

        Assert.True(demand.WantsSinglePages());
    }

    [Fact]
    public void AwaitsFlushes_FromTheStart_UntilNobodyHasWaitedForASecond()
    {
        var demand = new PageDemand(true);

        Assert.True(demand.AwaitsFlushes());
        Eventually.True(() => !demand.AwaitsFlushes(), "a second has passed");
    }

    private static PageDemand MovingFast()
    {
        var demand = new PageDemand(false);
        demand.NoticeTail(1);
        // A terabyte since the line before: fast on any machine.
        demand.NoticeTail(Mebibyte * Mebibyte);
        return demand;
    }
}
