using System.Text.Json;
using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Hostile;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq repair`: damage that stops consumers or keeps producers out is passed afterwards, everything that was readable with
/// `--skip-damage` before is readable without it, and the files are kept as they were.
/// </summary>
[Trait("Category", "Slow")]
public sealed class RepairTests : IDisposable
{
    private const int Count = 200;
    private const int SegmentSize = 4096;
    private const int FrameLength = 128;
    private const int InSegment = SegmentSize / FrameLength;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Repair_WholeStore_ChangesNothing()
    {
        Produce();
        string[] before = StoreSnapshot.Of(_temp.StorePath);

        Assert.Equal("Nothing is damaged.\n", ToolRun.Of("repair", _temp.StorePath, "--dry-run").Expect(0).Text);
        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
        Assert.Equal("Nothing is damaged.\n", ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0).Text);
        Assert.False(Directory.Exists(_temp.PathOf("salvage")));
        ToolRun.Of("repair", _temp.StorePath).Expect(2);
        ToolRun.Of("repair", _temp.StorePath, "--apply", "--dry-run").Expect(2);
    }

    /// <summary>The damage, and the first and the last message that go with it.</summary>
    [Theory]
    [InlineData("checksum", 42, 42)]
    [InlineData("header", 42, 42)]
    [InlineData("zeros", 42, 42)]
    [InlineData("short", 42, 63)]
    [InlineData("missing", 32, 63)]
    [InlineData("missing-two", 32, 95)]
    [InlineData("missing-first", 0, 31)]
    [InlineData("missing-last", 192, 199)]
    [InlineData("checksum-last", 199, 199)]
    public void Repair_DamagedLog_LosesTheDamageAndNothingElse(string kind, int from, int to)
    {
        Produce();
        Damage(kind, from);
        string[] damaged = StoreSnapshot.Of(_temp.PathOf("commitlog"));
        int[] left = [.. Enumerable.Range(0, Count).Where(number => number < from || number > to)];

        JsonElement plan = Json(3, "--dry-run");
        Assert.NotEqual(0, plan.GetProperty("steps").GetArrayLength());
        Assert.Equal(damaged, StoreSnapshot.Of(_temp.PathOf("commitlog")));
        JsonElement done = Json(0, "--apply");

        Assert.Equal(Steps(plan), Steps(done));
        Assert.True(done.GetProperty("after").GetProperty("isWhole").GetBoolean());
        foreach (JsonElement kept in done.GetProperty("salvage").EnumerateArray())
            Assert.True(File.Exists(_temp.PathOf(kept.GetString()!)), $"{kept} is kept");
        Assert.Equal(left, Numbers());
        // Producers continue after it, at offsets that no message had.
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            Assert.Equal((long)Count * FrameLength, queue.GetInfo().PublishedOffset);
            queue.Producer.Produce("later"u8);
            Assert.Equal(0, queue.GetInfo().Epoch);
        }

        Assert.Equal("later"u8, ReadAll()[^1]);
        ToolRun.Of("verify", _temp.StorePath).Expect(0);
    }

    [Fact]
    public void Repair_TheFileAsItWas_IsInSalvage()
    {
        Produce();
        byte[] whole = File.ReadAllBytes(SegmentOf(42));
        Damage("checksum", 42);
        byte[] damaged = File.ReadAllBytes(SegmentOf(42));

        string kept = Json(0, "--apply").GetProperty("salvage").EnumerateArray().Single().GetString()!;

        Assert.Equal(damaged, File.ReadAllBytes(_temp.PathOf(kept)));
        Assert.NotEqual(whole, damaged);
    }

    [Fact]
    public void Repair_SegmentThatASnapshotShares_LeavesTheSnapshotAsItIs()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The portable platform makes no hard links.");
        Produce();
        string copy = Path.Combine(_temp.Root, "copy");
        ToolRun.Of("snapshot", _temp.StorePath, copy).Expect(0);
        Damage("checksum", 42);
        string[] before = StoreSnapshot.Of(copy);

        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);

        Assert.Equal(before, StoreSnapshot.Of(copy));
        ToolRun.Of("verify", copy).Expect(3);
        ToolRun.Of("verify", _temp.StorePath).Expect(0);
    }

    [Fact]
    public void Repair_OtherFiles_LosesNoMessageOfAnyConsumer()
    {
        Produce();
        foreach (string name in new[] { "behind", "between", "zeroed", "fine" })
            ToolRun.Of("consume", _temp.StorePath, "--consumer", name, "--commit", "--count", "3").Expect(0);
        ToolRun.Of("retention", _temp.StorePath, "--max-bytes", "1GiB").Expect(0);
        WriteCursor("behind", CursorWord.From(1L << 40));
        WriteCursor("between", CursorWord.From(5 * FrameLength + 40));
        WriteCursor("zeroed", 0);
        Write(_temp.PathOf("offset/producer.checkpoint"), 0, new byte[8192]);
        Write(_temp.PathOf("retention"), 20, [77]);

        JsonElement done = Json(0, "--apply");

        Assert.Equal(5, done.GetProperty("steps").GetArrayLength());
        Assert.Equal([Count - 3, Count, Count - 5, 0], new[] { "fine", "zeroed", "between", "behind" }.Select(name =>
            ToolRun.Of("consume", _temp.StorePath, "--consumer", name, "--commit").Expect(0).Lines.Length));
        Assert.Contains("everything is kept", ToolRun.Of("retention", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);
        ToolRun.WithInput([.. "later\n"u8], "produce", _temp.StorePath).Expect(0);
        Assert.Equal("later\n", ToolRun.Of("consume", _temp.StorePath, "--consumer", "behind").Expect(0).Text);
    }

    /// <summary>`--dry-run` told what would be done, and `--apply` failed: the folder of the new file was missing.</summary>
    [Theory]
    [InlineData("offset")]
    [InlineData("commitlog")]
    [InlineData("locks")]
    public void Repair_FolderIsMissing_DoesWhatItSaid(string folder)
    {
        Produce();
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit", "--count", "3").Expect(0);
        Directory.Delete(_temp.PathOf(folder), recursive: true);

        string found = ToolRun.Of("verify", _temp.StorePath).Text;
        JsonElement plan = Json(folder == "locks" ? 0 : 3, "--dry-run");
        JsonElement done = Json(0, "--apply");

        Assert.Equal(Steps(plan), Steps(done));
        Assert.Equal(folder == "commitlog" ? 0 : Count, ReadAll().Count);
        ToolRun.WithInput([.. "later\n"u8], "produce", _temp.StorePath).Expect(0);
        Assert.Equal(folder == "offset", found.Contains("a consumer of this name was here", StringComparison.Ordinal));
    }

    /// <summary>
    /// One flipped bit put a cursor after the end of the log. `check` and `info` showed a lag of 0, and `repair` moved the
    /// consumer to the end: 11,000 messages were skipped, and "lost: nothing" was the report.
    /// </summary>
    [Theory]
    [InlineData(3)]
    [InlineData(12)]
    [InlineData(40)]
    public void Repair_FlippedBitInACursor_SkipsNothingAndSaysThatMessagesComeAgain(int bit)
    {
        Produce();
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit", "--count", "3").Expect(0);
        WriteCursor("billing", CursorWord.From(3 * FrameLength) ^ (1UL << bit));

        ToolRun checkedNow = ToolRun.Of("check", _temp.StorePath);
        string info = ToolRun.Of("info", _temp.StorePath).Expect(0).Text;
        ToolRun refused = ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit");
        string would = ToolRun.Of("repair", _temp.StorePath, "--dry-run").Expect(3).Text;
        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);

        Assert.Contains("CRITICAL", checkedNow.Expect(2).Text, StringComparison.Ordinal);
        Assert.Contains("billing", checkedNow.Text, StringComparison.Ordinal);
        Assert.Contains("is damaged", info, StringComparison.Ordinal);
        Assert.Contains("`mfq consumers reset`", refused.Expect(1).Error, StringComparison.Ordinal);
        Assert.Contains("consumer billing goes back to the oldest message, offset 0", would, StringComparison.Ordinal);
        Assert.Contains("may come again", would, StringComparison.Ordinal);
        Assert.Equal(
            Count, ToolRun.Of("consume", _temp.StorePath, "--consumer", "billing", "--commit").Expect(0).Lines.Length);
    }

    /// <summary>
    /// The checkpoint and a consumer's offset was in a damaged page, which became one frame of padding. So the next opener found
    /// no frame at the checkpoint, and cut off all that came after it, or refused producers for good; and the consumer did not
    /// open.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Repair_CheckpointAndCursorInTheDamage_LosesTheDamageAlone(bool isFlushedBehindIt)
    {
        Produce();
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "slow", "--commit", "--count", "45").Expect(0);
        using (HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!)
        using (CheckpointFile checkpoint = new(directory, StoreMetaFile.Read(directory)!.StoreId))
            checkpoint.WriteBoth(50 * FrameLength, 0, checkpoint.Read()!.BootId);
        if (!isFlushedBehindIt)
            Write(_temp.PathOf(StoreNames.Control), ControlLayout.DurableAt, BitConverter.GetBytes(50L * FrameLength));
        Write(SegmentOf(40), 40 % InSegment * FrameLength, new byte[15 * FrameLength]);

        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);

        Assert.Equal(Enumerable.Range(0, Count).Where(number => number is < 40 or >= 55), Numbers());
        Assert.Equal(Count - 55, ToolRun.Of("consume", _temp.StorePath, "--consumer", "slow").Expect(0).Lines.Length);
        ToolRun.WithInput([.. "later\n"u8], "produce", _temp.StorePath).Expect(0);
        Assert.Equal("later"u8, ReadAll()[^1]);
    }

    [Fact]
    public void Repair_StoreInUse_IsRefusedAndNothingIsChanged()
    {
        Produce();
        Damage("checksum", 42);
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        string[] before = StoreSnapshot.Of(_temp.PathOf("commitlog"));

        ToolRun.OfProcess("repair", _temp.StorePath, "--apply").ExpectError("The store is open", ToolRun.ThisHolder);

        Assert.Equal(before, StoreSnapshot.Of(_temp.PathOf("commitlog")));
        ToolRun.Of("repair", _temp.StorePath, "--dry-run").Expect(3);
    }

    /// <summary>What a reader that skips damage reads before, every reader reads afterwards.</summary>
    [Fact]
    public void Repair_RandomDamage_AllThatCouldBeReadCanBeRead()
    {
        const int Rounds = 25;
        const int Seed = 7;
        using DamagedLog log = new(Contract.QueueKind.Message, ProducerMode.Shared, segment: 16 * 1024);
        using (Contract.QueueUnderTest queue = log.Open(CorruptionPolicy.Throw))
            log.Fill(queue, 100 * 1024);
        log.TakePicture();
        string whole = Path.Combine(_temp.Root, "whole");
        CopyFolder(log.Path, whole);
        Random random = new(Seed);
        for (int round = 0; round < Rounds; round++)
        {
            LogDamage damage = new(log, random);
            log.Write(damage.Files);
            List<long> readable = log.Read(CorruptionPolicy.SkipMessage).Numbers;
            string told = $"seed {Seed}, round {round}: {damage}";

            ToolRun repaired = ToolRun.Of("repair", log.Path, "--apply");

            Assert.True(repaired.ExitCode == 0, $"{told}: {repaired.Text} {repaired.Error}");
            (List<long> numbers, List<CorruptionSkippedEventArgs> skipped) = log.Read(CorruptionPolicy.Throw);
            Assert.True(skipped.Count == 0, told);
            Assert.True(readable.SequenceEqual(numbers), $"{told}: {readable.Count} before, {numbers.Count} after");
            using (Contract.QueueUnderTest queue = log.Open(CorruptionPolicy.Throw))
                Assert.True(queue.Producer.Produce(1_000_000) >= log.End, told);
            Assert.Equal([.. numbers, 1_000_000L], log.Read(CorruptionPolicy.Throw).Numbers);
            Directory.Delete(log.Path, recursive: true);
            CopyFolder(whole, log.Path);
        }
    }

    /// <summary>
    /// What is named is a frame's start afterwards, also what a producer's file names: it was within the padding, and the id was
    /// refused in a store that was called whole.
    /// </summary>
    [Fact]
    public void Repair_SegmentOfAProducersOffsetIsMissing_TheProducerContinues()
    {
        using (MappedFileQueue queue = new(new() { StorePath = _temp.StorePath, SegmentSize = SegmentSize }))
        using (MappedFileIdempotentProducer producer = queue.OpenProducer("orders"))
        {
            for (ulong sequence = 1; sequence <= Count; sequence++)
                producer.TryProduce(new byte[100], sequence);
        }

        const int Before = 155;
        long offset = 0;
        using (MappedFileReader reader = MappedFileReader.Open(_temp.StorePath))
        {
            for (int i = 0; i <= Before && reader.TryRead(out _); i++)
                offset = reader.MessageOffset;
        }

        Assert.NotEqual(0, offset % SegmentSize);
        string path = _temp.PathOf("offset/producers/orders.producer");
        Write(path, ProducerLayout.OffsetAt, BitConverter.GetBytes(offset));
        Write(path, ProducerLayout.SequenceAt, BitConverter.GetBytes((ulong)Before));
        Write(path, ProducerLayout.SequenceCopyAt, BitConverter.GetBytes((ulong)Before));
        File.Delete(_temp.PathOf($"commitlog/{offset / SegmentSize * SegmentSize:D20}.log"));
        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);

        using MappedFileQueue after = new(new() { StorePath = _temp.StorePath });
        using MappedFileIdempotentProducer again = after.OpenProducer("orders");
        Assert.Equal((ulong)Count, again.LastSequence);
    }

    private static void CopyFolder(string from, string to)
    {
        foreach (string folder in Directory.GetDirectories(from, "*", SearchOption.AllDirectories).Prepend(from))
            Directory.CreateDirectory(Path.Combine(to, Path.GetRelativePath(from, folder)));
        foreach (string file in Directory.GetFiles(from, "*", SearchOption.AllDirectories))
            File.Copy(file, Path.Combine(to, Path.GetRelativePath(from, file)));
    }

    private static string[] Steps(JsonElement report) =>
        [.. report.GetProperty("steps").EnumerateArray().Select(step => step.GetRawText())];

    private void Produce() => ToolRun.Of(
        "produce", _temp.StorePath, "--messages", $"{Count}", "--size", "120", "--segment-size", $"{SegmentSize}").Expect(0);

    private int[] Numbers() =>
        [.. ReadAll().Select(message => int.Parse(message.AsSpan(0, 20), null))];

    /// <summary>What a reader that skips nothing reads; in this process, which costs a tenth of a run of the tool.</summary>
    private List<byte[]> ReadAll()
    {
        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        List<byte[]> messages = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add(message.ToArray());
        return messages;
    }

    private JsonElement Json(int exitCode, string option) => JsonDocument.Parse(
        ToolRun.Of("repair", _temp.StorePath, option, "--output", "json").Expect(exitCode).Output).RootElement;

    private string SegmentOf(int message) =>
        _temp.PathOf($"commitlog/{message / InSegment * SegmentSize:D20}.log");

    private void Damage(string kind, int message)
    {
        long position = message % InSegment * FrameLength;
        switch (kind)
        {
            case "checksum" or "checksum-last":
                Write(SegmentOf(message), position + 40, [1]);
                break;
            case "header":
                Write(SegmentOf(message), position, [255, 255, 255, 255]);
                break;
            case "zeros":
                Write(SegmentOf(message), position, new byte[8]);
                break;
            case "short":
                using (FileStream stream = File.OpenWrite(SegmentOf(message)))
                    stream.SetLength(position);
                break;
            case "missing-two":
                File.Delete(SegmentOf(message + InSegment));
                goto default;
            default:
                File.Delete(SegmentOf(message));
                break;
        }
    }

    private void WriteCursor(string consumer, ulong word) =>
        Write(_temp.PathOf($"offset/consumers/{consumer}.cursor"), 0, BitConverter.GetBytes(word));

    private static void Write(string path, long position, byte[] bytes)
    {
        using FileStream stream = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        stream.Position = position;
        stream.Write(bytes);
    }
}
