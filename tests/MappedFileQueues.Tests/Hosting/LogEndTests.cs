namespace MappedFileQueues.Tests.Hosting;

/// <summary>
/// A process that ends without disposing its log provider. What it had logged since the last flush stayed in its memory, up to a
/// second of lines: those that tell why it ended.
/// </summary>
public sealed class LogEndTests
{
    [Theory]
    [InlineData("return", 0)]
    [InlineData("exit", 0)]
    [InlineData("throw", 128 + 6)]
    public void Log_ProcessEndsWithoutDispose_LastLinesAreInTheFile(string end, int exitCode)
    {
        using TempStore temp = new();
        string path = temp.PathOf("app.log");
        using (ChildProcess child = ChildProcess.Start(Repository.HostPeerPath, [path, "log", end]))
            child.ExpectExit(exitCode);

        string[] lines = File.ReadAllLines(path);
        Assert.Equal(2, lines.Length);
        Assert.EndsWith("before", lines[0]);
        Assert.EndsWith("handler", lines[1]);
    }
}
