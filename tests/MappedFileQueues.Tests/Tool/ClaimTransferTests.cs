using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Tool;

/// <summary>Messages that stand behind one that a producer has begun and not finished.</summary>
[Trait("Category", "Slow")]
public sealed class ClaimTransferTests
{
    /// <summary>
    /// Two killed producers, and no program opened the store since: `mfq export` and `replay` left out all that was after the
    /// first one's claim and said nothing, and a reader that began at the end began in the middle.
    /// </summary>
    [Theory]
    [InlineData(3)]
    [InlineData(0)]
    public void Export_BehindADeadProducersClaim_HoldsEveryMessage(int countBehind)
    {
        using var store = new CrashStore(mode: ProducerMode.Shared);
        using (PeerAgent dead = HoldAClaim(store))
        {
            using PeerAgent second = store.StartAttached();
            if (countBehind > 0)
                second.Ask($"append prefix=m count={countBehind}");
            second.Kill();
            dead.Kill();
        }

        string copy = store.Path + ".copy";
        string count = $"{1 + countBehind} message";
        string exported = ToolRun.Of("export", store.Path, "--to", copy + ".jsonl").Expect(0).Text;
        Assert.StartsWith($"Exported {count}", exported, StringComparison.Ordinal);
        Assert.StartsWith($"Replayed {count}", ToolRun.Of("replay", store.Path, copy).Expect(0).Text, StringComparison.Ordinal);
        string last = countBehind > 0 ? $"m-{countBehind - 1}" : "c-0";
        string tail = ToolRun.Of("tail", store.Path, "--last", "1", "--no-follow").Expect(0).Text;
        Assert.Contains(last, tail, StringComparison.Ordinal);
        using (MappedFileReader reader = MappedFileReader.Open(store.Path, QueueStart.FromEnd(1)))
        {
            Assert.Equal(1 + countBehind, reader.GetInfo(countsMessages: true).MessageCount);
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal(last, CrashMessage.Read(message));
        }

        using (MappedFileReader reader = MappedFileReader.Open(store.Path, QueueStart.Latest))
            Assert.False(reader.TryRead(out _));
        using MappedFileQueue queue = store.Open();
        Assert.Equal(1 + countBehind, CrashStore.ReadAll(queue, "all").Count);
    }

    /// <summary>The producer lives: the transfer waits for it, as a snapshot does.</summary>
    [Fact]
    public void Export_BehindALivingProducersClaim_WaitsForIt()
    {
        using var store = new CrashStore(mode: ProducerMode.Shared);
        using PeerAgent holder = HoldAClaim(store);
        using PeerAgent second = store.StartAttached();
        second.Ask("append prefix=m count=3");
        string text = "";
        BackgroundCall exporting = BackgroundCall.Start(() => text = ToolRun.Of("export", store.Path).Expect(0).Text);
        Thread.Sleep(2000);
        Assert.False(exporting.HasEnded);

        holder.Send("publish");
        holder.Answer();
        exporting.Join();

        // The head, c-0, what was held, three messages, the end.
        string[] lines = text.Split('\n', StringSplitOptions.RemoveEmptyEntries);
        Assert.Equal(7, lines.Length);
        Assert.Equal("{\"end\":5}", lines[^1]);
    }

    private static PeerAgent HoldAClaim(CrashStore store)
    {
        PeerAgent holder = store.StartAttached();
        holder.Ask("append prefix=c");
        holder.Send("hold text=held");
        holder.NextLine(line => line == "held");
        return holder;
    }
}
