namespace MappedFileQueues.Tests.Structure;

/// <summary>
/// The list of tests that the continuous build accepts as skipped holds only tests that exist, each with its
/// reason.
/// </summary>
public sealed class AllowedSkipsTests
{
    [Fact]
    public void AllowedSkips_EveryLine_NamesATestAndItsReason() =>
        Violations.None(FindErrors(File.ReadLines(Repository.PathOf(".ci/allowed-skips.txt"))));

    [Theory]
    [InlineData("MappedFileQueues.Tests.Structure.AllowedSkipsTests.FindErrors_Line_IsAnErrorOnlyWhenItIs # a reason", false)]
    [InlineData("# a comment", false)]
    [InlineData("", false)]
    [InlineData("MappedFileQueues.Tests.Structure.AllowedSkipsTests.FindErrors_Line_IsAnErrorOnlyWhenItIs", true)]
    [InlineData("MappedFileQueues.Tests.Structure.AllowedSkipsTests.GoneTest # a reason", true)]
    [InlineData("MappedFileQueues.Tests.Structure.GoneTests.Test # a reason", true)]
    public void FindErrors_Line_IsAnErrorOnlyWhenItIs(string line, bool isError) =>
        Assert.Equal(isError, FindErrors([line]).Any());

    private static IEnumerable<string> FindErrors(IEnumerable<string> lines) =>
        from line in lines
        let parts = line.Split('#', 2, StringSplitOptions.TrimEntries)
        where parts[0].Length > 0 && (parts.Length < 2 || parts[1].Length == 0 || !IsTest(parts[0]))
        select line;

    private static bool IsTest(string name)
    {
        int dot = name.LastIndexOf('.');
        return dot > 0
            && typeof(AllowedSkipsTests).Assembly.GetType(name[..dot])?.GetMethod(name[(dot + 1)..]) is { } method
            && method.IsDefined(typeof(FactAttribute), inherit: true);
    }
}
