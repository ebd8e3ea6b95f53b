using System.Buffers.Binary;
using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Log.Opening;
using MappedFileQueues.Tests.Platform;
using MappedFileQueues.Tool.VersionOne;

namespace MappedFileQueues.Tests.Tool;

/// <summary>`mfq import-v1`: what 1.x holds comes over once and in order, and the folder of 1.x stays as it was.</summary>
[Trait("Category", "Slow")]
public sealed partial class ImportVersionOneTests : IDisposable
{
    private const int QuoteSize = 16;

    private readonly TempStore _temp = new();

    private string Old => Path.Combine(_temp.Root, "old");

    private string New => Path.Combine(_temp.Root, "new");

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(17)]
    [InlineData(50)]
    [InlineData(1000)]
    [InlineData(1 << 20)]
    public void Structs_OfAnySegmentSize_AreReadByTheirTypeFromTheConsumersPlaceOn(long segmentSize)
    {
        VersionOneStore old = VersionOneStore.OfStructs(Old, QuoteSize, segmentSize);
        old.Produce(Enumerable.Range(0, 100).Select(QuoteOf));
        old.Consumer = 40 * (QuoteSize + 1);
        old.Write();
        string[] before = StoreSnapshot.Of(Old);

        string told = Import("--struct-size", "16").Expect(0).Text;

        Assert.StartsWith("Imported 100 messages, 1,600 bytes", told, StringComparison.Ordinal);
        Assert.Equal(before, StoreSnapshot.Of(Old));
        using (MappedFileQueue<Quote> queue = new(new MappedFileQueueOptions { StorePath = New }))
        {
            for (int i = 40; i < 100; i++)
            {
                queue.Consumer.Consume(out Quote quote);
                Assert.Equal(new Quote(i, i / 2.0), quote);
                queue.Consumer.Commit();
            }

            Assert.False(queue.Consumer.TryConsume(out _));
        }

        using (MappedFileReader<Quote> reader = MappedFileReader<Quote>.Open(New))
        {
            for (int i = 0; i < 100; i++)
            {
                Assert.True(reader.TryRead(out Quote quote));
                Assert.Equal(i, quote.Id);
            }
        }

        ToolRun.Of("verify", New).Expect(0);
        Assert.Throws<QueueFormatException>(() => MappedFileReader<Longer>.Open(New));
    }

    /// <summary>
    /// Lengths whose first byte is 1.x's mark for the end of a segment, an empty message, and rests of every size at the ends of
    /// segments: 1.x's own consumer hangs at most of them.
    /// </summary>
    [Fact]
    public void Messages_OfAnyLengthInSegmentsOfAnySize_AreReadToTheByte()
    {
        byte[][] messages = [.. new[] { 0, 1, 238, 494, 5, 0, 238, 2, 0, 494, 3, 0, 0, 238, 238 }.Select(BytesOf)];
        for (int size = 499; size < 760; size++)
        {
            string path = Path.Combine(_temp.Root, $"{size}");
            VersionOneStore.OfMessages(path, size).Produce(messages);

            (List<byte[]> read, VersionOneReader reader) = ReadAll(path, null);

            Assert.Equal(messages, read);
            Assert.Equal(0, reader.UnreadBytes);
        }
    }

    [Fact]
    public void Messages_ConsumerAtOneOfThem_ContinueThere()
    {
        VersionOneStore old = VersionOneStore.OfMessages(Old, 600);
        byte[][] messages = [.. new[] { 238, 0, 494, 7, 300, 238 }.Select(BytesOf)];
        old.Consumer = old.Produce(messages)[3];
        old.Write();

        Assert.Contains("The consumer continues at offset", Import("--stream").Expect(0).Text, StringComparison.Ordinal);

        Assert.Equal(messages, Read());
        Assert.Equal(messages[3..], Consume());
    }

    /// <summary>What was there before the producer was set back is complete, and no message.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Ghosts_AfterTheProducersOffset_AreLeftOutUnlessAskedFor(bool isStream)
    {
        VersionOneStore old = isStream ? VersionOneStore.OfMessages(Old, 60) : VersionOneStore.OfStructs(Old, QuoteSize, 60);
        byte[][] messages = [.. Enumerable.Range(0, 10).Select(QuoteOf)];
        old.Producer = old.Produce(messages)[6];
        old.Write();
        string[] kind = isStream ? ["--stream"] : ["--struct-size", "16"];

        Assert.Contains("4 messages after the producer's offset left out", Import(kind).Expect(0).Text, StringComparison.Ordinal);
        Assert.Equal(messages[..6], Read());

        Import([.. kind, "--ghosts"]).Expect(0);
        Assert.Equal(messages, Read());
        // The ghosts are there now, and a run without the option finds them again.
        Assert.Contains("10 messages had been imported", Import(kind).Expect(0).Text, StringComparison.Ordinal);
    }

    /// <summary>A producer's offset that a power loss took back: what was forced to disk after it counts.</summary>
    [Fact]
    public void Structs_ConfirmedOffsetIsAfterTheProducers_CountUpToIt()
    {
        VersionOneStore old = VersionOneStore.OfStructs(Old, QuoteSize, 1000);
        List<long> offsets = old.Produce(Enumerable.Range(0, 10).Select(QuoteOf));
        (old.Producer, old.Confirmed) = (offsets[2], offsets[8]);
        old.Write();

        Import("--struct-size", "16").Expect(0);

        Assert.Equal(Enumerable.Range(0, 8).Select(QuoteOf), Read());
    }

    [Theory]
    [InlineData(9, 9)]
    [InlineData(5, 5)]
    [InlineData(0, 5)]
    public void Structs_HoleInThem_EndsThemOnlyAfterTheConfirmedOffset(int confirmed, int countExpected)
    {
        VersionOneStore old = VersionOneStore.OfStructs(Old, QuoteSize, 1000);
        List<long> offsets = old.Produce(Enumerable.Range(0, 10).Select(QuoteOf));
        old.Confirmed = offsets[confirmed];
        old.At(offsets[5])[..(QuoteSize + 1)].Clear();
        old.Write();

        ToolRun run = Import("--struct-size", "16").Expect(3);

        Assert.Contains($"offset={offsets[5]}, next={offsets[6]}", run.Error, StringComparison.Ordinal);
        Assert.Equal(countExpected, Read().Count);
        Import("--struct-size", "16", "--ghosts").Expect(3);
        Assert.Equal(9, Read().Count);
    }

    /// <summary>Nothing tells where the next message begins, except the name of the next segment.</summary>
    [Theory]
    [InlineData(0x7FFF_FFFF)]
    [InlineData(0x0100_0000)]
    [InlineData(-1)]
    [InlineData(100)]
    [InlineData(3)]
    public void Messages_WrongLength_AreSkippedUpToTheNextSegment(int length)
    {
        VersionOneStore old = VersionOneStore.OfMessages(Old, 64);
        byte[][] messages = [.. Enumerable.Range(0, 9).Select(QuoteOf)];
        List<long> offsets = old.Produce(messages);
        BinaryPrimitives.WriteInt32LittleEndian(old.At(offsets[4]), length);
        old.Write();

        ToolRun run = Import("--stream").Expect(3);

        Assert.Contains($"offset={offsets[4]}, next={offsets[6]}", run.Error, StringComparison.Ordinal);
        Assert.Equal([.. messages[..4], .. messages[6..]], Read());
    }

    [Fact]
    public void Messages_LastOneIsTorn_IsTold()
    {
        VersionOneStore old = VersionOneStore.OfMessages(Old, 1000);
        byte[][] messages = [.. Enumerable.Range(0, 5).Select(QuoteOf)];
        List<long> offsets = old.Produce(messages);
        old.At(offsets[4])[10..30].Clear();
        old.Write();

        Assert.Contains($"offset={offsets[4]}", Import("--stream").Expect(3).Error, StringComparison.Ordinal);

        Assert.Equal(messages[..4], Read());
    }

    /// <summary>Users of 1.x removed consumed segments by hand. One that the consumer still needed is missing.</summary>
    [Theory]
    [InlineData(false, 0)]
    [InlineData(false, 3)]
    [InlineData(true, 0)]
    [InlineData(true, 3)]
    public void Segments_SomeAreMissing_OnlyTheUnreadOnesAreTold(bool isStream, int removed)
    {
        VersionOneStore old = isStream ? VersionOneStore.OfMessages(Old, 64) : VersionOneStore.OfStructs(Old, QuoteSize, 64);
        List<long> offsets = old.Produce(Enumerable.Range(0, 30).Select(QuoteOf));
        old.Confirmed = isStream ? null : old.Producer;
        long[] starts = [.. old.Starts];
        old.Consumer = starts[1];
        old.Write();
        old.Remove(starts[removed]);
        int gone = offsets.Count(offset => offset >= starts[removed] && offset < starts[removed + 1]);

        ToolRun run = Import(isStream ? ["--stream"] : ["--struct-size", "16"]).Expect(removed == 0 ? 0 : 3);

        Assert.Equal(30 - gone, Read().Count);
        if (removed > 0)
            Assert.Contains($"offset={starts[3]}, next={starts[4]}, bytes=", run.Error, StringComparison.Ordinal);
    }

    [Fact]
    public void StrayFiles_AreToldAndLeftOut()
    {
        VersionOneStore old = VersionOneStore.OfMessages(Old, 64);
        old.Produce(QuoteOf(1));
        File.WriteAllText(Path.Combine(old.LogPath, "notes.txt"), "x");
        File.WriteAllText(Path.Combine(old.LogPath, "99999999999999999999"), "x");
        Directory.CreateDirectory(Path.Combine(old.LogPath, "00000000000000000007"));

        string error = Import("--stream").Expect(0).Error;

        Assert.All(["notes.txt", "99999999999999999999", "00000000000000000007"],
            name => Assert.Contains($"file=commitlog/{name}", error, StringComparison.Ordinal));
        Assert.Equal([QuoteOf(1)], Read());
    }

    /// <summary>
    /// An import goes on where the last one ended, also when 1.x went on, and leaves a consumer that has moved.
    /// </summary>
    [Fact]
    public void Import_Again_DoublesNothingAndTakesWhatIsNew()
    {
        VersionOneStore old = VersionOneStore.OfMessages(Old, 100);
        byte[][] messages = [.. Enumerable.Range(0, 20).Select(QuoteOf)];
        List<long> offsets = old.Produce(messages[..12]);
        old.Consumer = offsets[3];
        old.Write();
        Import("--stream").Expect(0);
        string[] before = StoreSnapshot.Of(Path.Combine(New, "commitlog"));

        ToolRun again = Import("--stream").Expect(0);
        Assert.StartsWith("Imported 0 messages, 0 bytes. 12 messages had been imported", again.Text, StringComparison.Ordinal);
        Assert.Equal(before, StoreSnapshot.Of(Path.Combine(New, "commitlog")));

        // The consumer of 1.x has read on, and that of the new store has not begun.
        old.Produce(messages[12..16]);
        old.Consumer = offsets[5];
        old.Write();
        Import("--stream").Expect(0);
        Assert.Equal(messages[..16], Read());
        Assert.Equal(messages[5..16], Consume());

        old.Produce(messages[16..]);
        Assert.Contains("as before", Import("--stream").Expect(0).Text, StringComparison.Ordinal);
        Assert.Equal(messages, Read());
        Assert.Equal(messages[16..], Consume());
    }

    /// <summary>Offsets are all that two stores of 1.x could be told apart by, and they are alike.</summary>
    [Fact]
    public void Import_OfAnotherStore_IsRefused()
    {
        VersionOneStore.OfMessages(Old, 100).Produce(Enumerable.Range(0, 5).Select(QuoteOf));
        Import("--stream").Expect(0);
        string other = Path.Combine(_temp.Root, "other");
        VersionOneStore.OfMessages(other, 100).Produce(Enumerable.Range(1, 9).Select(QuoteOf));

        ToolRun.Of("import-v1", other, New, "--stream").ExpectError("another store");

        Assert.Equal(5, Read().Count);
    }

    /// <summary>Messages of other producers are not jumped over, and do not stop the import.</summary>
    [Fact]
    public void Import_IntoAStoreWithMessages_LeavesItsConsumerBeforeThem()
    {
        VersionOneStore old = VersionOneStore.OfMessages(Old, 100);
        old.Consumer = old.Produce(Enumerable.Range(0, 5).Select(QuoteOf))[3];
        old.Write();
        ToolRun.WithInput("first\n"u8.ToArray(), "produce", New).Expect(0);

        Import("--stream").Expect(0);
        ToolRun.WithInput("last\n"u8.ToArray(), "produce", New).Expect(0);
        Import("--stream").Expect(0);

        Assert.Equal(
            ["first"u8.ToArray(), .. Enumerable.Range(0, 5).Select(QuoteOf), "last"u8.ToArray()],
            Read());
        Assert.Equal(7, Consume().Count);
    }

    [Fact]
    public void Import_DiskIsFull_GoesOnOnceThereIsRoom()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        VersionOneStore old = VersionOneStore.OfMessages(Old, 1 << 16);
        byte[][] messages = [.. Enumerable.Range(0, 300).Select(i => BytesOf(20_000 + i))];
        old.Produce(messages);
        string store = disk.PathOf("new");
        string[] command = ["import-v1", Old, store, "--stream", "--segment-size", "1MiB"];

        ToolRun.Of(command).ExpectError("errno=28", "Run the import again");
        MountedFileSystem.Run("mount", "-o", "remount,size=32m", disk.Path);
        Assert.Matches("Imported [0-9]+ messages, .* had been imported", ToolRun.Of(command).Expect(0).Text);

        Assert.Equal(messages, Read(store));
    }

    [Fact]
    public void Import_KilledAtAnyMoment_GoesOnAndDoublesNothing()
    {
        VersionOneStore old = VersionOneStore.OfMessages(Old, 1 << 20);
        byte[][] messages = [.. Enumerable.Range(0, 200_000).Select(QuoteOf)];
        old.Produce(messages);
        long reached = -1;
        for (int round = 0; round < 3; round++)
        {
            using ChildProcess import = ChildProcess.StartTool("import-v1", Old, New, "--stream");
            Eventually.True(() => import.HasExited || EndOfNew() > reached, "something more was imported");
            import.KillAndWait();
            reached = EndOfNew();
        }

        Import("--stream").Expect(0);

        Assert.Equal(messages, Read());

        long EndOfNew() =>
            File.Exists(Path.Combine(New, "queue.meta")) ? StoreInspector.Inspect(New).PublishedOffset : -1;
    }

    [Fact]
    public void Import_OldFolderIsReadOnly_Works()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string old = disk.PathOf("old");
        VersionOneStore.OfMessages(old, 100).Produce(QuoteOf(1));
        MountedFileSystem.Run("mount", "-o", "remount,ro", disk.Path);

        ToolRun.Of("import-v1", old, New, "--stream").Expect(0);

        Assert.Equal([QuoteOf(1)], Read());
    }

    /// <summary>A struct's own program made the store: its layout stays known.</summary>
    [Fact]
    public void Structs_StoreOfTheirTypeIsThere_KeepsItsLayout()
    {
        using (MappedFileQueue<Quote> queue = new(new MappedFileQueueOptions { StorePath = New }))
            _ = queue.Producer.Offset;
        VersionOneStore.OfStructs(Old, QuoteSize, 100).Produce(QuoteOf(1));

        Import("--struct-size", "16").Expect(0);

        using (MappedFileReader<Quote> reader = MappedFileReader<Quote>.Open(New))
            Assert.True(reader.TryRead(out _));
        Assert.Throws<QueueFormatException>(() => MappedFileReader<Other>.Open(New));
    }

    /// <summary>A struct that is refused now is read by one of the same layout, or as bytes.</summary>
    [Fact]
    public void Structs_ThatAreRefusedNow_AreReadByAnotherTypeOrAsBytes()
    {
        VersionOneStore.OfStructs(Old, QuoteSize, 100).Produce(Enumerable.Range(0, 7).Select(QuoteOf));
        string bytes = Path.Combine(_temp.Root, "bytes");
        new MappedFileQueue(new MappedFileQueueOptions { StorePath = bytes }).Dispose();

        Import("--struct-size", "16").Expect(0);
        ToolRun.Of("import-v1", Old, bytes, "--struct-size", "16").Expect(0);

        Assert.Equal(Enumerable.Range(0, 7).Select(QuoteOf), Read(bytes));
#pragma warning disable MFQ0002 // The queue refuses it, as the analyzer says.
        Assert.Throws<ArgumentException>(
            () => new MappedFileQueue<Refused>(new MappedFileQueueOptions { StorePath = New }).Dispose());
#pragma warning restore MFQ0002
        using MappedFileQueue<Quote> queue = new(new MappedFileQueueOptions { StorePath = New });
        queue.Consumer.Consume(out Quote first);
        Assert.Equal(new Quote(0, 0.0), first);
    }

    [Theory]
    [InlineData("does not hold structs of this size", "--struct-size", "15")]
    [InlineData("does not hold structs of this size", "--struct-size", "33")]
    [InlineData("holds structs", "--stream")]
    public void Structs_OfAnotherSize_AreRefusedAndMakeNothing(string named, params string[] options)
    {
        VersionOneStore.OfStructs(Old, QuoteSize, 100).Produce(Enumerable.Range(0, 7).Select(QuoteOf));

        Import(options).ExpectError(named);

        Assert.False(Directory.Exists(New));
    }

    [Theory]
    [InlineData("producer.offset", new byte[0], 1)]
    [InlineData("producer.offset", new byte[] { 1, 2, 3 }, 1)]
    [InlineData("producer.offset", new byte[] { 0, 0, 0, 0, 0, 0, 0, 0x80 }, 1)]
    [InlineData("producer.offset", new byte[] { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F }, 3)]
    [InlineData("consumer.offset", new byte[] { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF }, 0)]
    [InlineData("consumer.offset", new byte[] { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F }, 0)]
    public void Offsets_ThatAreNone_AreToldOrLeftOut(string name, byte[] bytes, int exitCode)
    {
        VersionOneStore.OfMessages(Old, 100).Produce(Enumerable.Range(0, 7).Select(QuoteOf));
        File.WriteAllBytes(Path.Combine(Old, "offset", name), bytes);

        Import("--stream").Expect(exitCode);

        if (exitCode != 1)
            Assert.Equal(7, Read().Count);
        Import("--stream", "--ghosts").Expect(exitCode == 3 ? 3 : 0);
        Assert.Equal(7, Read().Count);
        Assert.Equal(name == "consumer.offset" && bytes[^1] == 0x7F ? 0 : 7, Consume().Count);
    }

    [Fact]
    public void Import_FoldersThatAreWrong_AreRefused()
    {
        VersionOneStore.OfMessages(Old, 100).Produce(QuoteOf(1));
        string[] before = StoreSnapshot.Of(Old);

        ToolRun.Of("import-v1", Old, Old, "--stream").ExpectError("only read");
        ToolRun.Of("import-v1", Old, Path.Combine(Old, "new"), "--stream").ExpectError("only read");
        ToolRun.Of("import-v1", _temp.Root, New, "--stream").ExpectError("holds no store of MappedFileQueues 1.x");
        ToolRun.Of("import-v1", Path.Combine(_temp.Root, "missing"), New, "--stream").ExpectError("holds no store");
        Assert.Equal(before, StoreSnapshot.Of(Old));
        Assert.False(Directory.Exists(New));
    }

    /// <summary>The error for a folder of 1.x names a command. It is run here as it stands.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Opening_FolderOfVersion1_NamesTheCommandThatImportsIt(bool isStream)
    {
        VersionOneStore old = isStream ? VersionOneStore.OfMessages(Old, 100) : VersionOneStore.OfStructs(Old, QuoteSize, 100);
        old.Produce(Enumerable.Range(0, 7).Select(QuoteOf));

        QueueFormatException error = Assert.Throws<QueueFormatException>(() => Open(Old, isStream));
        string[] command = Command().Match(error.Message).Groups[1].Value.Split(' ');
        ToolRun.Of(command).Expect(0);

        Open(command[2], isStream);
        Assert.Equal(7, Read(command[2]).Count);

        static void Open(string path, bool isStream)
        {
            var options = new MappedFileQueueOptions { StorePath = path };
            using IDisposable queue = isStream ? new MappedFileQueue(options) : new MappedFileQueue<Quote>(options);
        }
    }

    /// <summary>Whatever the bytes are, the reader comes to an end, and what it reads is in the files.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Reader_DamagedStores_ComesToAnEnd(bool isStream)
    {
        int seed = Environment.TickCount;
        Random random = new(seed);
        for (int run = 0; run < 100; run++)
        {
            string path = Path.Combine(_temp.Root, $"{run}");
            int segmentSize = random.Next(21, 300);
            VersionOneStore old = isStream
                ? VersionOneStore.OfMessages(path, segmentSize)
                : VersionOneStore.OfStructs(path, QuoteSize, segmentSize);
            List<long> offsets = old.Produce(Enumerable.Range(0, 40).Select(i => QuoteOf(i)));
            for (int i = random.Next(1, 20); i > 0; i--)
            {
                Span<byte> place = old.At(random.NextInt64(old.Producer));
                random.NextBytes(place[..random.Next(1, Math.Min(5, place.Length + 1))]);
            }

            if (random.Next(3) == 0)
                old.Producer = offsets[random.Next(40)];
            if (random.Next(3) == 0)
                old.Consumer = random.NextInt64();
            old.Write();
            if (random.Next(3) == 0)
                old.Remove(old.Starts.ElementAt(random.Next(old.Starts.Count())));

            (List<byte[]> read, VersionOneReader reader) = ReadAll(path, isStream ? null : QuoteSize);

            Assert.True(read.Count <= 60 && reader.UnreadBytes <= Math.Max(old.Producer, 0), $"seed={seed}, run={run}");
        }
    }

    [Fact]
    public void Usage_NeitherOrBothKinds_IsWrong()
    {
        Assert.Contains("--stream", ToolRun.Of("import-v1", Old, New).Expect(2).Error, StringComparison.Ordinal);
        Import("--stream", "--struct-size", "16").Expect(2);
        Import("--struct-size", "0").Expect(2);
    }

    private static byte[] QuoteOf(int id) => [.. BitConverter.GetBytes((long)id), .. BitConverter.GetBytes(id / 2.0)];

    private static byte[] BytesOf(int length) => [.. Enumerable.Range(0, length).Select(i => (byte)(i * 7 + length))];

    private static (List<byte[]> Messages, VersionOneReader Reader) ReadAll(string path, int? structSize)
    {
        using VersionOneFolder folder = new(path);
        var reader = VersionOneReader.Open(folder, structSize);
        List<byte[]> messages = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            if (!reader.IsGhost)
                messages.Add(message.ToArray());
        }

        return (messages, reader);
    }

    private ToolRun Import(params string[] options) => ToolRun.Of(["import-v1", Old, New, .. options]);

    private List<byte[]> Read(string? path = null)
    {
        List<byte[]> messages = [];
        using var reader = MappedFileReader.Open(path ?? New);
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add(message.ToArray());
        return messages;
    }

    private List<byte[]> Consume()
    {
        List<byte[]> messages = [];
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = New });
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            messages.Add(message.ToArray());
            queue.Consumer.Commit();
        }

        return messages;
    }

    [GeneratedRegex("`mfq ([^`]+)`")]
    private static partial Regex Command();

    private readonly record struct Quote(long Id, double Price);

    private readonly record struct Refused(nint Id, double Price);

    /// <summary>As long as a quote.</summary>
    private readonly record struct Other(long Id, long Price);

    private readonly record struct Longer(long Id, double Price, long Count);
}
