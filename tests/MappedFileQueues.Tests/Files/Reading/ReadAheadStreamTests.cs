using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>Reading, seeking and what a stream says of itself, on real files and both platforms.</summary>
public sealed class ReadAheadStreamTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task AnyCalls_RandomContent_GiveWhatFileStreamGives(bool portable)
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper!.WriteLine($"seed {seed}");
        System.Random random = new(seed);
        for (int round = 0; round < 25; round++)
        {
            using FileUnderTest file = new(FileUnderTest.Bytes(random.Next(), random.Next(3) * random.Next(300_000)), portable);
            if (random.Next(2) == 0)
                file.DropFromMemory();
            await using FileStream expected = new(file.Path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, bufferSize: 0);
            await using ReadAheadStream actual = new(file.Path, new ReadAheadOptions
            {
                BlockSize = 4096 << random.Next(7),
                BlocksAhead = random.Next(1, 4),
                MapBlocks = random.Next(2) == 0,
            });
            for (int step = 0; step < 200; step++)
                await Step(random, expected, actual);
        }
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(65535)]
    [InlineData(65536)]
    [InlineData(65537)]
    [InlineData(20_000_000)]
    public async Task CopyTo_AnyLength_CopiesAll(int length)
    {
        byte[] content = FileUnderTest.Bytes(length, length);
        using FileUnderTest file = new(content);
        using MemoryStream copy = new();
        using MemoryStream copyAsync = new();
        using (ReadAheadStream stream = new(file.Path))
            stream.CopyTo(copy);
        await using (ReadAheadStream stream = new(file.Path))
            await stream.CopyToAsync(copyAsync);
        Assert.True(content.AsSpan().SequenceEqual(copy.ToArray()));
        Assert.True(content.AsSpan().SequenceEqual(copyAsync.ToArray()));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Read_SparseFileOver4GiB_EveryPositionIsRight(bool portable)
    {
        using FileUnderTest file = new([], portable);
        long[] places = [0, int.MaxValue - 3L, int.MaxValue + 100_000L, uint.MaxValue - 3L, (1L << 32) + 12_345];
        using (FileStream sparse = new(file.Path, FileMode.Open, FileAccess.Write))
        {
            foreach (long place in places)
            {
                sparse.Position = place;
                sparse.Write(BitConverter.GetBytes(place + 1));
            }
        }

        using ReadAheadStream stream = new(file.Path);
        Assert.Equal(places[^1] + 8, stream.Length);
        byte[] eight = new byte[8];
        foreach (long place in places)
        {
            stream.Position = place;
            stream.ReadExactly(eight);
            Assert.Equal(place + 1, BitConverter.ToInt64(eight));
            Assert.Equal(place + 8, stream.Position);
        }

        Assert.Equal(-1, stream.ReadByte());

        // Straight through the boundary, block after block.
        stream.Position = int.MaxValue - 30_000_000L;
        long position = stream.Position;
        List<long> found = [];
        while (position < int.MaxValue + 1_000_000L && stream.TryReadBlock(out ReadOnlySpan<byte> block))
        {
            for (int at; (at = block.IndexOfAnyExcept((byte)0)) >= 0; block = block[(at + 1)..])
                found.Add(stream.Position - block.Length + at);
            position = stream.Position;
        }

        Assert.Contains(int.MaxValue - 3L + 2, found);
        Assert.Contains(int.MaxValue + 100_000L, found);
    }

    [Fact]
    public void Read_FileGrownAfterItsEndWasSeen_GivesTheRest()
    {
        using FileUnderTest file = new("abc"u8);
        using ReadAheadStream stream = new(file.Path);
        byte[] buffer = new byte[10];
        for (byte i = 0; i < 100; i++)
        {
            while (stream.Read(buffer) > 0)
            {
            }

            file.Append([i]);
            Assert.Equal(i, stream.ReadByte());
            Assert.Equal(stream.Length, stream.Position);
            Assert.Equal(0, stream.Read(buffer));
        }
    }

    [Fact]
    public void Read_FileDeletedMeanwhile_GoesOn()
    {
        byte[] content = FileUnderTest.Bytes(7, 1_000_000);
        using FileUnderTest file = new(content);
        using ReadAheadStream stream = new(file.Path, new ReadAheadOptions { BlockSize = 4096 });
        Assert.Equal(content[0], stream.ReadByte());
        File.Delete(file.Path);
        byte[] rest = new byte[content.Length - 1];
        stream.ReadExactly(rest);
        Assert.True(rest.AsSpan().SequenceEqual(content.AsSpan(1)));
    }

    [Fact]
    public void Read_ProcFileOfLengthZero_GivesItsContent()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "/proc exists on Linux only.");
        using ReadAheadStream stream = new("/proc/self/status");
        Assert.Equal(0, stream.Length);
        using StreamReader reader = new(stream);
        Assert.Contains("VmRSS", reader.ReadToEnd(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Open_WhatIsNoFile_IsATypedError(bool portable)
    {
        using FileUnderTest file = new([], portable);
        Assert.Throws<QueueNotFoundException>(() => new ReadAheadStream(file.Path + "-missing"));
        QueueDiskException folder = Assert.Throws<QueueDiskException>(() => new ReadAheadStream(file.Folder));
        Assert.Equal(file.Folder, folder.Path);
        Assert.Throws<ArgumentException>(() => new ReadAheadStream(""));
        Assert.ThrowsAny<IOException>(() => new ReadAheadStream(file.Path + "/below"));
        if (!portable)
            Assert.Throws<QueueDiskException>(() => new ReadAheadStream("/dev/zero"));
    }

    [Fact]
    public void Members_OfAReadOnlyStream_SayWhatTheyCanAndCannot()
    {
        using FileUnderTest file = new("abc"u8);
        ReadAheadStream stream = new(file.Path);
        Assert.True(stream.CanRead && stream.CanSeek && !stream.CanWrite);
        Assert.Throws<NotSupportedException>(() => stream.SetLength(1));
        Assert.Throws<NotSupportedException>(() => stream.Write([1], 0, 1));
        Assert.Throws<IOException>(() => stream.Seek(-1, SeekOrigin.Begin));
        Assert.Throws<ArgumentOutOfRangeException>(() => stream.Position = -1);
        Assert.Throws<ArgumentException>(() => stream.Seek(0, (SeekOrigin)9));
        Assert.Equal(1, stream.Seek(-2, SeekOrigin.End));
        Assert.Equal(0, stream.Read([]));
        Assert.Equal('b', stream.ReadByte());
        Assert.Equal(100, stream.Seek(98, SeekOrigin.Current));
        Assert.Equal(0, stream.Read(new byte[5]));
        Assert.Equal(100, stream.Position);
        stream.Dispose();
        stream.Dispose();
        Assert.False(stream.CanRead || stream.CanSeek);
        Assert.Throws<ObjectDisposedException>(() => stream.ReadByte());
        Assert.Throws<ObjectDisposedException>(() => stream.Read([]));
        Assert.Throws<ObjectDisposedException>(() => stream.Length);
        Assert.Throws<ObjectDisposedException>(() => stream.Position);
        Assert.Throws<ObjectDisposedException>(() => stream.Position = 1);
    }

    [Fact]
    public void Options_OutOfRange_AreRefusedAndSizesRounded()
    {
        ReadAheadOptions options = new() { BlockSize = 4097 };
        Assert.Equal(8192, options.BlockSize);
        Assert.Throws<ArgumentOutOfRangeException>(() => options.BlockSize = 4095);
        Assert.Throws<ArgumentOutOfRangeException>(() => options.BlockSize = ReadAheadOptions.BlockSizeMax + 1);
        Assert.Throws<ArgumentOutOfRangeException>(() => options.BlocksAhead = 0);
        Assert.Throws<ArgumentOutOfRangeException>(() => options.BlocksAhead = ReadAheadOptions.BlocksAheadMax + 1);
        Assert.Throws<ArgumentOutOfRangeException>(() => options.FollowInterval = TimeSpan.Zero);
        Assert.Throws<ArgumentOutOfRangeException>(() => options.FollowInterval = TimeSpan.FromDays(1));
    }

    [Fact]
    public void Read_TruncatedBelowTheReader_IsATypedErrorAfterWhatWasRead()
    {
        byte[] content = FileUnderTest.Bytes(3, 2_000_000);
        using FileUnderTest file = new(content);
        using ReadAheadStream stream = new(file.Path, new ReadAheadOptions { BlockSize = 4096, BlocksAhead = 1 });
        byte[] buffer = new byte[100_000];
        stream.ReadExactly(buffer);
        file.SetLength(50_000);
        long got = buffer.Length;
        FileTruncatedException error = Assert.Throws<FileTruncatedException>(() =>
        {
            for (int count; (count = stream.Read(buffer)) > 0; got += count)
                Assert.True(buffer.AsSpan(0, count).SequenceEqual(content.AsSpan((int)got, count)));
        });
        Assert.Equal((50_000, 2_000_000, file.Path), (error.LengthNow, error.LengthBefore, error.Path));
        Assert.Equal(got, error.Position);
        Assert.Equal(got, stream.Position);
        Assert.Throws<FileTruncatedException>(() => stream.ReadByte());

        // A seek forgets it: what is left can be read.
        stream.Position = 0;
        using MemoryStream rest = new();
        stream.CopyTo(rest);
        Assert.True(rest.ToArray().AsSpan().SequenceEqual(content.AsSpan(0, 50_000)));
    }

    private static async Task Step(System.Random random, FileStream expected, ReadAheadStream actual)
    {
        byte[] buffer = new byte[random.Next(4) == 0 ? random.Next(200_000) : random.Next(300)];
        int count;
        switch (random.Next(8))
        {
            case 0:
                Assert.Equal(expected.ReadByte(), actual.ReadByte());
                return;
            case 1:
                long target = random.NextInt64(expected.Length + 10);
                Assert.Equal(expected.Seek(target, SeekOrigin.Begin), actual.Seek(target, SeekOrigin.Begin));
                return;
            case 2:
                long near = Math.Max(-expected.Position, random.Next(-5000, 5000));
                Assert.Equal(expected.Seek(near, SeekOrigin.Current), actual.Seek(near, SeekOrigin.Current));
                return;
            case 3:
                count = await actual.ReadAsync(buffer);
                break;
            case 4:
                ReadOnlyMemory<byte> whole = await actual.ReadBlockAsync();
                buffer = whole.ToArray();
                count = buffer.Length;
                break;
            case 5:
                actual.TryReadBlock(out ReadOnlySpan<byte> block);
                buffer = block.ToArray();
                count = buffer.Length;
                break;
            default:
                count = actual.Read(buffer);
                break;
        }

        byte[] same = new byte[count];
        expected.ReadExactly(same);
        Assert.Equal(same, buffer[..count]);
        Assert.Equal(expected.Position, actual.Position);
        Assert.True(count > 0 || buffer.Length == 0 || expected.Position >= expected.Length);
    }
}
