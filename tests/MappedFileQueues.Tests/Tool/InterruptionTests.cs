using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// Commands that a signal cuts short. `mfq consume` once returned 0 then, where its help says 130: a script could not tell half
/// of a store from all of it.
/// </summary>
[Trait("Category", "Slow")]
public sealed class InterruptionTests : IDisposable
{
    private const int SigInt = 2;

    private readonly TempStore _temp = new();

    public InterruptionTests() => Assert.SkipWhen(OperatingSystem.IsWindows(), "Ctrl-C is sent as a signal.");

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(SigInt, 130)]
    [InlineData(ChildProcess.SigTerm, 143)]
    public void ConsumeFollow_Signal_WhatWasWrittenIsCommittedAndTheCodeSaysWhichSignal(int signal, int expectedCode)
    {
        ToolRun.WithInput([.. "early\n"u8], "produce", _temp.StorePath).Expect(0);

        using ChildProcess follower =
            ChildProcess.StartTool("consume", _temp.StorePath, "--follow", "--consumer", "c", "--commit");
        follower.WaitForLine("early");
        ToolRun.WithInput([.. "late\n"u8], "produce", _temp.StorePath).Expect(0);
        follower.WaitForLine("late");
        follower.Signal(signal);

        follower.ExpectExit(expectedCode);
        Assert.Equal(["early", "late"], follower.Lines);
        Assert.Empty(follower.ErrorText);
        Assert.Empty(ToolRun.Of("consume", _temp.StorePath, "--consumer", "c").Expect(0).Text);
    }

    /// <summary>The first signal was noted, and the command went on waiting for the pipe.</summary>
    [Theory]
    [InlineData("produce", "--lines")]
    [InlineData("import", null)]
    public void Read_NamedPipeIsIdle_TheFirstSignalEndsIt(string command, string? option)
    {
        string pipe = Path.Combine(_temp.Root, "pipe");
        MountedFileSystem.Run("mkfifo", pipe);
        // Open for both, so that the command has a writer to wait for.
        using FileStream writer = new(pipe, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite, bufferSize: 0);
        writer.Write("{\"text\":\"one\"}\n"u8);
        using ChildProcess reading =
            ChildProcess.StartTool(option is null ? [command, _temp.StorePath, pipe] : [command, _temp.StorePath, option, pipe]);
        Eventually.True(
            () => Directory.Exists(_temp.StorePath) && ToolRun.Of("consume", _temp.StorePath).Lines.Length == 1,
            "it has read a line");

        reading.Signal(ChildProcess.SigTerm);

        reading.ExpectExit(143);
        Assert.Single(ToolRun.Of("consume", _temp.StorePath).Expect(0).Lines);
    }

    /// <summary>
    /// The pipe is full and nobody reads it: the first signal is noted, and cannot be acted on; the second ends the process. What
    /// was not taken is not committed: it comes again.
    /// </summary>
    [Fact]
    public void Consume_PipeIsFull_TheSecondSignalEndsIt()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Looks into /proc.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "20000").Expect(0);
        const string Script =
            "mkfifo \"$2/pipe\"; exec 9<>\"$2/pipe\"; "
            + "exec dotnet exec \"$0\" consume \"$1\" --consumer c --commit > \"$2/pipe\"";
        using ChildProcess stuck = ChildProcess.Start(
            new("bash", ["-c", $"trap - INT; ulimit -c 0; {Script}", Repository.ToolPath, _temp.StorePath, _temp.Root]));
        Eventually.True(() => IsWritingToAPipe(stuck.Id), "the pipe is full");

        stuck.Signal(ChildProcess.SigTerm);
        Assert.False(stuck.HasExited);
        Eventually.True(
            () =>
            {
                stuck.Signal(ChildProcess.SigTerm);
                return stuck.HasExited;
            },
            "the second signal ends it");

        Assert.Equal(143, stuck.WaitForExit());
        string text = ToolRun.Of("consume", _temp.StorePath, "--consumer", "c", "--count", "1").Expect(0).Text;
        Assert.StartsWith("00000000000000000000", text, StringComparison.Ordinal);
    }

    /// <summary>`timeout` and `sudo` pass a signal on that the process has got too, which once left the count untold.</summary>
    [Theory]
    [InlineData(1)]
    [InlineData(5)]
    public void Produce_WaitsForInput_WhatWasAppendedStaysAndIsTold(int signals)
    {
        using ChildProcess producer = ChildProcess.StartTool("produce", _temp.StorePath, "--output", "json");
        producer.Input.Write("one\ntwo\nthe third has no end");
        producer.Input.Flush();
        Eventually.True(() => CountMessages() == 2, "both lines are in the store");

        for (int i = 0; i < signals && !producer.HasExited; i++)
            producer.Signal(SigInt);

        producer.ExpectExit(130);
        Assert.Contains("\"messages\":2,\"bytes\":6", producer.Lines.Single(), StringComparison.Ordinal);
        Assert.Contains("\"isInterrupted\":true", producer.Lines.Single(), StringComparison.Ordinal);
        Assert.Equal("one\ntwo\n", ToolRun.Of("consume", _temp.StorePath).Expect(0).Text);
    }

    private static bool IsWritingToAPipe(int processId)
    {
        try
        {
            return Directory.EnumerateDirectories($"/proc/{processId}/task")
                .Any(task => File.ReadAllText(Path.Combine(task, "wchan")).Contains("pipe_write", StringComparison.Ordinal));
        }
        catch (IOException)
        {
            return false;
        }
    }

    private int CountMessages()
    {
        try
        {
            using var reader = MappedFileReader.Open(_temp.StorePath);
            int count = 0;
            while (reader.TryRead(out _))
                count++;
            return count;
        }
        catch (MappedFileQueueException)
        {
            return 0;
        }
    }
}
