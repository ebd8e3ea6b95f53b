using System.Text.Json;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Hostile;
using MappedFileQueues.Tool.Verify;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq verify`: what it counts is what readers can read, and what it reports is what they step over.</summary>
[Trait("Category", "Slow")]
public sealed class VerifyTests : IDisposable
{
    private const int Count = 200;
    private const int SegmentSize = 4096;
    private const int FrameLength = 128;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Verify_WholeStore_CountsEverythingAndLeavesNoTrace()
    {
        Produce();
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "worker", "--commit", "--count", "7").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);

        JsonElement result = Json(0);

        Assert.True(result.GetProperty("isWhole").GetBoolean());
        Assert.Equal(Count, result.GetProperty("messageCount").GetInt64());
        Assert.Equal(Count * 120, result.GetProperty("messageBytes").GetInt64());
        Assert.Empty(result.GetProperty("damages").EnumerateArray());
        Assert.Empty(result.GetProperty("findings").EnumerateArray());
        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
        Assert.Matches("messages +200, 24,000 bytes\n", ToolRun.Of("verify", _temp.StorePath).Expect(0).Text);
    }

    /// <summary>A folder with the name of a lock keeps everybody out, and the check said nothing but that all is whole.</summary>
    [Theory]
    [InlineData("locks/open")]
    [InlineData("locks/consumer-worker")]
    public void Verify_FolderInPlaceOfALock_IsNoted(string file)
    {
        Produce();
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "worker", "--commit", "--count", "7").Expect(0);
        File.Delete(_temp.PathOf(file));
        Directory.CreateDirectory(_temp.PathOf(file));

        JsonElement result = Json(0);

        Assert.True(result.GetProperty("isWhole").GetBoolean());
        JsonElement finding = Assert.Single(result.GetProperty("findings").EnumerateArray());
        Assert.Equal(file, finding.GetProperty("file").GetString());
        Assert.Contains("not a file", finding.GetProperty("reason").GetString(), StringComparison.Ordinal);
    }

    /// <summary>What is damaged, how, and what is reported: the kind, and how many messages are left.</summary>
    [Theory]
    [InlineData("checksum", 1)]
    [InlineData("header", 1)]
    [InlineData("zeros", 1)]
    [InlineData("missing", 32)]
    [InlineData("short", 22)]
    public void Verify_Damage_IsReportedWithItsPlaceAndCodeThree(string kind, int lost)
    {
        const int Message = 42;
        Produce();
        string file = $"commitlog/{OffsetOf(Message) / SegmentSize * SegmentSize:D20}.log";
        switch (kind)
        {
            case "checksum":
                Write(file, OffsetOf(Message) % SegmentSize + 40, [1]);
                break;
            case "header":
                Write(file, OffsetOf(Message) % SegmentSize, [255, 255, 255, 255]);
                break;
            case "zeros":
                Write(file, OffsetOf(Message) % SegmentSize, new byte[8]);
                break;
            case "missing":
                File.Delete(_temp.PathOf(file));
                break;
            default:
                using (FileStream stream = File.OpenWrite(_temp.PathOf(file)))
                    stream.SetLength(OffsetOf(Message) % SegmentSize);
                break;
        }

        JsonElement result = Json(3);

        JsonElement damage = Assert.Single(result.GetProperty("damages").EnumerateArray());
        Assert.Equal(kind, damage.GetProperty("kind").GetString());
        Assert.Equal(file, damage.GetProperty("file").GetString());
        Assert.Equal(kind == "missing" ? SegmentSize : OffsetOf(Message), damage.GetProperty("offset").GetInt64());
        Assert.Equal(lost * FrameLength, damage.GetProperty("length").GetInt64());
        Assert.Equal(Count - lost, result.GetProperty("messageCount").GetInt64());
        Assert.False(result.GetProperty("isWhole").GetBoolean());
        Assert.Contains("DAMAGED", ToolRun.Of("verify", _temp.StorePath).Expect(3).Text, StringComparison.Ordinal);
    }

    [Fact]
    public void Verify_OtherFilesDamaged_EachIsNamedWithARemedy()
    {
        Produce();
        foreach (string name in new[] { "behind", "between", "zeroed" })
            ToolRun.Of("consume", _temp.StorePath, "--consumer", name, "--commit", "--count", "3").Expect(0);
        ToolRun.Of("retention", _temp.StorePath, "--max-bytes", "1GiB").Expect(0);
        Write("offset/consumers/behind.cursor", 0, BitConverter.GetBytes(CursorWord.From(1L << 40)));
        Write("offset/consumers/between.cursor", 0, BitConverter.GetBytes(CursorWord.From(FrameLength + 8)));
        Write("offset/consumers/zeroed.cursor", 0, new byte[8]);
        Write("offset/producer.checkpoint", 0, new byte[8192]);
        Write("retention", 20, [77]);

        JsonElement[] findings = [.. Json(3).GetProperty("findings").EnumerateArray()];

        string[] damaged =
        [
            "offset/consumers/behind.cursor", "offset/consumers/between.cursor", "offset/consumers/zeroed.cursor",
            "offset/producer.checkpoint", "retention",
        ];
        Assert.Equal(
            damaged,
            findings.Where(one => one.GetProperty("isDamage").GetBoolean()).Select(one => one.GetProperty("file").GetString())
                .Order(StringComparer.Ordinal));
        Assert.All(findings, one => Assert.NotEmpty(one.GetProperty("remedy").GetString()!));
    }

    /// <summary>
    /// The file of a producer with an id was not looked at. Its damage came to light when its program could not produce.
    /// </summary>
    [Fact]
    public void Verify_FilesOfProducers_AreCountedAndTheDamagedAreNamed()
    {
        Produce();
        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            foreach (string id in new[] { "bills", "orders", "short" })
            {
                using MappedFileIdempotentProducer producer = queue.OpenProducer(id);
                producer.Produce([1]);
            }
        }

        Assert.Equal(3, Json(0).GetProperty("producerCount").GetInt32());
        Assert.Matches("producers with an id +3\n", ToolRun.Of("verify", _temp.StorePath).Expect(0).Text);

        Write("offset/producers/bills.producer", 10, [1, 2, 3]);
        using (FileStream file = File.OpenWrite(_temp.PathOf("offset/producers/short.producer")))
            file.SetLength(100);
        JsonElement result = Json(3);

        Assert.False(result.GetProperty("isWhole").GetBoolean());
        Assert.Equal(1, result.GetProperty("producerCount").GetInt32());
        JsonElement[] findings = [.. result.GetProperty("findings").EnumerateArray()];
        Assert.Equal(
            ["offset/producers/bills.producer", "offset/producers/short.producer"],
            findings.Select(one => one.GetProperty("file").GetString()).Order(StringComparer.Ordinal));
        Assert.All(findings, one => Assert.True(one.GetProperty("isDamage").GetBoolean()));
        Assert.All(findings, one => Assert.NotEmpty(one.GetProperty("remedy").GetString()!));
    }

    /// <summary>The next opener makes the page anew, so it is worth a note and no more.</summary>
    [Fact]
    public void Verify_ControlPageDamaged_IsANote()
    {
        Produce();
        Write("control", 30, [1, 2, 3]);

        JsonElement result = Json(0);

        JsonElement note = Assert.Single(result.GetProperty("findings").EnumerateArray());
        Assert.Equal("control", note.GetProperty("file").GetString());
        Assert.Equal(Count, result.GetProperty("messageCount").GetInt64());
    }

    /// <summary>Random damage: a reader that skips damage reads as many messages as the check counts.</summary>
    [Theory]
    [InlineData(false, 1)]
    [InlineData(true, 2)]
    public void Verify_RandomDamage_CountsWhatAReaderReads(bool isStruct, int seed)
    {
        const int Rounds = 150;
        using DamagedLog log = new(isStruct ? QueueKind.Struct : QueueKind.Message, ProducerMode.Shared, segment: 16 * 1024);
        using (QueueUnderTest queue = log.Open(CorruptionPolicy.Throw))
            log.Fill(queue, 100 * 1024);
        log.TakePicture();
        Random random = new(seed);
        for (int round = 0; round < Rounds; round++)
        {
            LogDamage damage = new(log, random);
            log.Write(damage.Files);
            (List<long> numbers, List<CorruptionSkippedEventArgs> skipped) = log.Read(CorruptionPolicy.SkipMessage);

            using StoreVerifier verifier = new(log.Path, null, TestContext.Current.CancellationToken);
            StoreVerification result = verifier.Verify();

            string told = $"seed {seed}, round {round}: {damage}";
            Assert.True(numbers.Count == result.MessageCount, $"{told}: read {numbers.Count}, counted {result.MessageCount}");
            Assert.True(log.Expected(damage.Files, CorruptionPolicy.SkipMessage).Count <= result.MessageCount, told);
            Assert.True(
                skipped.Count == 0 ? numbers.Count == log.Frames.Count || !result.IsWhole : !result.IsWhole,
                $"{told}: skipped {skipped.Count}, damages {result.Damages.Count}");
            log.Restore();
        }
    }

    /// <summary>Producers append and roll, retention removes and recycles: nothing of that is damage.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Verify_BesideProducersAndRetention_NeverReportsDamage(ProducerMode mode)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            SegmentSize = 64 * 1024,
            ProducerMode = mode,
        });
        queue.SetRetention(new RetentionOptions { MaxBytes = 1 << 20, KeepUnconsumed = false });
        bool isOver = false;
        BackgroundCall producing = BackgroundCall.Start(() =>
        {
            byte[] message = new byte[200];
            using MappedFileProducer producer = queue.OpenProducer();
            for (int number = 0; !Volatile.Read(ref isOver); number++)
            {
                producer.Produce(message.AsSpan(0, number % 200));
                if (number % 16 == 0)
                    producer.ProduceBatch([message, message, message]);
            }
        });
        try
        {
            Eventually.True(() => queue.GetInfo().LogStart > 0, "retention removes");
            long messages = 0;
            for (int round = 0; round < 60; round++)
            {
                using StoreVerifier verifier = new(_temp.StorePath, null, TestContext.Current.CancellationToken);
                StoreVerification result = verifier.Verify();
                Assert.True(result.IsWhole, string.Join("; ", [.. result.Damages, .. result.Findings]));
                messages += result.MessageCount;
            }

            Assert.True(messages > 0);
        }
        finally
        {
            Volatile.Write(ref isOver, true);
        }

        producing.Join();
    }

    private static long OffsetOf(int message) => (long)message * FrameLength;

    private void Produce() => ToolRun.Of(
        "produce", _temp.StorePath, "--messages", $"{Count}", "--size", "120", "--segment-size", $"{SegmentSize}").Expect(0);

    private void Write(string file, long position, byte[] bytes)
    {
        using FileStream stream = new(_temp.PathOf(file), FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        stream.Position = position;
        stream.Write(bytes);
    }

    private JsonElement Json(int exitCode) => JsonDocument.Parse(
        ToolRun.Of("verify", _temp.StorePath, "--output", "json").Expect(exitCode).Output).RootElement;
}
