using MappedFileQueues.Log.Flushing;
using Xunit;

namespace MappedFileQueues.Tests.Log.Flushing;

/// <summary>
/// Callers that a flush freed together share the next one too: without that, 64 threads made two flushes for each message that
/// every one of them wrote, one for the first to come and one for the others, and all were woken twice.
/// </summary>
public class FlushCompanyTests
{
    private static readonly TimeSpan s_long = TimeSpan.FromMinutes(1);

    [Fact]
    public void Gather_Alone_WaitsForNobody()
    {
        var company = new FlushCompany(s_long);

        for (int i = 0; i < 3; i++)
        {
            company.Come();
            Assert.Equal(1, company.Gather());
            company.NoteFlush(s_long);
        }
    }

    [Fact]
    public async Task Gather_AfterAFlushForThree_WaitsUntilThreeHaveCome()
    {
        var company = new FlushCompany(s_long);
        Come(company, 3);
        Assert.Equal(3, company.Gather());
        company.NoteFlush(s_long);
        company.Come();

        var gathered = Task.Run(company.Gather);
        await Task.Delay(20, TestContext.Current.CancellationToken);
        Assert.False(gathered.IsCompleted);
        Come(company, 2);

        Assert.Equal(3, await gathered);
    }

    [Fact]
    public void Gather_OthersStayAway_GoesOnWithThoseThatCame()
    {
        var company = new FlushCompany(TimeSpan.FromMilliseconds(1));
        Come(company, 3);
        company.Gather();
        company.NoteFlush(s_long);
        company.Come();

        Assert.Equal(1, company.Gather());
        company.NoteFlush(s_long);
        company.Come();
        Assert.Equal(1, company.Gather());
    }

    [Fact]
    public void Gather_SomeCameDuringTheFlush_CountsThem()
    {
        var company = new FlushCompany(s_long);
        company.Come();
        company.Gather();
        Come(company, 2);

        Assert.Equal(2, company.Gather());
    }

    private static void Come(FlushCompany company, int count)
    {
        for (int i = 0; i < count; i++)
            company.Come();
    }
}
