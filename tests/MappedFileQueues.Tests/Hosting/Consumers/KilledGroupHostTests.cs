namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>Applications in processes of their own that share a group, and are killed.</summary>
[Trait("Category", "Slow")]
public sealed class KilledGroupHostTests
{
    private const int Members = 3;

    [Fact]
    public void Kill_OneOfTwoHosts_TheOtherHandlesAllThatItHad()
    {
        using TempStore store = new();
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = store.StorePath });
        using ChildProcess killed = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "group"]);
        using ChildProcess survivor = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "group"]);
        int count = ProduceUntilBothWork(queue, killed, survivor);
        killed.KillAndWait();
        Eventually.True(() => queue.GetInfo().Groups is [{ Lag: 0 }], "all are done");
        Eventually.Equal(
            count, () => killed.Lines.Concat(survivor.Lines).Where(IsEnd).Distinct().Count());
        survivor.KillAndWait();

        int handled = killed.Lines.Concat(survivor.Lines).Count(IsEnd);
        Assert.InRange(handled, count, count + Members);
    }

    /// <summary>It finishes what its handlers have; the other one handles the rest, and no message comes twice.</summary>
    [Fact]
    public void Interrupt_OneOfTwoHosts_NoMessageIsHandledTwice()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The child is interrupted by a signal.");
        using TempStore store = new();
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = store.StorePath });
        using ChildProcess interrupted = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "group"]);
        using ChildProcess survivor = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "group"]);
        int count = ProduceUntilBothWork(queue, interrupted, survivor);
        interrupted.Signal(2);
        interrupted.ExpectExit();
        Eventually.True(() => queue.GetInfo().Groups is [{ Lag: 0 }], "all are done");
        Eventually.Equal(count, () => interrupted.Lines.Concat(survivor.Lines).Where(IsEnd).Distinct().Count());
        survivor.KillAndWait();

        Assert.Equal(count, interrupted.Lines.Concat(survivor.Lines).Count(IsEnd));
        Assert.Equal(interrupted.Lines.Count(IsEnd), interrupted.Lines.Count(IsBegin));
        // The end may come when a member has taken a message that its handler has not got yet.
        Assert.InRange(queue.GetInfo().Groups[0].GivenBackCount, 0, Members);
    }

    /// <summary>
    /// Each host that gets the message dies. After as many deaths as a message has attempts, it goes to the dead letters, and no
    /// host dies of it any more.
    /// </summary>
    [Fact]
    public void Message_KillsEachHostThatGetsIt_GoesToTheDeadLetters()
    {
        const int Count = 100;
        const int AttemptsMax = 3;
        using TempStore store = new();
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = store.StorePath });
        for (int i = 0; i < Count; i++)
            queue.Producer.Produce(i);
        List<string> lines = [];
        for (int death = 0; death < AttemptsMax; death++)
        {
            using ChildProcess host = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "deadly"]);
            // It dies of the message. Once on a busy machine its end was seen before its last line was.
            host.WaitForExit();
            lines.AddRange(host.Lines);
        }

        using ChildProcess last = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "deadly"]);
        Eventually.True(() => queue.GetInfo().Groups is [{ Lag: 0 }], "all are done");
        Eventually.Equal(Count - 1, () => lines.Concat(last.Lines).Where(IsEnd).Distinct().Count());
        Assert.False(last.HasExited);
        last.KillAndWait();

        Assert.Equal(AttemptsMax, lines.Count(line => line == "begin 13"));
        Assert.DoesNotContain("begin 13", last.Lines);
        using MappedFileReader letters = MappedFileReader.Open(store.StorePath + "-dead-letters");
        Assert.True(letters.TryRead(out ReadOnlySpan<byte> bytes));
        DeadLetter letter = DeadLetter.Parse(bytes);
        Assert.Equal(13, BitConverter.ToInt64(letter.Message.Span));
        Assert.Equal((AttemptsMax, "DeliveriesMax"), (letter.Attempts, letter.ErrorType));
        Assert.False(letters.TryRead(out _));
    }

    /// <summary>Returns how many messages. Some of them wait then, and some are in hands.</summary>
    private static int ProduceUntilBothWork(MappedFileQueue<long> queue, ChildProcess one, ChildProcess other)
    {
        int count = 0;
        Eventually.True(
            () =>
            {
                Produce(10);
                return one.Lines.Count > 100 && other.Lines.Count > 100;
            },
            "both hosts work");
        Produce(1000);
        return count;

        void Produce(int length)
        {
            for (int i = 0; i < length; i++)
                queue.Producer.Produce(count++);
        }
    }

    private static bool IsBegin(string line) => line.StartsWith("begin ", StringComparison.Ordinal);

    private static bool IsEnd(string line) => line.StartsWith("end ", StringComparison.Ordinal);
}
