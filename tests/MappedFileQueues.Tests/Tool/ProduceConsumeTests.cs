using System.Text;
using System.Text.Json;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq produce` and `mfq consume`, each a process of its own, as a shell would run them.</summary>
[Trait("Category", "Slow")]
public sealed class ProduceConsumeTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void ConsumeText_LinesOfEveryShape_ComeOutByteForByte()
    {
        byte[] lines =
        [
            .. "first\n\n\n"u8, .. Enumerable.Repeat((byte)'x', 238), .. "\n with \r\n"u8, 0xFF, 0xFE, 0x00, 0x80, .. "\n"u8,
            .. Enumerable.Range(0, 1_000_000).Select(index => (byte)('a' + index % 26)), .. "\nlast\n"u8,
        ];
        string file = WriteFile("lines", lines);

        ToolRun.Of("produce", _temp.StorePath, "--lines", file).Expect(0);
        ToolRun run = ToolRun.Of("consume", _temp.StorePath).Expect(0);

        Assert.Equal(lines, run.Output);
        Assert.Empty(run.Error);
    }

    [Fact]
    public void ProduceFromStandardInput_LastLineWithoutNewline_IsAMessage()
    {
        ToolRun.WithInput([.. "one\ntwo"u8], "produce", _temp.StorePath).Expect(0);
        ToolRun.WithInput([.. "\nthree\n"u8], "produce", _temp.StorePath, "--lines", "-").Expect(0);

        Assert.Equal("one\ntwo\n\nthree\n", ToolRun.Of("consume", _temp.StorePath).Expect(0).Text);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(7)]
    [InlineData(64)]
    public void ProduceMadeUp_CountAndSize_SoManyOfThatLength(int size)
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1234", "--size", $"{size}").Expect(0);

        string[] messages = ToolRun.Of("consume", _temp.StorePath).Expect(0).Text.Split('\n')[..^1];
        Assert.Equal(1234, messages.Length);
        Assert.All(messages, message => Assert.Equal(size, message.Length));

        // Each begins with the last digits of its number, so many as fit.
        int digits = Math.Min(size, 20);
        Assert.Equal(
            Enumerable.Range(0, messages.Length).Select(index => $"{index:D20}"[^digits..]),
            messages.Select(message => message[..digits]));
    }

    [Fact]
    public async Task Produce_MaxUnconsumed_WaitsForTheConsumer()
    {
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        using MappedFileConsumer consumer = queue.OpenConsumer("slow");
        const int countOfLimit = 1000 / 72;
        Task<ToolRun> run = Task.Run(
            () => ToolRun.Of("produce", _temp.StorePath, "--messages", "100", "--max-unconsumed", "1000"));
        for (int i = 0; i < countOfLimit; i++)
        {
            consumer.Consume();
            consumer.Advance();
        }

        Assert.False(consumer.TryConsume(out _, TimeSpan.FromMilliseconds(100)));
        for (int i = countOfLimit; i < 100; i++)
        {
            consumer.Commit();
            consumer.Consume();
        }

        (await run).Expect(0);
    }

    [Fact]
    public void ConsumeHex_AllByteValues_TwoLowerCaseDigitsEach()
    {
        byte[] message = [.. Enumerable.Range(0, 256).Select(value => (byte)value).Where(value => value != (byte)'\n')];
        ToolRun.WithInput([.. message, .. "\n\nz\n"u8], "produce", _temp.StorePath).Expect(0);

        string text = ToolRun.Of("consume", _temp.StorePath, "--format", "hex").Expect(0).Text;

        Assert.Equal($"{Convert.ToHexStringLower(message)}\n\n7a\n", text);
    }

    [Fact]
    public void ConsumeJson_TextAndOtherBytes_TextOrBase64()
    {
        ToolRun.WithInput([.. "grün \"quoted\"\n\n"u8, 0xFF, 0x00, .. "\n"u8], "produce", _temp.StorePath).Expect(0);

        JsonElement[] messages =
        [
            .. ToolRun.Of("consume", _temp.StorePath, "--format", "json").Expect(0).Lines
                .Select(line => JsonDocument.Parse(line).RootElement),
        ];

        Assert.Equal(3, messages.Length);
        Assert.Equal("grün \"quoted\"", messages[0].GetProperty("text").GetString());
        Assert.Equal(Encoding.UTF8.GetByteCount("grün \"quoted\""), messages[0].GetProperty("length").GetInt32());
        Assert.Equal(0, messages[0].GetProperty("offset").GetInt64());
        Assert.Equal("", messages[1].GetProperty("text").GetString());
        Assert.Equal([0xFF, 0x00], messages[2].GetProperty("base64").GetBytesFromBase64());
        Assert.True(messages[2].GetProperty("offset").GetInt64() > messages[1].GetProperty("offset").GetInt64());
    }

    [Fact]
    public void ConsumeAsReader_StoreWithMessages_LeavesNoTrace()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "100").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);

        ToolRun.Of("consume", _temp.StorePath).Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "nobody").Expect(0);

        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
    }

    [Fact]
    public void ConsumeWithCommit_CalledAgain_GoesOnBehindWhatWasWritten()
    {
        ToolRun.WithInput([.. "1\n2\n3\n4\n5\n"u8], "produce", _temp.StorePath).Expect(0);
        string[] asWorker = ["consume", _temp.StorePath, "--consumer", "worker"];

        Assert.Equal("1\n2\n", ToolRun.Of([.. asWorker, "--commit", "--count", "2"]).Expect(0).Text);
        Assert.Equal("3\n", ToolRun.Of([.. asWorker, "--count", "1"]).Expect(0).Text);
        Assert.Equal("3\n4\n5\n", ToolRun.Of([.. asWorker, "--commit"]).Expect(0).Text);
        Assert.Equal("", ToolRun.Of([.. asWorker, "--commit"]).Expect(0).Text);
        Assert.Equal("1\n2\n3\n4\n5\n", ToolRun.Of("consume", _temp.StorePath).Expect(0).Text);
    }

    [Fact]
    public void Consume_ReaderOfThePipeGoes_EndsQuietly()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "The pipe is made by bash.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "100000").Expect(0);

        // With --follow it would never end by itself, so that it ends shows that it noticed.
        const string Script =
            "dotnet exec \"$0\" consume \"$1\" --follow --consumer c --commit | head -n 1; exit ${PIPESTATUS[0]}";
        ToolRun run = ToolRun.Start(new("bash", ["-c", Script, Repository.ToolPath, _temp.StorePath]), []).Expect(0);

        Assert.Equal(65, run.Output.Length);
        Assert.Empty(run.Error);
    }

    [Fact]
    public void Produce_LineLongerThanAMessage_NamesItAndKeepsWhatCameBefore()
    {
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 4096 }))
            queue.Producer.Produce("made"u8);
        byte[] lines = [.. "fits\n"u8, .. Enumerable.Repeat((byte)'x', 5000), .. "\nbehind\n"u8];

        ToolRun.WithInput(lines, "produce", _temp.StorePath).ExpectError("message=2", "length=5000", "--segment-size");

        Assert.Equal("made\nfits\n", ToolRun.Of("consume", _temp.StorePath).Expect(0).Text);
    }

    [Fact]
    public void Consume_StructStore_WritesTheStructsBytes()
    {
        using (MappedFileQueue<long> queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            queue.Producer.Produce(0x0102030405060708);
            queue.Producer.Produce(-1L);
        }

        const string Expected = "0807060504030201\nffffffffffffffff\n";
        Assert.Equal(Expected, ToolRun.Of("consume", _temp.StorePath, "--format", "hex").Expect(0).Text);
        string[] asConsumer = ["consume", _temp.StorePath, "--format", "hex", "--consumer", "c", "--commit"];
        Assert.Equal(Expected, ToolRun.Of(asConsumer).Expect(0).Text);
        Assert.Equal("", ToolRun.Of(asConsumer).Expect(0).Text);
        ToolRun.WithInput([.. "text\n"u8], "produce", _temp.StorePath).ExpectError(_temp.StorePath);
    }

    [Theory]
    [InlineData("consume")]
    [InlineData("consume", "--consumer", "c")]
    [InlineData("consume", "--consumer", "c", "--commit")]
    [InlineData("info")]
    public void ReadingCommand_MissingStore_OneLineAndNothingMade(string command, params string[] options)
    {
        ToolRun.Of([command, _temp.StorePath, .. options]).ExpectError(_temp.StorePath);

        Assert.Empty(Directory.EnumerateFileSystemEntries(_temp.Root));
    }

    [Fact]
    public void Produce_MissingInput_OneLineAndNothingMade()
    {
        ToolRun.Of("produce", _temp.StorePath, "--lines", Path.Combine(_temp.Root, "none")).ExpectError("none");

        Assert.Empty(Directory.EnumerateFileSystemEntries(_temp.Root));
    }

    private string WriteFile(string name, byte[] bytes)
    {
        string path = Path.Combine(_temp.Root, name);
        File.WriteAllBytes(path, bytes);
        return path;
    }
}
