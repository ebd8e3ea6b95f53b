namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>Applications in processes of their own that share a group, and are killed.</summary>
[Trait("Category", "Slow")]
public sealed class KilledGroupHostTests
{
    private const int Members = 3;

    [Fact]
    public void Kill_OneOfTwoHosts_TheOtherHandlesAllThatItHad()
    {
        const int Count = 20_000;
        using TempStore store = new();
        using MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = store.StorePath });
        using ChildProcess killed = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "group"]);
        using ChildProcess survivor = ChildProcess.Start(Repository.HostPeerPath, [store.StorePath, "group"]);
        queue.Producer.Produce(0);
        Eventually.True(() => queue.GetInfo().Groups is [{ Lag: 0 }], "a host has joined");
        for (int i = 1; i < Count; i++)
            queue.Producer.Produce(i);
        Eventually.True(() => killed.Lines.Count > 100 && survivor.Lines.Count > 100, "both hosts work");
        killed.KillAndWait();
        Eventually.True(() => queue.GetInfo().Groups is [{ Lag: 0 }], "all are done");
        Eventually.Equal(
            Count, () => killed.Lines.Concat(survivor.Lines).Where(IsEnd).Distinct().Count());
        survivor.KillAndWait();

        int handled = killed.Lines.Concat(survivor.Lines).Count(IsEnd);
        Assert.InRange(handled, Count, Count + Members);
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
            Eventually.True(() => host.HasExited, "the host dies of the message");
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

    private static bool IsEnd(string line) => line.StartsWith("end ", StringComparison.Ordinal);
}
