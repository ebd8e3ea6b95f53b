using System.Globalization;
using MappedFileQueues.Tests.Structure;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The C library over the vectors, over damaged stores, and beside queues of this process.</summary>
[Trait("Category", "Slow")]
public sealed class CReaderTests
{
    private const string WaitMs = "30000";

    [Fact]
    public void Read_EveryVector_GivesWhatItSays() => CompareVectors(CLibrary.Fast);

    [Fact]
    public void Read_EveryVectorUnderSanitizers_GivesWhatItSays() => CompareVectors(CLibrary.Checked);

    [Fact]
    public void Read_EveryVectorAsCpp_GivesWhatItSays() => CompareVectors(CLibrary.AsCpp);

    [Fact]
    public void Crc_TableAndInstruction_AreTheSame()
    {
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "crc");
        run.ExpectExit();
        Assert.Equal("same, check=e3069283", run.Lines[^1]);
    }

    /// <summary>
    /// Another seed each day: the run prints what it needs to be made again. In memory where that can be had, because consumers
    /// and producers sync.
    /// </summary>
    [Fact]
    public void Open_DamagedStores_NeverCrashesAndGivesNoWrongMessage()
    {
        using var scratch = new TempStore(Directory.Exists("/dev/shm") ? "/dev/shm" : Path.GetTempPath());
        int seed = DateTime.UtcNow.DayOfYear;
        using ChildProcess run = CLibrary.Start(
            CLibrary.Checked, "mutate", Vectors.Folder, scratch.Root, "10000", "30", $"{seed}");
        run.ExpectExit(deadline: TimeSpan.FromMinutes(5));
        Assert.EndsWith(", 0 wrong messages", run.Lines[^1], StringComparison.Ordinal);
    }

    [Fact]
    public void Follow_BesideAProducer_GetsEachMessageInOrder()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        const int count = 5000;
        using ChildProcess reader = CLibrary.Start(CLibrary.Checked, "follow", store.StorePath, $"{count}", WaitMs);
        reader.WaitForLine("opened 0");
        for (int i = 0; i < count; i++)
        {
            queue.Producer.Produce(Message(i));
            // It falls asleep now and then, and is woken.
            if (i % 500 == 0)
                Thread.Sleep(20);
        }

        reader.ExpectExit();
        Assert.Equal(Enumerable.Range(0, count).Select(Text), reader.Lines.Skip(1));
    }

    [Fact]
    public void Consume_InTurns_EachContinuesWhereTheOtherCommitted()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        for (int i = 0; i < 300; i++)
            queue.Producer.Produce(Message(i));
        for (int i = 0; i < 300; i += 100)
        {
            Assert.Equal(Enumerable.Range(i, 50).Select(Text), ConsumeInC(store, "Workers", 50));
            using MappedFileConsumer consumer = queue.OpenConsumer("Workers");
            for (int k = i + 50; k < i + 100; k++)
            {
                Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
                Assert.Equal(Text(k), System.Text.Encoding.UTF8.GetString(message));
                consumer.Commit();
            }
        }
    }

    /// <summary>Nobody else has the store open, and nothing has to be repaired.</summary>
    [Fact]
    public void Consume_AloneAfterAnOrderlyEnd_Works()
    {
        using var store = new TempStore();
        using (MappedFileQueue queue = Open(store))
        {
            for (int i = 0; i < 20; i++)
                queue.Producer.Produce(Message(i));
        }

        Assert.Equal(Enumerable.Range(0, 10).Select(Text), ConsumeInC(store, "", 10));
        using MappedFileQueue again = Open(store);
        using MappedFileConsumer consumer = again.OpenConsumer("");
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal(Text(10), System.Text.Encoding.UTF8.GetString(message));
    }

    /// <summary>What a dead producer left behind is repaired by C# alone.</summary>
    [Fact]
    public void Consume_AloneWhereARecoveryIsNeeded_IsRefused()
    {
        using var store = new TempStore();
        using (MappedFileQueue queue = Open(store))
            queue.Producer.Produce("message"u8);
        using (FileStream control = File.OpenWrite(store.PathOf("control")))
        {
            // "Exclusive at work"; the checksum over it does not fit any longer either.
            control.Position = 1024;
            control.WriteByte(1);
        }

        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "consume", store.StorePath, "c", "1", WaitMs);
        Assert.Equal(1, run.WaitForExit());
        Assert.Contains("open: recovery: ", run.ErrorText, StringComparison.Ordinal);
    }

    [Fact]
    public void OpenConsumer_NameIsHeldByTheOther_IsRefused()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        using (queue.OpenConsumer("held"))
        {
            using ChildProcess refused = CLibrary.Start(CLibrary.Checked, "hold", store.StorePath, "HELD");
            Assert.Equal(1, refused.WaitForExit());
            Assert.Contains("open: in-use: ", refused.ErrorText, StringComparison.Ordinal);
        }

        using ChildProcess holder = CLibrary.Start(CLibrary.Checked, "hold", store.StorePath, "Held");
        holder.WaitForLine("held");
        Assert.Throws<QueueInUseException>(() => queue.OpenConsumer("held"));
        holder.KillAndWait();
        queue.OpenConsumer("held").Dispose();
    }

    /// <summary>A producer with a limit of unconsumed bytes sleeps until a consumer in C has committed.</summary>
    [Fact]
    public void Commit_ProducerWaitsForRoom_IsWoken()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store, maxUnconsumedBytes: 4096);
        queue.OpenConsumer("slow").Dispose();
        const int count = 2000;
        using ChildProcess consumer = CLibrary.Start(CLibrary.Checked, "consume", store.StorePath, "slow", $"{count}", WaitMs);
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(Message(i));
        consumer.ExpectExit();
        Assert.Equal(Enumerable.Range(0, count).Select(Text), consumer.Lines.Skip(1).SkipLast(1));
    }

    private static void CompareVectors(string program)
    {
        (string Path, Vectors.Answer Expected)[] vectors = [.. Vectors.All()];
        using ChildProcess run = CLibrary.Start(program, ["dump", .. vectors.Select(vector => vector.Path)]);
        run.ExpectExit();
        Violations.None(VectorLines.Differences(
            vectors.SelectMany(vector => VectorLines.Of(vector.Path, vector.Expected)), run.Lines));
    }

    /// <summary>Consumes messages in a process of its own, and gives them.</summary>
    private static IEnumerable<string> ConsumeInC(TempStore store, string name, int count)
    {
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "consume", store.StorePath, name, $"{count}", WaitMs);
        run.ExpectExit();
        return run.Lines.Skip(1).SkipLast(1);
    }

    private static MappedFileQueue Open(TempStore store, long maxUnconsumedBytes = 0) => new(new MappedFileQueueOptions
    {
        StorePath = store.StorePath,
        SegmentSize = 64 * 1024,
        Durability = DurabilityLevel.PageCache,
        MaxUnconsumedBytes = maxUnconsumedBytes,
        LockTimeout = TimeSpan.FromSeconds(2),
    });

    private static byte[] Message(int i) => System.Text.Encoding.UTF8.GetBytes(Text(i));

    private static string Text(int i) => string.Create(CultureInfo.InvariantCulture, $"message {i}");
}
