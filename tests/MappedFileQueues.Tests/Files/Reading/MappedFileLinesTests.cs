using System.Text;
using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>Lines of real files, beside what the framework makes of them.</summary>
[Trait("Category", "Slow")]
public sealed class MappedFileLinesTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Lines_RandomText_AreThoseOfFileReadLines(bool portable)
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper!.WriteLine($"seed {seed}");
        System.Random random = new(seed);
        for (int round = 0; round < 60; round++)
        {
            using FileUnderTest file = new(RandomText(random), portable);
            string[] expected = [.. File.ReadLines(file.Path)];
            MappedFileLinesOptions options = new() { BlockSize = 4096 << random.Next(6), BlocksAhead = random.Next(1, 4) };
            Assert.Equal(expected, ReadAll(file.Path, options));
            Assert.Equal(expected, ReadBlocks(file.Path, options));
        }
    }

    [Theory]
    [InlineData("", new string[0])]
    [InlineData("\n", new[] { "" })]
    [InlineData("a", new[] { "a" })]
    [InlineData("a\n", new[] { "a" })]
    [InlineData("a\n\n", new[] { "a", "" })]
    [InlineData("a\r\nb", new[] { "a", "b" })]
    [InlineData("\r\n\r\n", new[] { "", "" })]
    [InlineData("a\rb\n", new[] { "a\rb" })]
    [InlineData("a\r", new[] { "a\r" })]
    [InlineData("\uFEFFa\n", new[] { "a" })]
    [InlineData("\uFEFF", new string[0])]
    [InlineData("a\n\uFEFFb", new[] { "a", "\uFEFFb" })]
    public void Lines_EdgeOfText_AreAsDocumented(string text, string[] expected)
    {
        using FileUnderTest file = new(Encoding.UTF8.GetBytes(text));
        Assert.Equal(expected, ReadAll(file.Path, new MappedFileLinesOptions()));
    }

    [Fact]
    public void Lines_EndsAroundTheEndsOfBlocks_AreFound()
    {
        // Each place of the two bytes of a line's end around the end of the first block (64 KiB).
        for (int length = 65530; length <= 65540; length++)
        {
            foreach (string end in new[] { "\n", "\r\n" })
            {
                string first = new('a', length);
                using FileUnderTest file = new(Encoding.UTF8.GetBytes(first + end + "b" + end));
                Assert.Equal([first, "b"], ReadAll(file.Path, new MappedFileLinesOptions { BlockSize = 65536 }));
            }
        }
    }

    [Fact]
    [Trait("Category", "Laboratory")]
    public void Lines_FileOver2GiB_PositionsAndLengthsAreRight()
    {
        // Lines of 100 MiB of zeros: each is gathered from many blocks, and together they pass 2 GiB.
        const long Step = 100L << 20;
        const int Count = 22;
        using FileUnderTest file = new([]);
        using (FileStream sparse = new(file.Path, FileMode.Open, FileAccess.Write))
        {
            for (int i = 1; i <= Count; i++)
            {
                sparse.Position = (i * Step) - 1;
                sparse.WriteByte((byte)'\n');
            }

            sparse.Write("the end"u8);
        }

        using MappedFileLines lines = MappedFileLines.Open(file.Path);
        for (int i = 0; i < Count; i++)
        {
            Assert.Equal(i * Step, lines.Position);
            Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
            Assert.Equal(Step - 1, line.Length);
        }

        Assert.True(lines.TryRead(out ReadOnlySpan<byte> last));
        Assert.True(last.SequenceEqual("the end"u8));
        Assert.False(lines.TryRead(out _));
        Assert.Equal((Count * Step) + 7, lines.Position);
    }

    [Fact]
    public void StartPosition_OfAnEarlierReading_GoesOnThere()
    {
        using FileUnderTest file = new("one\ntwo\nthree\n"u8);
        long position;
        using (MappedFileLines first = MappedFileLines.Open(file.Path))
        {
            Assert.True(first.TryRead(out _));
            position = first.Position;
        }

        Assert.Equal(4, position);
        Assert.Equal(["two", "three"], ReadAll(file.Path, new MappedFileLinesOptions { StartPosition = position }));
        Assert.Equal([], ReadAll(file.Path, new MappedFileLinesOptions { StartPosition = 14 }));
    }

    [Theory]
    [InlineData(10)]
    [InlineData(70_000)]
    [InlineData(300_000)]
    public void LineLengthMax_LongerLine_IsATypedErrorThatStays(int limit)
    {
        string fits = new('f', limit);
        using FileUnderTest file = new(Encoding.UTF8.GetBytes($"{fits}\n{fits}x\n"));
        MappedFileLinesOptions options = new() { LineLengthMax = limit, BlockSize = 4096 };
        using MappedFileLines lines = MappedFileLines.Open(file.Path, options);
        Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
        Assert.Equal(limit, line.Length);
        for (int i = 0; i < 2; i++)
        {
            LineTooLongException error = Assert.Throws<LineTooLongException>(() => lines.TryRead(out _));
            Assert.Equal((limit + 1, limit), (error.Position, error.LineLengthMax));
        }
    }

    /// <summary>The limit counted the carriage return, which is a part of the line's end.</summary>
    [Theory]
    [InlineData(10)]
    [InlineData(4095)]
    [InlineData(300_000)]
    public void LineLengthMax_LinesEndInCarriageReturns_CountsWithoutThem(int limit)
    {
        string fits = new('f', limit);
        using FileUnderTest file = new(Encoding.UTF8.GetBytes($"{fits}\r\n{fits}\r\n{fits}x\r\n"));
        MappedFileLinesOptions options = new() { LineLengthMax = limit, BlockSize = 4096 };
        using MappedFileLines lines = MappedFileLines.Open(file.Path, options);
        for (int i = 0; i < 2; i++)
        {
            Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
            Assert.Equal(limit, line.Length);
        }

        Assert.Throws<LineTooLongException>(() => lines.TryRead(out _));
    }

    [Fact]
    public async Task WaitToReadAsync_LinesInPieces_WaitsForAWholeOne()
    {
        using FileUnderTest file = new([]);
        using MappedFileLines lines = MappedFileLines.Open(file.Path, new MappedFileLinesOptions { Follow = true });
        for (int i = 0; i < 20; i++)
        {
            Task<bool> waiting = lines.WaitToReadAsync().AsTask();
            file.Append("half "u8);
            Assert.False(waiting.IsCompleted);
            file.Append("whole\n"u8);
            Assert.True(await waiting);
            Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
            Assert.True(line.SequenceEqual("half whole"u8));
        }

        Task<bool> last = lines.WaitToReadAsync().AsTask();
        file.Append("no end"u8);
        lines.StopFollowing();
        Assert.True(await last);
        Assert.True(lines.TryRead(out ReadOnlySpan<byte> rest));
        Assert.True(rest.SequenceEqual("no end"u8));
        Assert.False(await lines.WaitToReadAsync());
    }

    public static TheoryData<byte[], string, string[]> PiecesOfMark() => new()
    {
        { [0xEF, 0xBB, 0xBF], "EF", [] },
        { [0xEF, 0xBB, 0xBF], "EFBB", [] },
        { [0xEF, 0xBB, 0xBF, (byte)'\n', (byte)'x', (byte)'\n'], "EF", ["", "x"] },
        { [0xEF, 0xBB, 0xBF, (byte)'a', (byte)'\n'], "EFBB", ["a"] },
        { [0xEF, 0xBB, (byte)'\n'], "EFBB", ["\uFFFD"] },
    };

    /// <summary>
    /// A writer's byte order mark came in two pieces. What had been searched of the first piece was taken for searched behind
    /// the mark: a line's end there was passed over, or the search began after the window.
    /// </summary>
    [Theory]
    [MemberData(nameof(PiecesOfMark))]
    public async Task Follow_ByteOrderMarkInPieces_IsSkipped(byte[] content, string firstPiece, string[] expected)
    {
        byte[] first = Convert.FromHexString(firstPiece);
        using (MappedFileLines lines = OpenInPieces(first, content))
        {
            List<string> read = [];
            foreach (ReadOnlySpan<byte> line in lines)
                read.Add(Encoding.UTF8.GetString(line));
            Assert.Equal(expected, read);
        }

        using (MappedFileLines lines = OpenInPieces(first, content))
        {
            List<string> read = [];
            while (await lines.WaitToReadAsync())
            {
                Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
                read.Add(Encoding.UTF8.GetString(line));
            }

            Assert.Equal(expected, read);
        }

        using (MappedFileLines lines = OpenInPieces(first, content))
        {
            StringBuilder read = new();
            while (lines.TryReadBlock(out ReadOnlySpan<byte> block))
                read.Append(Encoding.UTF8.GetString(block));
            Assert.Equal(string.Concat(expected.Select(line => line + "\n")), read.ToString());
        }
    }

    [Fact]
    public void Dispose_LinesStillInMemory_AreNotGivenAnyMore()
    {
        using FileUnderTest file = new("a\nb\nc\n"u8);
        MappedFileLines lines = MappedFileLines.Open(file.Path);
        Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
        lines.Dispose();

        // The span is still good: the memory is managed.
        Assert.True(line.SequenceEqual("a"u8));
        Assert.Throws<ObjectDisposedException>(() => lines.TryRead(out _));
        Assert.Throws<ObjectDisposedException>(() => lines.TryReadBlock(out _));
        Assert.Throws<ObjectDisposedException>(() => lines.Length);
    }

    /// <summary>A followed file that is whole, and no longer followed, once its first piece has been read.</summary>
    private static MappedFileLines OpenInPieces(byte[] first, byte[] content)
    {
        ScriptedFile file = new(first);
        MappedFileLines lines = MappedFileLines.Open(file, new MappedFileLinesOptions { Follow = true });
        file.BeforeRead = position =>
        {
            if (position < first.Length)
                return;
            file.BeforeRead = null;
            file.Replace(content);
            lines.StopFollowing();
        };
        return lines;
    }

    private static List<string> ReadAll(string path, MappedFileLinesOptions options)
    {
        List<string> read = [];
        using MappedFileLines lines = MappedFileLines.Open(path, options);
        foreach (ReadOnlySpan<byte> line in lines)
            read.Add(Encoding.UTF8.GetString(line));
        Assert.Equal(lines.Length, lines.Position);
        return read;
    }

    private static List<string> ReadBlocks(string path, MappedFileLinesOptions options)
    {
        using MemoryStream copy = new();
        using (MappedFileLines lines = MappedFileLines.Open(path, options))
        {
            while (lines.TryReadBlock(out ReadOnlySpan<byte> block))
            {
                Assert.True(block[^1] == '\n' || lines.Position == lines.Length);
                copy.Write(block);
            }
        }

        copy.Position = 0;
        using StreamReader reader = new(copy);
        List<string> read = [];
        while (reader.ReadLine() is { } line)
            read.Add(line);
        return read;
    }

    /// <summary>Text without a lone \r, which the framework takes for a line's end.</summary>
    private static byte[] RandomText(System.Random random)
    {
        StringBuilder text = new(random.Next(10) == 0 ? "\uFEFF" : "");
        int lines = random.Next(400);
        int lengthMax = 2 << random.Next(10);
        for (int i = 0; i < lines; i++)
        {
            int length = random.Next(60) == 0 ? random.Next(200_000) : random.Next(lengthMax);
            text.Append((char)random.Next('a', 'z'), length).Append(random.Next(5) == 0 ? "é€😀" : "");
            text.Append(random.Next(3) == 0 ? "\r\n" : "\n");
        }

        if (random.Next(2) == 0)
            text.Append("last");
        return Encoding.UTF8.GetBytes(text.ToString());
    }
}
