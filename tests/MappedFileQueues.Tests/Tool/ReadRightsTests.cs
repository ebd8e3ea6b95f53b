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

        ToolRun run = AsNobody([.. command.Split(' '), _temp.StorePath, .. options]);

        if (expected == 0)
            Assert.Empty(run.Expect(0).Error);
        else
            run.ExpectError(_temp.StorePath);
        Assert.Equal(before, StoreSnapshot.Of(_temp.Root));
    }

    /// <summary>A folder that nobody may look into was left out in silence, and with it the stores in it.</summary>
    [Theory]
    [InlineData("top", 0)]
    [InlineData("check", 3)]
    public void Folders_WhatCannotBeRead_IsNamedWithTheReason(string command, int exitCode)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Giving up rights needs root on Linux.");
        string good = Path.Combine(_temp.Root, "good");
        string hidden = Path.Combine(_temp.Root, "hidden");
        foreach (string store in new[] { good, Path.Combine(hidden, "orders") })
            ToolRun.Of("produce", store, "--messages", "1").Expect(0);
        string[] inGood = Directory.GetFileSystemEntries(good, "*", SearchOption.AllDirectories);
        foreach (string path in inGood.Append(good).Append(_temp.Root))
            TempStore.MakeReadable(path);
        if (!OperatingSystem.IsWindows())
            File.SetUnixFileMode(hidden, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);

        ToolRun run = AsNobody(command == "top" ? ["top", _temp.Root, "--once"] : ["check", _temp.Root]).Expect(exitCode);

        string line = Assert.Single(run.Lines, line => line.Contains("looked into", StringComparison.Ordinal));
        Assert.Matches("UNKNOWN: .*The folder cannot be looked into: .*hidden.* denied", line);
        Assert.Contains(run.Lines, line => line.Contains("good", StringComparison.Ordinal));
    }

    /// <summary>Commands that only read asked for the right to write.</summary>
    [Theory]
    [InlineData("info")]
    [InlineData("consume")]
    [InlineData("verify")]
    public void ReadingCommand_NoRightToRead_DoesNotAskForMore(string command)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Giving up rights needs root on Linux.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").Expect(0);
        TempStore.MakeReadable(_temp.Root);

        ToolRun run = AsNobody([command, _temp.StorePath]).Expect(1);

        Assert.Contains("Permission denied", run.Error, StringComparison.Ordinal);
        Assert.Contains("to read is enough for what only reads", run.Error, StringComparison.Ordinal);
    }

    /// <summary>
    /// A group whose files belong to another user was told to be damaged, with the advice to reset it, which gives all messages
    /// to its members once more.
    /// </summary>
    [Theory]
    [InlineData("as a user who may read it", "verify")]
    [InlineData("Nothing is damaged", "repair", "--dry-run")]
    public void ReadingCommand_GroupThatMayNotBeRead_IsNotDamaged(string expected, string command, params string[] options)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Giving up rights needs root on Linux.");
        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
            queue.OpenGroupMember("workers").Dispose();
        foreach (string path in Directory.GetFileSystemEntries(_temp.Root, "*", SearchOption.AllDirectories).Append(_temp.Root))
        {
            if (!Path.GetFileName(path).StartsWith("workers.", StringComparison.Ordinal))
                TempStore.MakeReadable(path);
        }

        ToolRun run = AsNobody([command, _temp.StorePath, .. options]).Expect(0);

        Assert.Contains(expected, run.Text, StringComparison.Ordinal);
    }

    private static ToolRun AsNobody(string[] arguments)
    {
        string[] asNobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        ProcessStartInfo start = new("setpriv", [.. asNobody, "dotnet", "exec", Repository.ToolPath, .. arguments]);
        start.Environment["HOME"] = "/nonexistent";
        return ToolRun.Start(start, []);
    }
}
