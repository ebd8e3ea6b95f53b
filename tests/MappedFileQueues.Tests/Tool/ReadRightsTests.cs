using System.Diagnostics;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// What docs/OPERATING.md says works with rights to read only does, as another user, and the rest says what is missing.
/// </summary>
[Trait("Category", "Slow")]
public sealed class ReadRightsTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(0, "info")]
    [InlineData(0, "consume")]
    [InlineData(0, "consume", "--consumer", "worker")]
    [InlineData(0, "tail", "--no-follow")]
    [InlineData(0, "verify")]
    [InlineData(0, "check", "--max-lag", "1G")]
    [InlineData(0, "repair", "--dry-run")]
    [InlineData(0, "export")]
    [InlineData(0, "top", "--once")]
    [InlineData(0, "consumers list")]
    [InlineData(0, "retention")]
    [InlineData(1, "repair", "--apply")]
    [InlineData(1, "fence", "0")]
    [InlineData(1, "trim", "--before", "0")]
    [InlineData(1, "consumers reset", "worker", "--to", "latest")]
    public void Command_RightsToReadOnly_WorksOrSaysWhatIsMissing(int expected, string command, params string[] options)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Giving up rights needs root on Linux.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "10").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "worker", "--commit", "--count", "3").Expect(0);
        TempStore.MakeReadable(_temp.Root);
        foreach (string path in Directory.GetFileSystemEntries(_temp.Root, "*", SearchOption.AllDirectories))
            TempStore.MakeReadable(path);
        string[] before = StoreSnapshot.Of(_temp.Root);
        string[] asNobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        ProcessStartInfo start = new(
            "setpriv", [.. asNobody, "dotnet", "exec", Repository.ToolPath, .. command.Split(' '), _temp.StorePath, .. options]);
        start.Environment["HOME"] = "/nonexistent";

        ToolRun run = ToolRun.Start(start, []);

        if (expected == 0)
            Assert.Empty(run.Expect(0).Error);
        else
            run.ExpectError(_temp.StorePath);
        Assert.Equal(before, StoreSnapshot.Of(_temp.Root));
    }
}
