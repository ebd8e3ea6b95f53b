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

    /// <summary>
    /// A sync has failed in some process. Everybody who is attached hears of it, in each language; those who only read do not.
    /// </summary>
    [Fact]
    public void Store_SyncHasFailed_ConsumersAndProducersSaySo()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        queue.Producer.Produce("message 0"u8);
        using MappedFileConsumer inSharp = queue.OpenConsumer("sharp");
        using ChildProcess sleeper = Start("consume", store.StorePath, "sleeper", "2", WaitMs);
        sleeper.WaitForLine("message 0");
        using (FileStream control = File.OpenWrite(store.PathOf("control")))
        {
            control.Position = 640 + 7;
            control.WriteByte(0x80);
        }

        Assert.Throws<QueuePoisonedException>(() => inSharp.TryConsume(out _));
        ExpectPoisoned(sleeper, "wait");
        using ChildProcess later = Start("consume", store.StorePath, "later", "1", WaitMs);
        ExpectPoisoned(later, "wait");
        using ChildProcess reader = Start("follow", store.StorePath, "1", WaitMs);
        reader.ExpectExit();
        Assert.Equal("message 0", reader.Lines[^1]);
        using ChildProcess producer = StartProducer("produce", store.StorePath, "shared", "word", "1", "1");
        ExpectPoisoned(producer, "open", "produce");
        Assert.Throws<QueuePoisonedException>(() => queue.Producer.Produce("message 1"u8));

        static void ExpectPoisoned(ChildProcess process, params string[] calls)
        {
            Assert.Equal(1, process.WaitForExit());
            Assert.Contains("recovery: A flush of the store has failed", process.ErrorText, StringComparison.Ordinal);
            Assert.Contains(calls, call => process.ErrorText.StartsWith($"{call}: ", StringComparison.Ordinal));
        }
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

    /// <summary>
    /// A consumer went back, and a removal took what is there before it committed. The commit was refused, but had stored the
    /// offset: nobody could open the consumer any more.
    /// </summary>
    [Fact]
    public void Commit_WhereItWentBackToIsRemoved_KeepsTheOffsetBefore()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        for (int i = 0; i < 5; i++)
            queue.Producer.Produce(new byte[40_000]);
        queue.Flush();
        using (ChildProcess consumer = Start("read-on", store.StorePath, "back"))
        {
            for (int i = 0; i < 4; i++)
                Ask(consumer, "", $"ok {i * 65536}");
            Ask(consumer, "commit", "ok 196608");
            Ask(consumer, "65536", "ok 65536");
            Ask(consumer, "commit", "ok 65536");
            Ask(consumer, "196608", "ok 196608");
            Ask(consumer, "commit", "ok 196608");
            Ask(consumer, "0", "ok 0");
            queue.Trim(131072);
            Ask(consumer, "commit", "removed 0");
            consumer.Input.Close();
            consumer.ExpectExit();
        }

        using ChildProcess again = Start("read-on", store.StorePath, "back");
        Ask(again, "", "ok 262144");

        static void Ask(ChildProcess process, string line, string answer)
        {
            int before = process.Lines.Count;
            process.Input.WriteLine(line);
            process.Input.Flush();
            Assert.Equal(answer, process.WaitForLine(_ => true, fromIndex: before));
        }
    }

    /// <summary>
    /// A copy may get the inode that its source had. Python's consumer joined it, where everybody else wants a new epoch first.
    /// </summary>
    [Fact]
    public void Attach_MetaPageWasMadeAtAnotherTime_NeedsARecovery()
    {
        using var store = new TempStore();
        InteropStore.Open(store).Dispose();
        using (FileStream control = File.Open(store.PathOf("control"), FileMode.Open, FileAccess.ReadWrite))
        {
            byte[] birth = new byte[8];
            control.Position = 3976;
            control.ReadExactly(birth);
            Assert.SkipUnless(birth.Any(value => value != 0), "The file system does not tell when a file was made");
            birth[2] ^= 1;
            control.Position = 3976;
            control.Write(birth);
        }

        using ChildProcess run = StartProducer("attach", store.StorePath);
        run.ExpectExit();
        Assert.Equal(["consume recovery 0", "produce recovery"], run.Lines.Skip(1));
    }

    /// <summary>Starts the reader's test program.</summary>
    private protected abstract ChildProcess Start(params IEnumerable<string> arguments);

    /// <summary>The same, where it can append.</summary>
    private protected virtual ChildProcess StartProducer(params IEnumerable<string> arguments) => Start(arguments);

    /// <summary>Runs a test program over all vectors.</summary>
    private protected static void CompareVectors(Func<IEnumerable<string>, ChildProcess> start)
    {
        (string Path, Vectors.Answer Expected)[] vectors = [.. Vectors.All()];
        using ChildProcess run = start(["dump", .. vectors.Select(vector => vector.Path)]);
        run.ExpectExit();
        Violations.None(VectorLines.Differences(
            vectors.SelectMany(vector => VectorLines.Of(vector.Path, vector.Expected)), run.Lines));
    }

    /// <summary>Runs a consumer and a producer, which come alone, over copies of all vectors.</summary>
    private protected static void CompareAttaching(Func<IEnumerable<string>, ChildProcess> start)
    {
        using var copies = new TempStore(createStoreFolder: true);
        (string Path, Vectors.Answer Expected)[] vectors =
            [.. Vectors.All().Select(vector => (copies.PathOf(vector.Expected.Name), vector.Expected))];
        foreach ((string path, Vectors.Answer expected) in vectors)
            Vectors.CopyTo(Path.Combine(Vectors.Folder, expected.Name), path);
        using ChildProcess run = start(["attach", .. vectors.Select(vector => vector.Path)]);
        run.ExpectExit();
        Violations.None(VectorLines.Differences(
            vectors.SelectMany(vector => VectorLines.OfAttach(vector.Path, vector.Expected)), run.Lines));
    }

    /// <summary>Consumes messages in a process of its own, and gives them.</summary>
    private protected IEnumerable<string> Consume(TempStore store, string name, int count)
    {
        using ChildProcess run = Start("consume", store.StorePath, name, $"{count}", WaitMs);
        run.ExpectExit();
        return run.Lines.Skip(1).SkipLast(1);
    }
}
