using System.Diagnostics;
using System.Globalization;
using System.Text;
using MappedFileQueues.Tests.Structure;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The Python package over the vectors, and beside queues of this process and consumers in C.</summary>
[Trait("Category", "Slow")]
public sealed class PythonReaderTests
{
    private const string WaitMs = "30000";

    [Fact]
    public void Read_EveryVector_GivesWhatItSays()
    {
        (string Path, Vectors.Answer Expected)[] vectors = [.. Vectors.All()];
        using ChildProcess run = Start(["dump", .. vectors.Select(vector => vector.Path)]);
        run.ExpectExit();
        Violations.None(VectorLines.Differences(
            vectors.SelectMany(vector => VectorLines.Of(vector.Path, vector.Expected)), run.Lines));
    }

    [Fact]
    public void Follow_BesideAProducer_GetsEachMessageInOrder()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        const int count = 2000;
        using ChildProcess reader = Start("follow", store.StorePath, $"{count}", WaitMs);
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
        for (int i = 0; i < 100; i++)
            queue.Producer.Produce(Message(i));
        Assert.Equal(Enumerable.Range(0, 40).Select(Text), Consume(store, "Workers", 40));
        using (MappedFileConsumer consumer = queue.OpenConsumer("Workers"))
        {
            for (int i = 40; i < 60; i++)
            {
                Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
                Assert.Equal(Text(i), Encoding.UTF8.GetString(message));
                consumer.Commit();
            }
        }

        using (ChildProcess inC = CLibrary.Start(CLibrary.Fast, "consume", store.StorePath, "workers", "20", WaitMs))
        {
            inC.ExpectExit();
            Assert.Equal(Enumerable.Range(60, 20).Select(Text), inC.Lines.Skip(1).SkipLast(1));
        }

        Assert.Equal(Enumerable.Range(80, 20).Select(Text), Consume(store, "Workers", 20));
    }

    [Fact]
    public void Consume_AloneAfterAnOrderlyEnd_Works()
    {
        using var store = new TempStore();
        using (MappedFileQueue queue = Open(store))
        {
            for (int i = 0; i < 20; i++)
                queue.Producer.Produce(Message(i));
        }

        Assert.Equal(Enumerable.Range(0, 10).Select(Text), Consume(store, "", 10));
        Assert.Equal(Enumerable.Range(10, 10).Select(Text), Consume(store, "", 10));
    }

    [Fact]
    public void OpenConsumer_NameIsHeldByTheOther_IsRefused()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
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

    /// <summary>A producer with a limit of unconsumed bytes sleeps until a consumer in Python has committed.</summary>
    [Fact]
    public void Commit_ProducerWaitsForRoom_IsWoken()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store, maxUnconsumedBytes: 4096);
        queue.OpenConsumer("slow").Dispose();
        const int count = 1000;
        using ChildProcess consumer = Start("consume", store.StorePath, "slow", $"{count}", WaitMs);
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(Message(i));
        consumer.ExpectExit();
        Assert.Equal(Enumerable.Range(0, count).Select(Text), consumer.Lines.Skip(1).SkipLast(1));
    }

    /// <summary>Prints what is there as lines, as its help says.</summary>
    [Fact]
    public void Module_AStore_PrintsItsMessages()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = Open(store);
        queue.Producer.Produce("one"u8);
        queue.Producer.Produce("two"u8);
        Vectors.SkipWithoutPython();
        var start = new ProcessStartInfo("python3", ["-m", "mappedfilequeues", store.StorePath, "--offsets"])
        {
            WorkingDirectory = Repository.PathOf("interop/python"),
        };
        using ChildProcess run = ChildProcess.Start(start, NoByteCode);
        run.ExpectExit();
        Assert.Equal(["0: one", "16: two"], run.Lines);
    }

    /// <summary>Runs the tests of the package itself; those of batches need numpy, and skip themselves.</summary>
    [Fact]
    public void UnitTests_OfThePackage_Pass()
    {
        Vectors.SkipWithoutPython();
        // The system's own one may have numpy.
        string python = File.Exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
        var start = new ProcessStartInfo(python, ["-m", "unittest", "test_package"])
        {
            WorkingDirectory = Repository.PathOf("interop/python"),
        };
        using ChildProcess run = ChildProcess.Start(start, NoByteCode);
        run.ExpectExit();
    }

    /// <summary>Nothing is left in the checkout.</summary>
    private static Dictionary<string, string> NoByteCode => new() { ["PYTHONDONTWRITEBYTECODE"] = "1" };

    private static ChildProcess Start(params IEnumerable<string> arguments)
    {
        Vectors.SkipWithoutPython();
        return ChildProcess.Start(
            new ProcessStartInfo("python3", [Repository.PathOf("interop/python/test_vectors.py"), .. arguments]), NoByteCode);
    }

    private static IEnumerable<string> Consume(TempStore store, string name, int count)
    {
        using ChildProcess run = Start("consume", store.StorePath, name, $"{count}", WaitMs);
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

    private static byte[] Message(int i) => Encoding.UTF8.GetBytes(Text(i));

    private static string Text(int i) => string.Create(CultureInfo.InvariantCulture, $"message {i}");
}
