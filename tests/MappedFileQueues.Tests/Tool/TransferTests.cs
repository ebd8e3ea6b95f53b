using System.Diagnostics;
using System.Text;
using System.Text.Json;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq export`, `mfq import` and `mfq replay`: the messages come out as they went in.</summary>
[Trait("Category", "Slow")]
public sealed class TransferTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>Text, an empty message, bytes that are no text, text that JSON has to escape, and one of many bytes.</summary>
    public static IReadOnlyList<byte[]> Messages =>
    [
        .. new[] { "plain", "", "tab\tquote\" back\\slash \u2028 \u0000 \ud83d\ude00" }.Select(Encoding.UTF8.GetBytes),
        [0xFF, 0xFE, 0x00, 0x80], [.. Enumerable.Range(0, 100_003).Select(number => (byte)(number * 7))],
    ];

    [Theory]
    [InlineData("jsonl", false)]
    [InlineData("jsonl", true)]
    [InlineData("binary", false)]
    [InlineData("binary", true)]
    public void ExportImport_MessagesOfAllKinds_ComeOutAsTheyWentIn(string format, bool isPiped)
    {
        Fill();
        string[] before = StoreSnapshot.Of(_temp.StorePath);
        string copy = Path.Combine(_temp.Root, "copy");
        string file = Path.Combine(_temp.Root, "export");
        if (isPiped)
        {
            byte[] bytes = ToolRun.Of("export", _temp.StorePath, "--format", format).Expect(0).Output;
            ToolRun.WithInput(bytes, "import", copy).Expect(0);
        }
        else
        {
            ToolRun.Of("export", _temp.StorePath, "--format", format, "--to", file).Expect(0);
            string told = ToolRun.Of("import", copy, file).Expect(0).Text;
            Assert.StartsWith($"Imported {Messages.Count} messages", told, StringComparison.Ordinal);
            Assert.Equal(["copy", "export", "store"], NamesIn(_temp.Root));
            ToolRun.Of("export", _temp.StorePath, "--format", format, "--to", file).ExpectError("The file exists");
        }

        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
        Assert.Equal(Messages, Read(copy));
        ToolRun.Of("verify", copy).Expect(0);
    }

    /// <summary>The content was on disk and its name was not: a power loss after the command left nothing.</summary>
    [Fact]
    public void Export_ToAFile_ItsNameIsOnDiskToo()
    {
        Fill();
        string file = Path.Combine(_temp.Root, "export");
        bool isNameFlushed = false;
        var disk = new FaultyDisk();
        disk.Before = (call, _) => isNameFlushed |= call == DiskCall.SyncEntries && File.Exists(file);

        ToolRun.Of("export", _temp.StorePath, "--to", file).Expect(0);

        Assert.True(isNameFlushed);
    }

    /// <summary>Headers of every kind go through an export and through a replay, and `mfq consume` shows them.</summary>
    [Theory]
    [InlineData("jsonl")]
    [InlineData("binary")]
    public void Headers_ExportImportReplayConsume_ComeOutAsTheyWentIn(string format)
    {
        var trace = new ActivityContext(
            ActivityTraceId.CreateFromString("0123456789abcdef0123456789abcdef"),
            ActivitySpanId.CreateFromString("fedcba9876543210"), ActivityTraceFlags.Recorded, "vendor=1", isRemote: true);
        MessageHeaders?[] headers =
        [
            new() { Time = DateTimeOffset.UnixEpoch.AddTicks(1234567), Key = "k\u00e9y"u8.ToArray() },
            null,
            new()
            {
                Key = new byte[] { 0xFF, 0 }, TraceContext = trace, ProducerId = ulong.MaxValue, Sequence = ulong.MaxValue - 1,
            },
        ];
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
            queue.Producer.ProduceBatch(["one"u8.ToArray(), "two"u8.ToArray(), "three"u8.ToArray()], headers);
        string file = Path.Combine(_temp.Root, "export");
        string copy = Path.Combine(_temp.Root, "copy");
        string replayed = Path.Combine(_temp.Root, "replayed");

        ToolRun.Of("export", _temp.StorePath, "--format", format, "--to", file).Expect(0);
        ToolRun.Of("import", copy, file).Expect(0);
        ToolRun.Of("replay", copy, replayed).Expect(0);

        foreach (string store in new[] { copy, replayed })
        {
            using var reader = MappedFileReader.Open(store);
            foreach (MessageHeaders? expected in headers)
            {
                Assert.True(reader.TryRead(out _));
                Assert.Equal(expected, reader.Headers);
            }
        }

        ToolRun.Of("verify", replayed).Expect(0);
        Assert.Equal(
            [
                "1970-01-01T00:00:00.1234567Z\tk\u00e9y\t-\tone", "-\t-\t-\ttwo",
                "-\t0xff00\t00-0123456789abcdef0123456789abcdef-fedcba9876543210-01\tthree",
            ],
            ToolRun.Of("consume", replayed, "--headers").Expect(0).Lines);
        JsonElement last = JsonDocument.Parse(ToolRun.Of("consume", replayed, "--format", "json").Expect(0).Lines[2]).RootElement;
        Assert.Equal("/wA=", last.GetProperty("keyBase64").GetString());
        Assert.Equal("vendor=1", last.GetProperty("tracestate").GetString());
        Assert.Equal("ffffffffffffffff", last.GetProperty("producer").GetString());
        Assert.Equal(ulong.MaxValue - 1, last.GetProperty("sequence").GetUInt64());
    }

    /// <summary>Ten times as fast as the times in the headers say: 30 s become 3.</summary>
    [Fact]
    public void Replay_Speed_GoesByTheTimesOfTheMessages()
    {
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        {
            DateTimeOffset time = DateTimeOffset.UnixEpoch;
            foreach (double seconds in new[] { 0, 15, 30.0, 20 })
                queue.Producer.Produce([1], new ProduceOptions { Headers = new() { Time = time.AddSeconds(seconds) } });
            queue.Producer.Produce([2]);
        }

        long begun = Stopwatch.GetTimestamp();
        ToolRun.Of("replay", _temp.StorePath, Path.Combine(_temp.Root, "copy"), "--speed", "10x").Expect(0);
        Assert.InRange(Stopwatch.GetElapsedTime(begun), TimeSpan.FromSeconds(3), TimeSpan.FromSeconds(29));
        foreach (string wrong in new[] { "0", "-1", "x", "1e3", "NaN" })
            Assert.Contains("--speed", ToolRun.Of("replay", _temp.StorePath, "other", "--speed", wrong).Expect(2).Error);
        ToolRun both = ToolRun.Of("replay", _temp.StorePath, "other", "--speed", "2", "--rate", "1").Expect(2);
        Assert.Contains("exclude each other", both.Error);
    }

    [Theory]
    [InlineData("jsonl")]
    [InlineData("binary")]
    public void ExportImport_Structs_MakeAStoreThatTheirTypeOpens(string format)
    {
        Reading[] readings = [new(1, 0.5), new(2, 1.5), new(3, 2.5)];
        using (MappedFileQueue<Reading> queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
            queue.Producer.ProduceBatch(readings);
        string file = Path.Combine(_temp.Root, "export");
        string copy = Path.Combine(_temp.Root, "copy");
        ToolRun.Of("export", _temp.StorePath, "--format", format, "--to", file).Expect(0);

        ToolRun.Of("import", copy, file).Expect(0);

        using (MappedFileQueue<Reading> queue = new(new MappedFileQueueOptions { StorePath = copy }))
        {
            foreach (Reading expected in readings)
            {
                queue.Consumer.Consume(out Reading one);
                queue.Consumer.Commit();
                Assert.Equal(expected, one);
            }
        }

        ToolRun.Of("produce", Path.Combine(_temp.Root, "other"), "--messages", "1").Expect(0);
        ToolRun.Of("import", Path.Combine(_temp.Root, "other"), file).ExpectError("something else");
    }

    /// <summary>An export that was cut short or damaged is noticed; the whole messages before that are there.</summary>
    [Theory]
    [InlineData("jsonl")]
    [InlineData("binary")]
    public void Import_ExportIsCut_SaysHowManyCame(string format)
    {
        Fill();
        byte[] bytes = ToolRun.Of("export", _temp.StorePath, "--format", format).Expect(0).Output;
        string copy = Path.Combine(_temp.Root, "copy");

        ToolRun.WithInput(bytes[..^60_000], "import", copy).ExpectError(format == "binary" ? "ends too early" : "no message");
        Assert.Equal(Messages.Take(4), Read(copy));
        ToolRun.WithInput(bytes, "import", copy, "--skip", "4").Expect(0);
        ToolRun.WithInput(bytes, "import", copy, "--skip", "5").Expect(0);
        Assert.Equal(Messages, Read(copy));

        // More than there are: of another file.
        string other = Path.Combine(_temp.Root, "other");
        ToolRun.WithInput(bytes, "import", other, "--skip", "6").ExpectError("messages=5, skip=6");
        Assert.False(Directory.Exists(other));
    }

    /// <summary>`cat a b | mfq import`: the second export was left out in silence.</summary>
    [Theory]
    [InlineData("jsonl")]
    [InlineData("binary")]
    public void Import_TwoExportsInOneFile_SaysWhatWasImported(string format)
    {
        Fill();
        byte[] bytes = ToolRun.Of("export", _temp.StorePath, "--format", format).Expect(0).Output;
        string copy = Path.Combine(_temp.Root, "copy");

        ToolRun.WithInput([.. bytes, .. bytes], "import", copy).ExpectError("follows the end", $"messages={Messages.Count}");
        Assert.Equal(Messages, Read(copy));
    }

    /// <summary>
    /// What an import on a full disk had appended was not told: whoever freed room and ran it again appended it twice.
    /// </summary>
    [Fact]
    public void Import_DiskIsFull_SaysHowToGoOn()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string lines = string.Concat(Enumerable.Range(0, 300).Select(i => $"{{\"text\":\"{i} {new string('x', 20_000)}\"}}\n"));
        byte[] input = Encoding.UTF8.GetBytes(lines);
        string store = disk.PathOf("copy");

        string error = ToolRun.WithInput(input, "import", store, "--segment-size", "1MiB").Expect(1).Error;

        int count = Read(store).Count;
        Assert.InRange(count, 50, 250);
        Assert.Contains($"continue with --skip {count}", error, StringComparison.OrdinalIgnoreCase);
        Assert.Contains("errno=28", error, StringComparison.Ordinal);
        error = ToolRun.Of("replay", store, disk.PathOf("second")).Expect(1).Error;
        Assert.Contains("Replayed before that: messages=", error, StringComparison.Ordinal);
    }

    /// <summary>Each of them left a store without a message. A folder that the user had made stays.</summary>
    [Fact]
    public void Append_DiskIsFullAtOnce_LeavesNoStore()
    {
        Fill();
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root, lengthMiB: 1);
        string there = Directory.CreateDirectory(disk.PathOf("there")).FullName;
        byte[] input = "{\"text\":\"a\"}\n"u8.ToArray();

        foreach (string store in new[] { disk.PathOf("new"), there })
        {
            ToolRun.WithInput(input, "import", store).ExpectError("errno=28");
            ToolRun.WithInput(input, "produce", store).ExpectError("errno=28");
            ToolRun.Of("replay", _temp.StorePath, store).ExpectError("errno=28");
        }

        Assert.Equal([there], Directory.GetFileSystemEntries(disk.Path, "*", SearchOption.AllDirectories));
    }

    [Fact]
    public void Import_BinaryWithAFlippedBit_IsRefused()
    {
        Fill();
        byte[] bytes = ToolRun.Of("export", _temp.StorePath, "--format", "binary").Expect(0).Output;
        bytes[^1000] ^= 1;

        ToolRun.WithInput(bytes, "import", Path.Combine(_temp.Root, "copy")).ExpectError("damaged", "message=5");
    }

    [Fact]
    public void Import_LinesOfSomebodyElse_NeedNeitherHeadNorEnd()
    {
        string copy = Path.Combine(_temp.Root, "copy");
        byte[] lines = [.. "{\"text\":\"one\",\"other\":1}\n\n{\"base64\":\"/w==\"}"u8];

        JsonElement result = JsonDocument.Parse(
            ToolRun.WithInput(lines, "import", copy, "--output", "json").Expect(0).Output).RootElement;

        Assert.Equal(2, result.GetProperty("messages").GetInt64());
        Assert.Equal([[.. "one"u8], [0xFF]], Read(copy));
        ToolRun.WithInput([.. "{\"text\":\"two\"}\nnonsense\n"u8], "import", copy).ExpectError("after=1");
        Assert.Equal(3, Read(copy).Count);
    }

    /// <summary>These properties mean something only on the lines that an export adds, which have no message.</summary>
    [Fact]
    public void Import_LinesWithOtherProperties_AreMessages()
    {
        string copy = Path.Combine(_temp.Root, "copy");

        const string Lines = "{\"text\":\"one\",\"export\":5,\"end\":\"x\"}\n{\"text\":\"two\",\"end\":0}\n";
        ToolRun.WithInput(Encoding.UTF8.GetBytes(Lines), "import", copy).Expect(0);

        Assert.Equal([[.. "one"u8], [.. "two"u8]], Read(copy));
    }

    /// <summary>Each of these once asked the user to report an error of mfq.</summary>
    [Theory]
    [InlineData("head of the export is damaged", "{\"export\":1,\"structSize\":\"a\"}")]
    [InlineData("head of the export is damaged", "{\"export\":1,\"segmentSize\":0}\n{\"text\":\"a\"}\n{\"end\":1}")]
    [InlineData("head of the export is damaged", "{\"export\":1,\"segmentSize\":4096,\"structSize\":-1}\n{\"text\":\"a\"}")]
    [InlineData("newer form", "{\"export\":2,\"segmentSize\":4096}\n{\"text\":\"a\"}\n{\"end\":1}")]
    [InlineData("no message", "{\"text\":\"\\ud800\"}")]
    [InlineData("no message", "{\"end\":\"x\"}")]
    [InlineData("no message", "{\"text\":\"one\"}{\"text\":\"left out in silence\"}")]
    public void Import_WrongLine_IsRefusedAndMakesNoStore(string named, string lines)
    {
        string copy = Path.Combine(_temp.Root, "copy");

        ToolRun.WithInput(Encoding.UTF8.GetBytes(lines), "import", copy).ExpectError(named);

        Assert.False(Directory.Exists(copy));
    }

    /// <summary>A store that was there stays as it was, to the byte, when nothing of the input can be appended.</summary>
    [Fact]
    public void Import_NothingCanBeAppended_TheStoreStaysAsItWas()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "3", "--segment-size", "4096").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);
        byte[] tooLong = Encoding.UTF8.GetBytes($"{{\"text\":\"{new string('x', 5000)}\"}}");

        ToolRun.WithInput(tooLong, "import", _temp.StorePath).ExpectError("nothing was appended");

        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
    }

    [Fact]
    public void Transfer_DirectoryInThePlaceOfAFile_IsSaid()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").Expect(0);

        ToolRun.Of("import", Path.Combine(_temp.Root, "copy"), _temp.Root).ExpectError("is a directory");
        ToolRun.Of("produce", Path.Combine(_temp.Root, "copy"), "--lines", _temp.Root).ExpectError("is a directory");
        ToolRun.Of("export", _temp.StorePath, "--to", _temp.Root).ExpectError("A directory has that name");
        ToolRun.Of("export", _temp.StorePath, "--to", Path.Combine(_temp.Root, "none", "x")).ExpectError("is missing");
        Assert.Equal(["store"], NamesIn(_temp.Root));
    }

    /// <summary>A slash at the end, or a link, hid that both were one store, and its messages were doubled.</summary>
    [Fact]
    public void Replay_SameStoreByAnotherPath_IsRefused()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "3").Expect(0);
        List<string> paths = [_temp.StorePath + Path.DirectorySeparatorChar, Path.Combine(_temp.StorePath, "..", "store")];
        if (!OperatingSystem.IsWindows())
            paths.Add(Directory.CreateSymbolicLink(Path.Combine(_temp.Root, "link"), _temp.StorePath).FullName);

        Assert.All(paths, path => ToolRun.Of("replay", _temp.StorePath, path).ExpectError("into itself"));

        Assert.Equal(3, Read(_temp.StorePath).Count);
    }

    /// <summary>An export appeared among the store's files, and a replay made a store that its deletion took along.</summary>
    [Fact]
    public void ExportAndReplay_IntoTheStoreThatIsRead_AreRefused()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "3").Expect(0);
        string[] before = StoreSnapshot.Of(_temp.StorePath);
        List<string> folders = [_temp.StorePath, Path.Combine(_temp.StorePath, "commitlog")];
        if (!OperatingSystem.IsWindows())
            folders.Add(Directory.CreateSymbolicLink(Path.Combine(_temp.Root, "link"), folders[1]).FullName);

        Assert.All(folders, folder =>
        {
            ToolRun.Of("export", _temp.StorePath, "--to", Path.Combine(folder, "x")).ExpectError("in the store itself");
            ToolRun.Of("replay", _temp.StorePath, Path.Combine(folder, "x")).ExpectError("into itself");
        });

        Assert.Equal(before, StoreSnapshot.Of(_temp.StorePath));
        string copy = Path.Combine(folders[^1], "copy");
        ToolRun.Of("snapshot", _temp.StorePath, copy).ExpectError("in the store itself");
        Assert.False(Directory.Exists(copy));
    }

    /// <summary>In a container each run has the same process id. After one that was killed, each later one was refused.</summary>
    [Fact]
    public void Export_KilledOneHadTheSameProcessId_WorksAndRemovesNothing()
    {
        Fill();
        string file = Path.Combine(_temp.Root, "export");
        string left = $"{file}.{Environment.ProcessId}.tmp";
        File.WriteAllText(left, "of somebody else");

        ToolRun.Of("export", _temp.StorePath, "--to", file).Expect(0);

        Assert.Equal("of somebody else", File.ReadAllText(left));
        Assert.NotEmpty(File.ReadAllText(file));
    }

    /// <summary>A killed export left a file as long as the store, and so did each later one that was killed.</summary>
    [Fact]
    public void Export_KilledOnesHaveLeftFiles_RemovesThemAndNoOthers()
    {
        Fill();
        string file = Path.Combine(_temp.Root, "export");
        File.WriteAllText(file + ".export-abcdefgh.tmp", "of one that was killed");
        string[] others = ["export.export-running.tmp", "export.tmp", "export2.export-abcdefgh.tmp"];
        foreach (string other in others)
            File.WriteAllText(Path.Combine(_temp.Root, other), "of somebody else");

        using (new FileStream(Path.Combine(_temp.Root, others[0]), FileMode.Open, FileAccess.Write, FileShare.None))
            ToolRun.Of("export", _temp.StorePath, "--to", file).Expect(0);

        Assert.Equal(["export", .. others, "store"], NamesIn(_temp.Root).Order(StringComparer.Ordinal));
        Assert.All(others, other => Assert.NotEmpty(File.ReadAllBytes(Path.Combine(_temp.Root, other))));
    }

    /// <summary>The error named a file that the user had not named, and that was gone.</summary>
    [Fact]
    public void Export_DiskIsFull_NamesTheFileAndLeavesNone()
    {
        Fill();
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root, lengthMiB: 1);
        File.WriteAllBytes(disk.PathOf("filling"), new byte[(1 << 20) - 8192]);

        string error = ToolRun.Of("export", _temp.StorePath, "--to", disk.PathOf("export")).Expect(1).Error;

        Assert.Contains($"'{disk.PathOf("export")}'", error, StringComparison.Ordinal);
        Assert.Equal(["filling"], NamesIn(disk.Path));
    }

    /// <summary>A closed pipe is no error, and a signal leaves no file.</summary>
    [Fact]
    public void Export_PipeIsClosed_IsNoError()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "The pipe is made by bash.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "50000").Expect(0);
        const string Script = "set -o pipefail; dotnet exec \"$0\" export \"$1\" | head -n 2 | tail -n 1";

        ToolRun run = ToolRun.Start(new ProcessStartInfo("bash", ["-c", Script, Repository.ToolPath, _temp.StorePath]), []);

        run.Expect(0);
        Assert.Empty(run.Error);
        Assert.Contains("\"offset\":0", run.Text, StringComparison.Ordinal);
    }

    [Fact]
    public void Replay_Rate_IsKeptAndTheRestIsAsBefore()
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "100").Expect(0);
        string copy = Path.Combine(_temp.Root, "copy");

        long begun = Stopwatch.GetTimestamp();
        ToolRun.Of("replay", _temp.StorePath, copy, "--rate", "50", "--count", "51").Expect(0);

        // The 51st message is due one second after the first.
        Assert.True(Stopwatch.GetElapsedTime(begun) >= TimeSpan.FromSeconds(1));
        Assert.Equal(Read(_temp.StorePath).Take(51), Read(copy));
        ToolRun.Of("replay", _temp.StorePath, copy).Expect(0);
        Assert.Equal(151, Read(copy).Count);
        ToolRun.Of("replay", copy, copy).ExpectError("into itself");
    }

    /// <summary>What was appended before a signal stays, and is counted.</summary>
    [Fact]
    public void ReplayAndImport_Signal_SayHowManyCame()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "The signal is sent as one.");
        ToolRun.Of("produce", _temp.StorePath, "--messages", "100").Expect(0);
        string copy = Path.Combine(_temp.Root, "copy");
        using ChildProcess replay = ChildProcess.StartTool("replay", _temp.StorePath, copy, "--rate", "1");
        Eventually.True(() => File.Exists(Path.Combine(copy, "control")) && Read(copy).Count > 0, "a message came");
        replay.Signal(ChildProcess.SigTerm);
        replay.ExpectExit(143);
        int count = Read(copy).Count;
        Assert.Equal(
            $"Interrupted. Replayed {count} message{(count == 1 ? "" : "s")}", Assert.Single(replay.Lines).Split(',')[0]);

        string other = Path.Combine(_temp.Root, "other");
        using ChildProcess import = ChildProcess.StartTool("import", other);
        import.Input.Write("{\"text\":\"one\"}\n{\"text\":\"tw");
        import.Input.Flush();
        Eventually.True(() => File.Exists(Path.Combine(other, "control")) && Read(other).Count > 0, "a message came");
        import.Signal(ChildProcess.SigTerm);
        import.ExpectExit(143);
        Assert.StartsWith("Interrupted. Imported 1 message,", Assert.Single(import.Lines), StringComparison.Ordinal);
    }

    /// <summary>
    /// JSON takes no text of more than 166,666,666 bytes, and no bytes of more than 125,000,000, in one piece: an export as lines
    /// ended at a longer message, and binary was the only way out for it.
    /// </summary>
    [Fact]
    public void ExportImport_LongestMessages_ComeOutAsTheyWentIn()
    {
        const int TextLength = 166_666_667;
        const int BytesLength = 125_000_001;
        byte[] message = new byte[TextLength];
        message.AsSpan().Fill((byte)'a');
        // Characters of three bytes, which are cut by pieces of any length that is no multiple of three, and one to be escaped.
        for (int at = 0; at < 6 << 20; at += 3)
            "\u20ac"u8.CopyTo(message.AsSpan(at));
        message[^1] = (byte)'"';
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 256 << 20 }))
        {
            queue.Producer.Produce(message);
            message[1] = 0xFF;
            queue.Producer.Produce(message.AsSpan(0, BytesLength));
        }

        string file = Path.Combine(_temp.Root, "export");
        string copy = Path.Combine(_temp.Root, "copy");
        ToolRun.Of("export", _temp.StorePath, "--to", file).Expect(0);
        ToolRun.Of("import", copy, file).Expect(0);

        using MappedFileReader reader = MappedFileReader.Open(copy);
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> bytes));
        message[1] = "\u20ac"u8[1];
        Assert.True(bytes.SequenceEqual(message));
        Assert.True(reader.TryRead(out bytes));
        message[1] = 0xFF;
        Assert.True(bytes.SequenceEqual(message.AsSpan(0, BytesLength)));
        Assert.False(reader.TryRead(out _));
    }

    private void Fill()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        foreach (byte[] message in Messages)
            queue.Producer.Produce(message);
    }

    private static IReadOnlyList<byte[]> Read(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        List<byte[]> messages = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add(message.ToArray());
        return messages;
    }

    private static string[] NamesIn(string folder) =>
        [.. Directory.GetFileSystemEntries(folder).Select(path => Path.GetFileName(path)).Order(StringComparer.Ordinal)];

    private record struct Reading(int Sensor, double Value);
}
