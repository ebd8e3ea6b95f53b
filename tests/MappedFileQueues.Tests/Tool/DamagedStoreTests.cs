namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq` and a damaged log. Of 2,000,000 messages 2,289 could be reached, because one bit in the next one was flipped, and what
/// had been read before it was not even written out; a producer continued after the damage without a word, for nobody.
/// </summary>
public sealed class DamagedStoreTests : IDisposable
{
    private const int Count = 400;
    private const int Damaged = 130;
    private const int FrameLength = 72;
    private const int SegmentSize = 8192;

    private static readonly int s_framesInSegment = SegmentSize / FrameLength;

    private readonly TempStore _temp = new();

    public DamagedStoreTests()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", $"{Count}", "--segment-size", $"{SegmentSize}").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "early", "--commit", "--count", "10").Expect(0);
    }

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Consume_DamagedMessage_WritesWhatLiesBeforeItAndNamesTheWayOn()
    {
        Damage(Damaged);

        ToolRun run = ToolRun.Of("consume", _temp.StorePath);

        run.ExpectError($"offset={OffsetOf(Damaged)}", "--skip-damage");
        Assert.Equal(Numbers(0, Damaged), NumbersOf(run));
    }

    [Fact]
    public void ConsumeWithCommit_DamagedMessage_CommitsWhatLiesBeforeItAndSkipsOnDemand()
    {
        Damage(Damaged);
        string[] asWorker = ["consume", _temp.StorePath, "--consumer", "worker", "--commit"];

        ToolRun first = ToolRun.Of(asWorker);
        first.ExpectError("--skip-damage");
        Assert.Equal(Numbers(0, Damaged), NumbersOf(first));
        ToolRun again = ToolRun.Of(asWorker);
        again.ExpectError("--skip-damage");
        Assert.Empty(again.Text);

        ToolRun rest = ToolRun.Of([.. asWorker, "--skip-damage"]).Expect(0);
        Assert.Equal(Numbers(Damaged + 1, Count), NumbersOf(rest));
        Assert.Equal(
            $"mfq: Damage was skipped: offset={OffsetOf(Damaged)}, next={OffsetOf(Damaged + 1)}, bytes={FrameLength}, "
            + $"file={FileOf(Damaged)}.\n",
            rest.Error);
        Assert.Empty(ToolRun.Of(asWorker).Expect(0).Text);
    }

    [Fact]
    public void ConsumeSkipDamage_AsReader_AllTheRestAndALineForEachPlace()
    {
        Damage(Damaged);
        Damage(Count - 2);

        ToolRun run = ToolRun.Of("consume", _temp.StorePath, "--skip-damage").Expect(0);

        Assert.Equal([.. Numbers(0, Damaged), .. Numbers(Damaged + 1, Count - 2), .. Numbers(Count - 1, Count)], NumbersOf(run));
        Assert.Equal(2, run.Error.Split('\n', StringSplitOptions.RemoveEmptyEntries).Length);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(70)]
    [InlineData(300)]
    [InlineData(Count)]
    [InlineData(Count + 1)]
    public void ConsumeLast_ManySegments_ThatManyFromTheEnd(int last)
    {
        ToolRun run = ToolRun.Of("consume", _temp.StorePath, "--last", $"{last}").Expect(0);

        Assert.Equal(Numbers(Math.Max(0, Count - last), Count), NumbersOf(run));
    }

    [Fact]
    public void ConsumeLast_DamageAmongThem_IsAnErrorUnlessItIsSkipped()
    {
        Damage(Count - 20);

        ToolRun.Of("consume", _temp.StorePath, "--last", "40").ExpectError($"offset={OffsetOf(Count - 20)}", "--skip-damage");
        ToolRun run = ToolRun.Of("consume", _temp.StorePath, "--last", "40", "--skip-damage").Expect(0);

        Assert.Equal([.. Numbers(Count - 41, Count - 20), .. Numbers(Count - 19, Count)], NumbersOf(run));
    }

    [Fact]
    public void ConsumeFrom_OffsetStartOrEnd_BeginsThereAndMovesTheConsumerThatCommits()
    {
        Assert.Equal(
            Numbers(7, 9),
            NumbersOf(ToolRun.Of("consume", _temp.StorePath, "--from", $"{OffsetOf(7)}", "--count", "2").Expect(0)));
        Assert.Empty(ToolRun.Of("consume", _temp.StorePath, "--from", "end").Expect(0).Text);
        Assert.Equal(Count, NumbersOf(ToolRun.Of("consume", _temp.StorePath, "--from", "start").Expect(0)).Length);
        ToolRun.Of("consume", _temp.StorePath, "--from", $"{OffsetOf(7) + 8}")
            .ExpectError($"offset={OffsetOf(7) + 8}", "--format json");

        string[] asEarly = ["consume", _temp.StorePath, "--consumer", "early"];
        Assert.Equal("", ToolRun.Of([.. asEarly, "--commit", "--from", "end"]).Expect(0).Text);
        Assert.Equal("", ToolRun.Of(asEarly).Expect(0).Text);
        Assert.Equal(Numbers(0, 3), NumbersOf(ToolRun.Of([.. asEarly, "--commit", "--from", "start", "--count", "3"]).Expect(0)));
        Assert.Equal(Numbers(3, 4), NumbersOf(ToolRun.Of([.. asEarly, "--count", "1"]).Expect(0)));
    }

    [Fact]
    public void Produce_DamageBetweenAConsumerAndTheEnd_IsRefusedUnlessItIsMeant()
    {
        Damage(Damaged);
        string[] before = StoreSnapshot.Of(Path.Combine(_temp.StorePath, "commitlog"));

        ToolRun.WithInput([.. "behind\n"u8], "produce", _temp.StorePath)
            .ExpectError($"offset={OffsetOf(Damaged)}", FileOf(Damaged), "Nothing was appended", "--after-damage");
        Assert.Equal(before, StoreSnapshot.Of(Path.Combine(_temp.StorePath, "commitlog")));

        ToolRun meant = ToolRun.WithInput([.. "behind\n"u8], "produce", _temp.StorePath, "--after-damage").Expect(0);
        Assert.Contains($"offset={OffsetOf(Damaged)}", meant.Error, StringComparison.Ordinal);
        ToolRun last = ToolRun.Of("consume", _temp.StorePath, "--last", "1").Expect(0);
        Assert.Equal("behind\n", last.Text);
    }

    [Fact]
    public void Produce_EveryConsumerIsBehindTheDamage_Appends()
    {
        string[] asEarly = ["consume", _temp.StorePath, "--consumer", "early", "--commit"];
        ToolRun.Of([.. asEarly, "--from", $"{OffsetOf(Damaged + 1)}", "--count", "1"]).Expect(0);
        Damage(Damaged);

        Assert.Empty(ToolRun.WithInput([.. "wanted\n"u8], "produce", _temp.StorePath).Expect(0).Error);
    }

    /// <summary>
    /// Nothing that follows the damage is whole, no segment follows, and somebody may still append. The end of what can be read
    /// is not the end of the log, and is not taken for it.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void ConsumeSkipDamage_NothingBehindItIsCertain_IsAnError(bool isHeldOpen)
    {
        string path = Path.Combine(_temp.Root, "damaged");
        MappedFileQueueOptions options = new() { StorePath = path };
        using MappedFileQueue queue = new(options);
        for (int index = 0; index < 5; index++)
            queue.Producer.Produce("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"u8);
        if (!isHeldOpen)
            queue.Dispose();
        using (FileStream file = new(
            Path.Combine(path, FileOf(0)), FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite))
        {
            file.Position = OffsetOf(2);
            file.Write([.. Enumerable.Repeat((byte)0xFF, 3 * FrameLength)]);
        }

        ToolRun run = ToolRun.Of("consume", path, "--skip-damage");

        run.ExpectError($"offset={OffsetOf(2)}");
        Assert.Equal(2, run.Lines.Length);
    }

    private static long OffsetOf(int message) =>
        (long)(message / s_framesInSegment) * SegmentSize + (message % s_framesInSegment * FrameLength);

    private static string FileOf(int message) => $"commitlog/{OffsetOf(message) / SegmentSize * SegmentSize:D20}.log";

    private static string[] Numbers(int from, int to) => [.. Enumerable.Range(from, to - from).Select(number => $"{number:D20}")];

    private static string[] NumbersOf(ToolRun run) => [.. run.Lines.Select(line => line[..20])];

    /// <summary>Flips a bit in the middle of a message.</summary>
    private void Damage(int message)
    {
        const int InTheMiddle = 40;
        using FileStream file = new(_temp.PathOf(FileOf(message)), FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        file.Position = OffsetOf(message) % SegmentSize + InTheMiddle;
        int value = file.ReadByte();
        file.Position--;
        file.WriteByte((byte)(value ^ 4));
    }
}
