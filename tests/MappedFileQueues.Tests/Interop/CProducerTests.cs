using System.Globalization;
using System.Runtime.Versioning;
using System.Text;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The Exclusive producer of the C library beside C#: either repairs what the other left when it died.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CProducerTests
{
    [Fact]
    public void Produce_BesideAConsumer_WakesItAndEachMessageComesInOrder()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        const int count = 3000;
        using ChildProcess producer = StartProducer(store, $"{count}");
        for (int i = 0; i < count; i++)
        {
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromSeconds(30)));
            Assert.Equal(i, Number(Encoding.UTF8.GetString(message)));
            Assert.Equal(i % 10 == 0 ? "message" : "", Encoding.UTF8.GetString(consumer.HeadersInPlace.Key));
            consumer.Commit();
        }

        producer.ExpectExit();
        queue.Producer.Produce("message 3000 and from C# again"u8);
        Assert.Equal(Enumerable.Range(0, count + 1), ReadNumbers(store));
    }

    /// <summary>What was printed is there; of what was not, only the next message may be.</summary>
    [Fact]
    public void Produce_KilledAtAnyMoment_WhatItSaidIsThereInOrder()
    {
        using var store = new TempStore();
        List<int> said = [];
        using (MappedFileQueue queue = InteropStore.Open(store))
        {
            queue.SetRetention(new RetentionOptions { MaxBytes = 1024 * 1024, KeepUnconsumed = true });
            queue.OpenConsumer("keeper").Dispose();
            var random = new Random(Environment.TickCount);
            for (int round = 0; round < 8; round++)
            {
                int first = said.Count == 0 ? 0 : said[^1] + 1;
                using ChildProcess producer = CLibrary.Start(
                    CLibrary.Checked, "produce", store.StorePath, "exclusive", "message", $"{first}", "10000000");
                int until = first + random.Next(1, 2000);
                producer.WaitForLine(line => int.TryParse(line, CultureInfo.InvariantCulture, out int n) && n >= until);
                producer.KillAndWait();
                said.AddRange(producer.Lines.Skip(1).Select(line => int.Parse(line, CultureInfo.InvariantCulture)));
            }

            CheckOrder(said, ReadNumbers(store));
        }

        // Nobody else is there: this is a recovery.
        using MappedFileQueue again = InteropStore.Open(store);
        again.Producer.Produce("message -1"u8);
        int[] numbers = ReadNumbers(store);
        Assert.Equal(-1, numbers[^1]);
        CheckOrder(said, numbers[..^1]);
    }

    /// <summary>A claim that nobody publishes, or bytes beyond the tail that look like headers.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Produce_ProducerOfCSharpDiedInAMessage_ContinuesAfterIt(ProducerMode mode)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using (PeerAgent agent = PeerAgent.Start())
        {
            agent.Ask($"open path={store.StorePath} mode={mode}");
            agent.Ask("append prefix=a count=3");
            agent.Trap("PayloadWritten", 1);
            agent.Send("append prefix=b size=3000");
            agent.ExpectKilled();
        }

        using ChildProcess producer = StartProducer(store, "200");
        producer.ExpectExit();
        using MappedFileReader reader = MappedFileReader.Open(store.StorePath);
        for (int i = 0; i < 3; i++)
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal($"a-{i}", CrashMessage.Read(message));
        }

        for (int i = 0; i < 200; i++)
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal(i, Number(Encoding.UTF8.GetString(message)));
        }

        Assert.False(reader.TryRead(out _));
    }

    [Fact]
    public void Open_AnotherProducerIsAttached_IsRefused()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using (queue.OpenProducer())
        {
            using ChildProcess refused = StartProducer(store, "1");
            Assert.Equal(1, refused.WaitForExit());
            Assert.Contains("open: in-use: ", refused.ErrorText, StringComparison.Ordinal);
        }

        using ChildProcess holder = StartProducer(store, "10000000");
        holder.WaitForLine("opened");
        Assert.Throws<QueueInUseException>(() => queue.OpenProducer());
        holder.KillAndWait();
        using MappedFileProducer producer = queue.OpenProducer();
        producer.Produce("message 7"u8);
        Assert.Equal(7, ReadNumbers(store)[^1]);
    }

    /// <summary>
    /// A process writes without the lock. At Group, and with headers, the payload was written over what that one had appended,
    /// before the look at the header; at PageCache the place of the next header was zeroed before it.
    /// </summary>
    [Theory]
    [InlineData("exclusive")]
    [InlineData("exclusive-group")]
    public void Produce_AnotherProcessHasAppended_IsRefusedAndLeavesItsMessageAlone(string mode)
    {
        const int At = 16;
        using var store = new TempStore();
        InteropStore.Open(store).Dispose();
        using ChildProcess producer = CLibrary.Start(CLibrary.Checked, "append", store.StorePath, mode);
        InteropStore.Ask(producer, "1 8", "ok");
        string segment = store.PathOf("commitlog", "00000000000000000000.log");
        byte[] foreign = [16, 0, 0, 0x20, .. Enumerable.Repeat<byte>(0xAA, 20)];
        using (var file = new FileStream(segment, FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
        {
            file.Position = At;
            file.Write(foreign);
        }

        InteropStore.Ask(producer, "1 8", "in-use");
        Assert.Equal(foreign, TempStore.ReadOpenFile(segment)[At..(At + foreign.Length)]);
    }

    /// <summary>What is made while the store is given to a group is the group's, in each language.</summary>
    [Theory]
    [InlineData("C")]
    [InlineData("C#")]
    [InlineData("Python")]
    [SupportedOSPlatform("linux")]
    public void Produce_StoreGetsAnotherMode_TheNextSegmentHasIt(string language)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Modes are those of Unix");
        const UnixFileMode Group =
            UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead | UnixFileMode.GroupWrite;
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        string script = """
            import sys
            import mappedfilequeues as mfq
            with mfq.Producer(sys.argv[1]) as producer:
                for line in sys.stdin:
                    count, length = line.split()
                    for _ in range(int(count)):
                        producer.produce(bytes(int(length)))
                    print("ok", flush=True)
            """;
        using ChildProcess? producer = language switch
        {
            "C" => CLibrary.Start(CLibrary.Checked, "append", store.StorePath, "shared"),
            "Python" => PythonPackage.Start("-c", script, store.StorePath),
            _ => null,
        };
        Append(1);
        File.SetUnixFileMode(store.PathOf("queue.meta"), Group);
        Append(400);
        string last = Directory.GetFiles(store.PathOf("commitlog"), "*.log").Max(StringComparer.Ordinal)!;
        Assert.NotEqual("00000000000000000000.log", Path.GetFileName(last));
        Assert.Equal(Group, File.GetUnixFileMode(last));

        void Append(int count)
        {
            if (producer is not null)
            {
                InteropStore.Ask(producer, $"{count} 1000", "ok");
                return;
            }

            for (int i = 0; i < count; i++)
                queue.Producer.Produce(new byte[1000]);
        }
    }

    private static void CheckOrder(List<int> said, int[] found)
    {
        Assert.Empty(said.Except(found));
        Assert.DoesNotContain(found.Zip(found.Skip(1)), pair => pair.Second != pair.First && pair.Second != pair.First + 1);
    }

    private static ChildProcess StartProducer(TempStore store, string count) =>
        CLibrary.Start(CLibrary.Checked, "produce", store.StorePath, "exclusive", "message", "0", count);

    private static int[] ReadNumbers(TempStore store) => [.. InteropStore.ReadAll(store).Select(Number)];

    private static int Number(string message) => int.Parse(message.Split(' ')[1], CultureInfo.InvariantCulture);
}
