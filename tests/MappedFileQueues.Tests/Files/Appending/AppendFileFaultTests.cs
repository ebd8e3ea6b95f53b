using MappedFileQueues.Files;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>The first error stays, says what the file holds, and is true.</summary>
[Trait("Category", "Slow")]
public sealed class AppendFileFaultTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(false, "tmpfs", FilePreallocation.None)]
    [InlineData(false, "tmpfs", FilePreallocation.Fallocate)]
    [InlineData(false, "tmpfs", FilePreallocation.ZeroRange)]
    [InlineData(false, "tmpfs", FilePreallocation.WrittenZeros)]
    [InlineData(false, "ext4", FilePreallocation.None)]
    [InlineData(false, "ext4", FilePreallocation.Fallocate)]
    [InlineData(false, "ext4", FilePreallocation.ZeroRange)]
    [InlineData(true, "tmpfs", FilePreallocation.None)]
    [InlineData(true, "ext4", FilePreallocation.WrittenZeros)]
    public void Write_DiskIsFull_SaysWhatIsWrittenAndWhatIsNot(
        bool portable, string fileSystem, FilePreallocation preallocation)
    {
        PlatformScope.Use(portable);
        using MountedFileSystem disk = MountedFileSystem.Make(fileSystem, _temp.Root);
        string path = disk.PathOf("app.log");
        AppendFileStream stream = new(path, new AppendFileOptions
        {
            BufferLength = 64 * 1024,
            Preallocation = preallocation,
            Content = FileContent.Text,
            PreallocationLength = 300_000,
            FlushInterval = Timeout.InfiniteTimeSpan,
        });
        byte[] line = LineMaker.Line(0, 27);
        long accepted = 0;
        Action fillDisk = () =>
        {
            for (; ; accepted += line.Length)
                stream.Write(line);
        };
        AppendFileException error = Assert.Throws<AppendFileException>(fillDisk);

        Assert.Equal(DiskErrors.ENOSPC, error.Errno);
        Assert.Equal(accepted, error.WrittenLength + error.UnwrittenLength);
        Assert.InRange(error.WrittenLength, 1_000_000, 4 << 20);
        Assert.Contains(path, error.Message, StringComparison.Ordinal);
        Assert.Equal(error.Message, Assert.Throws<AppendFileException>(() => stream.Write(line)).Message);
        Assert.Equal(error.Message, Assert.Throws<AppendFileException>(() => stream.Flush()).Message);
        Assert.Equal(error.Message, Assert.Throws<AppendFileException>(stream.Dispose).Message);
        stream.Dispose();

        byte[] bytes = File.ReadAllBytes(path);
        Assert.Equal(error.WrittenLength, bytes.Length);
        for (int i = 0; i < bytes.Length; i++)
            Assert.True(bytes[i] == line[i % line.Length], $"The byte at {i} is a wrong one.");
    }

    /// <summary>The error named the file by the temporary name that the roll had made it under.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Write_DiskIsFullAfterRoll_NamesTheFileThatIsWritten(bool portable)
    {
        PlatformScope.Use(portable);
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string path = disk.PathOf("app.log");
        AppendFileStream stream = new(path, new AppendFileOptions
        {
            BufferLength = 64 * 1024,
            RollLength = 300_000,
            FlushInterval = Timeout.InfiniteTimeSpan,
        });
        byte[] line = LineMaker.Line(0, 27);
        Action fillDisk = () =>
        {
            while (true)
                stream.Write(line);
        };

        AppendFileException error = Assert.Throws<AppendFileException>(fillDisk);

        Assert.Equal(path, error.Path);
        Assert.Equal(path, Assert.IsType<QueueDiskException>(error.InnerException).Path);
        Assert.Throws<AppendFileException>(stream.Dispose);
    }

    [Fact]
    public void Write_LongerThanTheDisk_SaysWhatIsWrittenAndWhatIsNot()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string path = disk.PathOf("app.log");
        AppendFileStream stream = new(path);
        stream.Write("first"u8);
        byte[] huge = new byte[8 << 20];
        huge.AsSpan().Fill((byte)'h');

        AppendFileException error = Assert.Throws<AppendFileException>(() => stream.Write(huge));

        Assert.Equal(huge.Length + 5, error.WrittenLength + error.UnwrittenLength);
        Assert.Throws<AppendFileException>(stream.Dispose);
        Assert.Equal(error.WrittenLength, new FileInfo(path).Length);
    }

    [Fact]
    public void Flush_SyncFails_NothingCountsAsFlushedAnyMore()
    {
        FaultyDisk disk = new();
        AppendFileStream stream = new(FilePath, new AppendFileOptions { FlushInterval = Timeout.InfiniteTimeSpan });
        stream.Write("one"u8);
        stream.Flush(durable: true);
        stream.Write("two"u8);
        disk.FailNextSync("app.log");

        AppendFileException error = Assert.Throws<AppendFileException>(() => stream.Flush(durable: true));

        Assert.Equal(3, error.FlushedLength);
        Assert.Equal(6, error.WrittenLength);
        Assert.Throws<AppendFileException>(() => stream.Flush(durable: true));
        Assert.Throws<AppendFileException>(() => stream.Write("three"u8));
        Assert.Equal(3, stream.FlushedLength);
        Assert.Throws<AppendFileException>(stream.Dispose);
        Assert.Equal("onetwo", File.ReadAllText(FilePath));
    }

    /// <summary>Rights that the folder lost ended a stream whose file was open, with the lines in its buffer.</summary>
    [Fact]
    public void Flush_FolderCannotBeLookedAt_TheOpenFileIsWritten()
    {
        FaultyDisk disk = new();
        using (AppendFileStream stream = new(FilePath))
        {
            stream.Write("one\n"u8);
            disk.CanLook = false;
            stream.Flush(durable: true);
            stream.Write("two\n"u8);
            stream.Flush();
            disk.CanLook = true;
        }

        Assert.Equal("one\ntwo\n", File.ReadAllText(FilePath));
    }

    /// <summary>
    /// A file that was closed by a roll could not be opened, because it was made read-only or there was no descriptor: a flush
    /// ended the stream for good. Its file system is flushed instead.
    /// </summary>
    [Fact]
    public void Flush_ClosedFileCannotBeOpened_FlushesItsFileSystem()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Elsewhere the file system cannot be flushed.");
        FaultyDisk disk = new();
        int flushes = 0;
        using (AppendFileStream stream = new(
            FilePath, new AppendFileOptions { Durability = AppendDurability.PageCache, RollLength = 4096 }))
        {
            byte[] line = LineMaker.Line(1, 1);
            for (long length = 0; length < 3 * 4096; length += line.Length)
                stream.Write(line);
            stream.Flush();
            disk.Before = (call, name) =>
            {
                if (call == DiskCall.Open && name != "app.log")
                    throw new QueueDiskException("Too many open files.", DiskErrors.EMFILE, name);
                flushes += call == DiskCall.SyncFileSystem ? 1 : 0;
            };
            stream.Flush(durable: true);
            disk.Before = null;
            stream.Write("last\n"u8);
        }

        Assert.True(flushes > 0);
        Assert.EndsWith("last\n", File.ReadAllText(FilePath), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Write_BackgroundWriterFails_OthersThatWaitGetTheError()
    {
        FaultyDisk disk = new();
        using AppendFileStreamScope scope = new(new AppendFileStream(
            FilePath, new AppendFileOptions { BufferLength = 8192, Durability = AppendDurability.PageCache }));
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Write)
                throw FaultyDisk.Broken(name);
        };
        Action<int> writeOn = thread =>
        {
            for (int i = 0; ; i++)
                scope.Stream.Write(LineMaker.Line(thread, i));
        };
        Task<AppendFileException>[] writers = [.. Enumerable.Range(0, 4).Select(thread => Task.Factory.StartNew(
            () => Assert.Throws<AppendFileException>(new Action(() => writeOn(thread))), TaskCreationOptions.LongRunning))];

        AppendFileException[] errors = await Task.WhenAll(writers).WaitAsync(
            Eventually.DefaultDeadline, TestContext.Current.CancellationToken);

        Assert.All(errors, error => Assert.Equal(0, error.WrittenLength));
    }

    [Theory]
    [InlineData("a directory")]
    [InlineData("no rights")]
    public void Open_CannotBe_ThrowsAndLeavesNothingBehind(string what)
    {
        string path = FilePath;
        if (what == "a directory")
            Directory.CreateDirectory(path);
        else
            path = "/proc/self/no-such-folder/app.log";

        Assert.Throws<QueueDiskException>(() => new AppendFileStream(path));

        if (what == "a directory")
            Directory.Delete(path);
        else
            path = FilePath;
        new AppendFileStream(path).Dispose();
    }

    /// <summary>A stream whose closing throws what its calls have thrown.</summary>
    private sealed class AppendFileStreamScope(AppendFileStream stream) : IDisposable
    {
        public AppendFileStream Stream { get; } = stream;

        public void Dispose() => Assert.Throws<AppendFileException>(Stream.Dispose);
    }
}
