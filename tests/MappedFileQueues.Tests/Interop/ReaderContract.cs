using MappedFileQueues.Tests.Structure;

namespace MappedFileQueues.Tests.Interop;

/// <summary>What readers in other languages do beside queues of this process.</summary>
/// <param name="followCount">How many messages are followed.</param>
/// <param name="roomCount">How many come through a store with little room.</param>
public abstract class ReaderContract(int followCount, int roomCount)
{
    private protected const string WaitMs = "30000";

    [Fact]
    public void Follow_BesideAProducer_GetsEachMessageInOrder()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess reader = Start("follow", store.StorePath, $"{followCount}", WaitMs);
        reader.WaitForLine("opened 0");
        for (int i = 0; i < followCount; i++)
        {
            queue.Producer.Produce(InteropStore.Message(i));
            // It falls asleep now and then, and is woken.
            if (i % 500 == 0)
                Thread.Sleep(20);
        }

        reader.ExpectExit();
        Assert.Equal(Enumerable.Range(0, followCount).Select(InteropStore.Text), reader.Lines.Skip(1));
    }

    [Fact]
    public void OpenConsumer_NameIsHeldByTheOther_IsRefused()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using (queue.OpenConsumer("held"))
        {
            using ChildProcess refused = Start("hold", store.StorePath, "HELD");
            Assert.Equal(1, refused.WaitForExit());
            Assert.Contains("open: in-use: ", refused.ErrorText, StringComparison.Ordinal);
        }

        using ChildProcess holder = Start("hold", store.StorePath, "Held");
        holder.WaitForLine("held");
        Assert.Throws<QueueInUseException>(() => queue.OpenConsumer("held"));
        holder.KillAndWait();
        queue.OpenConsumer("held").Dispose();
    }

    /// <summary>A store of Linux goes to Windows with its consumers' names.</summary>
    [Theory]
    [InlineData("nul")]
    [InlineData("Con.orders")]
    [InlineData("LPT1")]
    public void OpenConsumer_NameIsADeviceOfWindows_IsRefused(string name)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess refused = Start("hold", store.StorePath, name);
        Assert.Equal(1, refused.WaitForExit());
        Assert.Contains("no device of Windows", refused.ErrorText, StringComparison.Ordinal);
        ArgumentException same = Assert.Throws<ArgumentException>(() => queue.OpenConsumer(name));
        Assert.Contains("no device of Windows", same.Message, StringComparison.Ordinal);
    }

    /// <summary>A producer with a limit of unconsumed bytes sleeps until the consumer has committed.</summary>
    [Fact]
    public void Commit_ProducerWaitsForRoom_IsWoken()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store, maxUnconsumedBytes: 4096);
        queue.OpenConsumer("slow").Dispose();
        using ChildProcess consumer = Start("consume", store.StorePath, "slow", $"{roomCount}", WaitMs);
        for (int i = 0; i < roomCount; i++)
            queue.Producer.Produce(InteropStore.Message(i));
        consumer.ExpectExit();
        Assert.Equal(Enumerable.Range(0, roomCount).Select(InteropStore.Text), consumer.Lines.Skip(1).SkipLast(1));
    }

    /// <summary>Starts the reader's test program.</summary>
    private protected abstract ChildProcess Start(params IEnumerable<string> arguments);

    /// <summary>Runs a test program over all vectors.</summary>
    private protected static void CompareVectors(Func<IEnumerable<string>, ChildProcess> start)
    {
        (string Path, Vectors.Answer Expected)[] vectors = [.. Vectors.All()];
        using ChildProcess run = start(["dump", .. vectors.Select(vector => vector.Path)]);
        run.ExpectExit();
        Violations.None(VectorLines.Differences(
            vectors.SelectMany(vector => VectorLines.Of(vector.Path, vector.Expected)), run.Lines));
    }

    /// <summary>Consumes messages in a process of its own, and gives them.</summary>
    private protected IEnumerable<string> Consume(TempStore store, string name, int count)
    {
        using ChildProcess run = Start("consume", store.StorePath, name, $"{count}", WaitMs);
        run.ExpectExit();
        return run.Lines.Skip(1).SkipLast(1);
    }
}
