namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// A few seconds of each part of the crash laboratory; `.ci/run` gives it more, a long run is one command (CONTRIBUTING.md, "The
/// laboratories").
/// </summary>
[Collection(AloneCollection.Name)]
[Trait("Category", "Slow")]
public sealed class CrashLabTests(ITestOutputHelper output)
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(4);

    [Theory]
    [InlineData("cut", "--images", "200")]
    [InlineData("retain", "--images", "200")]
    [InlineData("again", "--runs", "4")]
    [InlineData("kill", "--runs", "1")]
    [InlineData("fault", "--runs", "2")]
    [InlineData("hostile", "--runs", "1")]
    [InlineData("real-cut", "--runs", "1")]
    [InlineData("append", "--runs", "3")]
    [InlineData("pack", "--images", "2000")]
    public void Run_ShortBudget_FindsNothing(string part, string budget, string amount)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The laboratory runs on Linux only");
        using ChildProcess lab = CrashLabRun.Start(output, part, budget, amount);
        int code = lab.WaitForExit(s_limit);
        Assert.True(code == 0, string.Join('\n', lab.Lines.Take(40)));
    }
}
