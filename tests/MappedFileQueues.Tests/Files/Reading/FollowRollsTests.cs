using System.Diagnostics;
using System.Runtime.Versioning;
using System.Text;
using MappedFileQueues.Files;
using MappedFileQueues.Files.Reading.Blocks;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>
/// A reader that followed a growing log stayed in the file that had been rolled, and one that opened it anew came between the two
/// renames and got an exception. Now the name is followed: each line once, in order, from file to file, also over a restart.
/// </summary>
[SupportedOSPlatform("linux")]
[Trait("Category", "Slow")]
public sealed class FollowRollsTests : IDisposable
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(60);

    private readonly TempStore _temp = new(createStoreFolder: true);

    public FollowRollsTests()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Inodes are Linux's here.");
        PlatformScope.Use(portable: false);
    }

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A file ended with text when it was looked at and had room a moment later, because its writer was closed and opened again:
    /// the room counted as content, its end as a truncation, and 4,036 of 49,800 lines came a second time.
    /// </summary>
    [Theory]
    [InlineData(FilePreallocation.WrittenZeros)]
    [InlineData(FilePreallocation.ZeroRange)]
    public async Task Follow_WriterIsOpenedAgainAndAgain_EveryLineComesOnce(FilePreallocation preallocation)
    {
        const int LineCount = 15_000;
        using MappedFileLines lines = Open();
        Task reading = ReadAll(lines, LineCount, isAsync: false);
        for (int next = 0; next < LineCount;)
        {
            using AppendFileStream stream = new(FilePath, new AppendFileOptions
            {
                RollLength = 100_000,
                PreallocationLength = 4096,
                Preallocation = preallocation,
                Content = FileContent.Lines,
                Durability = AppendDurability.PageCache,
            });
            for (int end = next + 300; next < end; next++)
            {
                stream.Write(LineOf(next));
                stream.Flush();

                // The reader comes to the end again and again.
                if (next % 10 == 0)
                    Thread.Sleep(1);
            }
        }

        await reading.WaitAsync(s_deadline);
    }

    [Theory]
    [InlineData(FilePreallocation.None, false)]
    [InlineData(FilePreallocation.Fallocate, true)]
    [InlineData(FilePreallocation.WrittenZeros, false)]
    [InlineData(FilePreallocation.ZeroRange, true)]
    public async Task Follow_OwnRolling_EveryLineComesOnce(FilePreallocation preallocation, bool isAsync)
    {
        const int LineCount = 30_000;
        using MappedFileLines lines = Open();
        Task reading = ReadAll(lines, LineCount, isAsync);
        using (AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            RollLength = 20_000,
            BufferLength = 8192,
            Preallocation = preallocation,
            Content = FileContent.Lines,
            Durability = AppendDurability.PageCache,
            FlushInterval = TimeSpan.FromMilliseconds(1),
        }))
        {
            for (int i = 0; i < LineCount; i++)
                stream.Write(LineOf(i));
        }

        await reading.WaitAsync(s_deadline);
    }

    /// <summary>
    /// logrotate's first way, by real programs: all closed files move on by one, a new one is made, the writer reopens.
    /// </summary>
    [Theory]
    [InlineData("n=$(ls app.log.* 2>/dev/null | wc -l); for i in $(seq $n -1 1); do mv app.log.$i app.log.$((i+1)); done; "
        + "mv app.log app.log.1; : > app.log", false)]
    [InlineData("mv app.log app.log-$(date +%s%N); : > app.log", false)]
    [InlineData("mv app.log moved.away; : > app.log; rm moved.away", true)]
    public async Task Follow_RenamedAndMade_EveryLineComesOnce(string rotate, bool deletes)
    {
        const int LineCount = 4000;
        const int Rotations = 25;
        File.WriteAllText(FilePath, "");
        using MappedFileLines lines = Open();
        int got = 0;
        Task reading = ReadAll(lines, LineCount, isAsync: false, () => Volatile.Write(ref got, got + 1));
        FileStream file = OpenToAppend();
        for (int i = 0; i < LineCount; i++)
        {
            file.Write(LineOf(i));
            if (i % (LineCount / Rotations) != 0)
                continue;

            // Nobody reads what is deleted before he comes to it.
            if (deletes)
                Eventually.True(() => Volatile.Read(ref got) == i + 1 || reading.IsCompleted, "the reader is at the end");
            Shell(rotate);

            // As a daemon that hears of it late: some lines still go into the renamed file.
            for (int late = 0; late < 3; late++)
                file.Write(LineOf(++i));
            file.Dispose();
            file = OpenToAppend();
        }

        file.Dispose();
        await reading.WaitAsync(s_deadline);
    }

    /// <summary>
    /// The second way: copied, then truncated. What is written in between is lost by its nature; nothing is here.
    /// </summary>
    [Fact]
    public async Task Follow_CopiedAndTruncated_ReadsOnFromTheBeginning()
    {
        const int LineCount = 2000;
        File.WriteAllText(FilePath, "");
        using MappedFileLines lines = Open();
        int got = 0;
        Task reading = ReadAll(lines, LineCount, isAsync: false, () => Volatile.Write(ref got, got + 1));

        // A writer that does not append (O_APPEND) leaves a hole at the beginning; .NET's own streams are such.
        using ChildProcess writer = ChildProcess.Start(new ProcessStartInfo("bash", ["-c", "exec cat >> \"$0\"", FilePath]));
        for (int i = 0; i < LineCount; i++)
        {
            writer.Input.Write(Encoding.UTF8.GetString(LineOf(i)));
            if (i % 100 != 0)
                continue;
            writer.Input.Flush();
            Eventually.True(() => Volatile.Read(ref got) == i + 1 || reading.IsCompleted, "the reader is at the end");
            Shell("cp app.log app.log.1 && truncate -s 0 app.log");
        }

        writer.Input.Close();
        writer.ExpectExit();
        await reading.WaitAsync(s_deadline);
    }

    [Theory]
    [InlineData("")]
    [InlineData("compress\n")]
    public async Task Follow_RealLogrotate_EveryLineComesOnce(string how)
    {
        const string Program = "/usr/sbin/logrotate";
        Assert.SkipUnless(File.Exists(Program), "logrotate is not installed.");
        const int LineCount = 1000;
        string configuration = Path.Combine(_temp.Root, "logrotate.conf");
        File.WriteAllText(configuration, $"{FilePath} {{\nrotate 50\ncreate\n{how}}}\n");
        File.SetUnixFileMode(configuration, UnixFileMode.UserRead | UnixFileMode.UserWrite);
        File.WriteAllText(FilePath, "");
        using MappedFileLines lines = Open();
        int got = 0;
        Task reading = ReadAll(lines, LineCount, isAsync: false, () => Volatile.Write(ref got, got + 1));
        FileStream file = OpenToAppend();
        for (int i = 0; i < LineCount; i++)
        {
            file.Write(LineOf(i));
            if (i % 100 != 0)
                continue;

            // A file that was compressed is another one, and the old one is gone.
            if (how.StartsWith("compress", StringComparison.Ordinal))
                Eventually.True(() => Volatile.Read(ref got) == i + 1 || reading.IsCompleted, "the reader is at the end");
            MountedFileSystem.Run(Program, "-f", "-s", Path.Combine(_temp.Root, "state"), configuration);
            file.Write(LineOf(++i));
            file.Dispose();
            file = OpenToAppend();
        }

        file.Dispose();
        await reading.WaitAsync(s_deadline);
    }

    /// <summary>
    /// The place is stored as a text after each line or some, and the reader continues there, whatever came in between.
    /// </summary>
    [Fact]
    public void Resume_AfterRolls_GoesOnWhereItWas()
    {
        const int LineCount = 5000;
        Random random = new(5);
        string stored = default(FilePosition).ToString();
        int next = 0;
        using AppendFileStream stream = new(FilePath, new AppendFileOptions { RollLength = 3000, Content = FileContent.Lines });
        for (int written = 0; written < LineCount;)
        {
            for (int i = random.Next(1, 300); i > 0; i--)
                stream.Write(LineOf(written++));
            stream.Flush();
            using MappedFileLines lines = MappedFileLines.Open(FilePath, new MappedFileLinesOptions
            {
                FollowRolls = true,
                ResumeAt = FilePosition.Parse(stored),
            });
            if (next == 0)
            {
                // The first reader comes to what has the name by now.
                Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
                next = NumberOf(line) + 1;
            }

            for (int i = random.Next(400); i > 0 && lines.TryRead(out ReadOnlySpan<byte> line); i--)
                Assert.Equal(next++, NumberOf(line));
            stored = lines.FilePosition.ToString();
            Assert.Equal(lines.Position, FilePosition.Parse(stored).Offset);
        }

        Assert.True(next > 1000);
    }

    [Fact]
    public void Resume_FileIsGone_SaysSo()
    {
        File.WriteAllText(FilePath, "one\ntwo\n");
        FilePosition position;
        using (MappedFileLines lines = MappedFileLines.Open(FilePath))
        {
            Assert.True(lines.TryRead(out _));
            position = lines.FilePosition;
        }

        Assert.Equal("two", ReadOne(position));
        File.Move(FilePath, _temp.PathOf("any name"));
        Assert.Equal("two", ReadOne(position));
        File.WriteAllText(FilePath, "another\n");
        Assert.Equal("two", ReadOne(position));
        File.Delete(_temp.PathOf("any name"));
        QueueNotFoundException error = Assert.Throws<QueueNotFoundException>(() => ReadOne(position));
        Assert.Equal(FilePath, error.Path);
        Assert.Contains(position.ToString(), error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Resume_FileWasTruncatedMeanwhile_SaysSoOrBeginsAnew()
    {
        File.WriteAllText(FilePath, "one\ntwo\n");
        FilePosition position;
        using (MappedFileLines lines = MappedFileLines.Open(FilePath))
        {
            Assert.True(lines.TryRead(out _) && lines.TryRead(out _));
            position = lines.FilePosition;
        }

        using (FileStream file = new(FilePath, FileMode.Truncate))
            file.Write("new\n"u8);
        Assert.Throws<FileTruncatedException>(() => ReadOne(position));
        using MappedFileLines again =
            MappedFileLines.Open(FilePath, new MappedFileLinesOptions { ResumeAt = position, FollowRolls = true });
        Assert.True(again.TryRead(out ReadOnlySpan<byte> line));
        Assert.Equal("new"u8, line);
    }

    /// <summary>
    /// copytruncate while no reader ran, and the file grew beyond the stored place: the next reader began within a line, and the
    /// lines before that never came.
    /// </summary>
    [Fact]
    public void Resume_FileWasTruncatedAndHasGrown_SaysSoOrBeginsAnew()
    {
        File.WriteAllLines(FilePath, Enumerable.Range(0, 100).Select(i => $"before {i}"));
        string place;
        string placeInStream;
        using (MappedFileLines lines = MappedFileLines.Open(FilePath))
        using (ReadAheadStream stream = new(FilePath))
        {
            for (int i = 0; i < 50; i++)
                Assert.True(lines.TryRead(out _));
            place = lines.FilePosition.ToString();
            for (int i = 0; i < 200; i++)
                stream.ReadByte();
            placeInStream = stream.FilePosition.ToString();
        }

        Assert.Equal("before 50", ReadOne(FilePosition.Parse(place)));
        using (MappedFileLines lines =
            MappedFileLines.Open(FilePath, new MappedFileLinesOptions { ResumeAt = FilePosition.Parse(place) }))
            Assert.Equal(place, lines.FilePosition.ToString());
        using (FileStream file = new(FilePath, FileMode.Truncate))
        {
            for (int i = 0; i < 1000; i++)
                file.Write(Encoding.UTF8.GetBytes($"after {i}\n"));
        }

        Assert.Throws<FileTruncatedException>(() => ReadOne(FilePosition.Parse(place)));
        using ReadAheadStream again = new(FilePath, new ReadAheadOptions { ResumeAt = FilePosition.Parse(placeInStream) });
        Assert.Throws<FileTruncatedException>(() => again.ReadByte());
        using MappedFileLines following = MappedFileLines.Open(
            FilePath, new MappedFileLinesOptions { ResumeAt = FilePosition.Parse(place), FollowRolls = true });
        for (int i = 0; i < 100; i++)
        {
            Assert.True(following.TryRead(out ReadOnlySpan<byte> line));
            Assert.Equal($"after {i}", Encoding.UTF8.GetString(line));
        }
    }

    /// <summary>The checksum needs what is before a line, of which a block may begin after a few bytes.</summary>
    [Fact]
    public void FilePosition_AfterAnyLine_HasTheChecksumOfWhatIsBefore()
    {
        Random random = new(7);
        byte[] content = [.. Enumerable.Range(0, 2000).SelectMany(i => Encoding.UTF8.GetBytes(
            new string((char)('a' + i % 26), i % 500 == 400 ? 70_000 + i : random.Next(30)) + "\n"))];
        File.WriteAllBytes(FilePath, content);
        using MappedFileLines lines = MappedFileLines.Open(FilePath, new MappedFileLinesOptions { BlockSize = 4096 });
        while (lines.TryRead(out _))
        {
            int end = (int)lines.Position;
            uint check = Crc32C.Compute(content.AsSpan(Math.Max(0, end - 64)..end));
            Assert.EndsWith($":{end}:{check:x8}", lines.FilePosition.ToString(), StringComparison.Ordinal);
        }
    }

    /// <summary>
    /// A reader that had no descriptor at one look at the names threw that error from every later call, long after it could have
    /// had one, and could only be thrown away.
    /// </summary>
    [Fact]
    public void Follow_NoDescriptorForAMoment_SaysSoAndReadsOn()
    {
        File.WriteAllText(FilePath, "one\n");
        FaultyDisk disk = new();
        using MappedFileLines lines = MappedFileLines.Open(FilePath, new MappedFileLinesOptions { FollowRolls = true });
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.List)
                throw new QueueDiskException("Too many open files.", DiskErrors.EMFILE, name);
        };
        List<string> got = [];
        int errors = 0;
        for (int i = 0; i < 5; i++)
            Look();
        Assert.InRange(errors, 2, 5);
        disk.Before = null;
        File.AppendAllText(FilePath, "two\n");
        Look();
        Look();
        Assert.Equal(["one", "two"], got);

        void Look()
        {
            try
            {
                if (lines.TryRead(out ReadOnlySpan<byte> line))
                    got.Add(Encoding.UTF8.GetString(line));
            }
            catch (QueueDiskException error) when (error.Errno == DiskErrors.EMFILE)
            {
                errors++;
            }
        }
    }

    /// <summary>
    /// While another program made the next file, its name was a link to itself, or one that this user may not open. The reader
    /// threw that error from every later call, also once the name led to a file.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Follow_NameLeadsToNoFileForAMoment_SaysSoAndReadsOn(bool waits)
    {
        File.WriteAllText(FilePath, "one\n");
        using MappedFileLines lines = MappedFileLines.Open(
            FilePath, new MappedFileLinesOptions { FollowRolls = true, Follow = waits });
        Assert.True(lines.TryRead(out _));
        File.Move(FilePath, $"{FilePath}.1");
        File.CreateSymbolicLink(FilePath, Path.GetFileName(FilePath));
        for (int i = 0; i < 5; i++)
            Assert.Equal(DiskErrors.ELOOP, Assert.Throws<QueueDiskException>(() => lines.TryRead(out _)).Errno);
        File.Delete(FilePath);
        File.WriteAllText(FilePath, "two\nthree\n");

        Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
        Assert.Equal("two"u8, line);
        Assert.True(lines.TryRead(out line));
        Assert.Equal("three"u8, line);
    }

    [Fact]
    public async Task Follow_FileIsNotThereYet_ItIsWaitedFor()
    {
        Assert.Throws<QueueNotFoundException>(() => MappedFileLines.Open(FilePath));
        Assert.Throws<QueueNotFoundException>(
            () => MappedFileLines.Open(FilePath, new MappedFileLinesOptions { FollowRolls = true }));
        Assert.Throws<QueueNotFoundException>(() => MappedFileLines.Open(
            _temp.PathOf("no folder", "app.log"), new MappedFileLinesOptions { FollowRolls = true, Follow = true }));

        using MappedFileLines lines = Open();
        Task reading = ReadAll(lines, 1, isAsync: false);
        File.WriteAllBytes(FilePath, LineOf(0));
        await reading.WaitAsync(s_deadline);
    }

    /// <summary>
    /// The last line of a closed file may lack its end: the first of the next one is another line all the same.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Read_FileEndsInMidLine_LinesOfTwoFilesAreNeverOne(bool isAsync)
    {
        File.WriteAllText(FilePath, "one\ntorn");
        using MappedFileLines lines = MappedFileLines.Open(FilePath, new MappedFileLinesOptions { FollowRolls = true });
        File.Move(FilePath, FilePath + ".1");
        File.WriteAllText(FilePath, "two\n");
        List<(string Line, long Position)> got = [];
        while (!isAsync || await lines.WaitToReadAsync(TestContext.Current.CancellationToken))
        {
            if (!lines.TryRead(out ReadOnlySpan<byte> line))
                break;
            got.Add((Encoding.UTF8.GetString(line), lines.Position));
        }

        Assert.Equal([("one", 4), ("torn", 0), ("two", 4)], got);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task ReadAheadStream_FilesAreRolled_ReadsThemAsOne(bool isAsync)
    {
        byte[] first = FileUnderTest.Bytes(1, 300_000);
        byte[] second = FileUnderTest.Bytes(2, 200_000);
        File.WriteAllBytes(FilePath, first);
        using ReadAheadStream stream = new(FilePath, new ReadAheadOptions { FollowRolls = true, BlockSize = 65536 });
        FilePosition begin = stream.FilePosition;
        File.Move(FilePath, FilePath + ".1");
        File.WriteAllBytes(FilePath, second);
        using MemoryStream all = new();
        if (isAsync)
            await stream.CopyToAsync(all, TestContext.Current.CancellationToken);
        else
            stream.CopyTo(all);
        Assert.Equal([.. first, .. second], all.ToArray());
        Assert.Equal(second.Length, stream.Position);
        Assert.False(begin.IsInSameFileAs(stream.FilePosition));

        // A place is one of the file that it is in.
        stream.Position = 100;
        Assert.Equal(second[100], stream.ReadByte());
        using ReadAheadStream again = new(FilePath, new ReadAheadOptions { ResumeAt = begin });
        Assert.Equal(first[0], again.ReadByte());
        Assert.Equal(first.Length, again.Length);
    }

    [Fact]
    public void Options_ThatDoNotGoTogether_AreRefused()
    {
        File.WriteAllText(FilePath, "text\n");
        Assert.Throws<ArgumentException>(
            () => new ReadAheadStream(FilePath, new ReadAheadOptions { FollowRolls = true, MapBlocks = true }));
        Assert.Throws<ArgumentException>(() => MappedFileLines.Open(
            FilePath, new MappedFileLinesOptions { ResumeAt = default(FilePosition), StartPosition = 1 }));
        PlatformScope.Use(portable: true);
        Assert.Throws<PlatformNotSupportedException>(
            () => new ReadAheadStream(FilePath, new ReadAheadOptions { FollowRolls = true }));
        using ReadAheadStream stream = new(FilePath);
        Assert.Throws<PlatformNotSupportedException>(() => stream.FilePosition);
    }

    [Theory]
    [InlineData("")]
    [InlineData("1-2")]
    [InlineData("1:2")]
    [InlineData("1-2:")]
    [InlineData("1-2:-3")]
    [InlineData("x-2:3")]
    [InlineData("1-2:3 ")]
    [InlineData("1:2-3")]
    [InlineData("1-2:3:")]
    [InlineData("1-2:3:xyz")]
    [InlineData("1-2:9223372036854775807")]
    public void Parse_AnythingElse_IsRefused(string text)
    {
        Assert.False(FilePosition.TryParse(text, out _));
        Assert.Throws<FormatException>(() => FilePosition.Parse(text));
    }

    /// <summary>
    /// A read met a page before the writer did and the next one after it: a line of one file came with zeros in it and the rest
    /// of another line after them, once in some thousand runs.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Fill_ZerosBeforeText_AreReadOnceMore(bool isWritten)
    {
        byte[] whole = Encoding.UTF8.GetBytes("1 aaaa\n2 bbbb\n3 cc\n\0\0\0\0");
        byte[] torn = [.. whole];
        torn.AsSpan(4, 8).Clear();
        ScriptedFile file = new(torn);
        using BlockSource source = new(
            new FileSource(file, new FileSequence(FilePath)), new ReadAheadOptions(), isText: true, typeof(MappedFileLines));
        ReadBlock block = new(0);

        FillOutcome first = source.Fill(block, 0, whole.Length, 0);
        Assert.Equal("1 aa"u8, block.Span);
        Assert.False(first.IsAtEnd);

        int reads = 0;
        file.BeforeRead = position =>
        {
            if (position == 4 && ++reads == 2 && isWritten)
                file.Replace(whole);
        };
        FillOutcome second = source.Fill(block, 4, whole.Length - 4, block.End);
        Assert.Equal(2, reads);
        Assert.Equal(isWritten ? whole.AsSpan(4..19) : torn.AsSpan(4..19), block.Span);
        Assert.True(second.IsAtEnd);
    }

    private static byte[] LineOf(int number) =>
        Encoding.UTF8.GetBytes($"{number} {new string((char)('a' + number % 26), number % 50)}\n");

    private static int NumberOf(ReadOnlySpan<byte> line)
    {
        int number = int.Parse(Encoding.UTF8.GetString(line[..line.IndexOf((byte)' ')]));
        Assert.True(LineOf(number).AsSpan()[..^1].SequenceEqual(line), $"Not a whole line: {Encoding.UTF8.GetString(line)}");
        return number;
    }

    private static async Task ReadAll(MappedFileLines lines, int count, bool isAsync, Action? each = null)
    {
        await Task.Yield();
        for (int i = 0; i < count; i++)
        {
            if (isAsync)
                Assert.True(await lines.WaitToReadAsync());
            Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
            Assert.Equal(i, NumberOf(line));
            each?.Invoke();
        }
    }

    private MappedFileLines Open() => MappedFileLines.Open(FilePath, new MappedFileLinesOptions
    {
        Follow = true,
        FollowRolls = true,
        FollowInterval = TimeSpan.FromMilliseconds(2),
    });

    private string ReadOne(FilePosition position)
    {
        using MappedFileLines lines = MappedFileLines.Open(FilePath, new MappedFileLinesOptions { ResumeAt = position });
        Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
        return Encoding.UTF8.GetString(line);
    }

    private FileStream OpenToAppend() =>
        new(FilePath, FileMode.Append, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete, bufferSize: 0);

    private void Shell(string command)
    {
        ProcessStartInfo start = new("bash", ["-c", "set -e; " + command]) { WorkingDirectory = _temp.StorePath };
        using ChildProcess child = ChildProcess.Start(start);
        child.ExpectExit();
    }
}
