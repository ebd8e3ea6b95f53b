using System.Security.Cryptography;
using MappedFileQueues.Files;
using MappedFileQueues.Files.Reading.Blocks;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>Blocks that are handed out where they lie in the system's memory.</summary>
[Trait("Category", "Slow")]
public sealed class MappedBlocksTests
{
    private const int Page = 4096;
    private const long Window = 256L * 1024 * 1024;

    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public void TryReadBlock_OverwrittenInPlace_SeenWhereTheBlockIsTheFileItself(bool maps, bool portable)
    {
        using FileUnderTest file = new("abcdef"u8, portable);
        if (maps && !portable)
            SkipUnlessMapped(file);
        using ReadAheadStream stream = new(file.Path, new ReadAheadOptions { MapBlocks = maps });
        Assert.True(stream.TryReadBlock(out ReadOnlySpan<byte> block));
        Assert.True(block.SequenceEqual("abcdef"u8));
        using (FileStream writer = new(file.Path, FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
            writer.Write("x"u8);
        Assert.Equal(maps && !portable ? 'x' : 'a', (char)block[0]);
        Assert.False(stream.TryReadBlock(out _));
    }

    /// <summary>From a place that is no page's, over the border of what is mapped at a time, cold and then warm.</summary>
    [Fact]
    public void TryReadBlock_AcrossTheEndOfAWindow_EveryByteIsRight()
    {
        const int Around = 3 * 1024 * 1024;
        byte[] content = FileUnderTest.Bytes(1, 2 * Around);
        using FileUnderTest file = new([]);
        using (FileStream writer = new(file.Path, FileMode.Open, FileAccess.Write))
        {
            writer.Position = Window - Around;
            writer.Write(content);
        }

        using ReadAheadStream stream = new(file.Path, new ReadAheadOptions { MapBlocks = true, BlockSize = 1024 * 1024 });
        foreach (int start in (int[])[0, 4095, 4097, Around - 1, Around, Around + 1])
        {
            stream.Position = Window - Around + start;
            int at = start;
            for (; stream.TryReadBlock(out ReadOnlySpan<byte> block); at += block.Length)
                Assert.True(block.SequenceEqual(content.AsSpan(at, block.Length)));
            Assert.Equal(content.Length, at);
        }
    }

    [Fact]
    public void TryReadBlock_OverManyWindows_FewAreMappedAndNoneAfterDispose()
    {
        using FileUnderTest file = new("x"u8);
        SkipUnlessMapped(file);
        file.SetLength(0);
        file.SetLength(10 * Window);
        int most = 0;
        using (ReadAheadStream stream = new(file.Path, new ReadAheadOptions { MapBlocks = true, BlocksAhead = 1 }))
        {
            for (int visit = 0; visit < 40; visit++)
            {
                stream.Position = visit * 7 % 10 * Window + 1000;
                Assert.True(stream.TryReadBlock(out ReadOnlySpan<byte> block));
                Assert.False(block.ContainsAnyExcept((byte)0));
                most = Math.Max(most, MappingsOf(file.Path));
            }
        }

        // One for the block that is out, one for the one ahead, one that the next block gives up.
        Assert.InRange(most, 1, 3);
        Assert.Equal(0, MappingsOf(file.Path));
    }

    /// <summary>
    /// Blocks that were mapped ahead and are after the new end must not be looked into: that would end this process.
    /// </summary>
    [Theory]
    [InlineData(50_000)]
    [InlineData(65_536)]
    [InlineData(100_000)]
    [InlineData(0)]
    public void TryReadBlock_TruncatedBetweenTwoBlocks_IsATypedErrorAfterWhatIsLeft(int lengthNow)
    {
        byte[] content = FileUnderTest.Bytes(3, 200_000);
        using FileUnderTest file = new(content);
        using ReadAheadStream stream = new(
            file.Path, new ReadAheadOptions { MapBlocks = true, BlockSize = 16384, BlocksAhead = 8 });
        Assert.True(stream.TryReadBlock(out ReadOnlySpan<byte> block));
        Assert.True(stream.TryReadBlock(out block));
        int got = (int)stream.Position;
        Assert.True(block.SequenceEqual(content.AsSpan(got - block.Length, block.Length)));

        // The pump's thread may be anywhere meanwhile.
        Thread.Sleep(lengthNow % 7);
        file.SetLength(lengthNow);
        FileTruncatedException error = Assert.Throws<FileTruncatedException>(() =>
        {
            for (; stream.TryReadBlock(out ReadOnlySpan<byte> next); got += next.Length)
                Assert.True(next.SequenceEqual(content.AsSpan(got, next.Length)));
        });
        Assert.Equal(Math.Max(lengthNow, 32768), got);
        Assert.Equal(got, error.Position);
        Assert.Equal((200_000, lengthNow), (error.LengthBefore, error.LengthNow));

        stream.Position = 0;
        using MemoryStream rest = new();
        stream.CopyTo(rest);
        Assert.True(rest.ToArray().AsSpan().SequenceEqual(content.AsSpan(0, lengthNow)));
    }

    /// <summary>
    /// Also the end when the pump has met the truncation already: a seek forgets errors. But never the block.
    /// </summary>
    [Fact]
    public void Seek_IntoABlockAheadThatWasCutOff_IsNotThere()
    {
        using FileUnderTest file = new(FileUnderTest.Bytes(4, 200_000));
        using ReadAheadStream stream = new(
            file.Path, new ReadAheadOptions { MapBlocks = true, BlockSize = 16384, BlocksAhead = 8 });
        Assert.True(stream.TryReadBlock(out _));
        Assert.True(stream.TryReadBlock(out _));
        Thread.Sleep(20);
        file.SetLength(40_000);
        stream.Position = 100_000;
        try
        {
            Assert.False(stream.TryReadBlock(out _));
        }
        catch (FileTruncatedException)
        {
            // The pump had not looked after the new end.
        }
    }

    /// <summary>
    /// All but the bad block is in memory: the mapping is tried, and the error comes from the read in its place. Who may only
    /// read the file is told by mincore(2) that the bad block is there too, and must not look into it either.
    /// </summary>
    [Fact]
    public void TryReadBlock_ABlockThatTheDiskCannotRead_IsATypedErrorInItsPlace()
    {
        const int BadPage = 100;
        using FileUnderTest folder = new([]);
        TempStore.MakeReadable(folder.Folder);
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", folder.Folder, lengthMiB: 256);
        string path = disk.PathOf("file");
        byte[] content = FileUnderTest.Bytes(5, 1024 * 1024);
        File.WriteAllBytes(path, content);
        disk.Spoil(path, content.AsSpan(BadPage * Page, Page));
        ReadAllPagesBut(BadPage, path, content);

        using ReadAheadStream stream = new(path, new ReadAheadOptions { MapBlocks = true, BlockSize = 64 * 1024 });
        int got = 0;
        QueueDiskException error = Assert.Throws<QueueDiskException>(() =>
        {
            for (; stream.TryReadBlock(out ReadOnlySpan<byte> block); got += block.Length)
                Assert.True(block.SequenceEqual(content.AsSpan(got, block.Length)));
        });
        Assert.Equal(DiskErrors.EIO, error.Errno);
        Assert.InRange(got, 1, BadPage * Page);
        stream.Position = (BadPage + 1) * Page;
        byte[] rest = new byte[content.Length - stream.Position];
        stream.ReadExactly(rest);
        Assert.True(rest.AsSpan().SequenceEqual(content.AsSpan((BadPage + 1) * Page)));

        using ChildProcess child = ChildProcess.StartPeerAsNobody("read-blocks", path);
        child.ExpectExit();
        Assert.Equal($"ERROR {DiskErrors.EIO}", Assert.Single(child.Lines));
    }

    /// <summary>Who may only read a file is told by mincore(2) that all of it is in memory, whatever is.</summary>
    [Fact]
    public void TryReadBlock_FileOfAnotherUser_IsMappedAndRight()
    {
        byte[] content = FileUnderTest.Bytes(6, 10_000_000);
        using FileUnderTest file = new(content);
        SkipUnlessMapped(file);
        TempStore.MakeReadable(file.Folder);
        TempStore.MakeReadable(file.Path);
        using ChildProcess child = ChildProcess.StartPeerAsNobody("read-blocks", file.Path);
        child.ExpectExit();
        Assert.Equal($"True {Convert.ToHexString(SHA256.HashData(content))}", Assert.Single(child.Lines));
    }

    [Fact]
    public async Task ReadBlockAsync_TheMemoryAfterDispose_Throws()
    {
        using FileUnderTest file = new("abc"u8);
        SkipUnlessMapped(file);
        ReadAheadStream stream = new(file.Path, new ReadAheadOptions { MapBlocks = true });
        ReadOnlyMemory<byte> block = await stream.ReadBlockAsync();
        Assert.Equal("abc"u8.ToArray(), block.ToArray());
        stream.Dispose();
        Assert.Throws<ObjectDisposedException>(() => block.Span[0]);
    }

    [Fact]
    public void Lines_MapBlocks_IsRefused()
    {
        using FileUnderTest file = new("abc\n"u8);
        MappedFileLinesOptions options = new() { MapBlocks = true };
        Assert.Equal("options", Assert.Throws<ArgumentException>(() => MappedFileLines.Open(file.Path, options)).ParamName);
    }

    private static void SkipUnlessMapped(FileUnderTest file)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Blocks are mapped on Linux only.");
        using var written = LinuxReadableFile.TryOpenFile(file.Path)!;
        int count = written.ReadCachedAt(new byte[1], 0);
        Assert.SkipUnless(count == 1, $"The file system of {file.Folder} does not say what it has in memory.");
    }

    private static void ReadAllPagesBut(int bad, string path, byte[] content)
    {
        using FileStream random = new(
            path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, bufferSize: 0, FileOptions.RandomAccess);
        for (int page = 0; page < content.Length / Page; page++)
        {
            random.Position = page * Page;
            if (page != bad)
                Assert.Equal(content[page * Page], random.ReadByte());
        }
    }

    private static int MappingsOf(string path) =>
        File.ReadLines("/proc/self/maps").Count(line => line.Contains(path, StringComparison.Ordinal));
}
