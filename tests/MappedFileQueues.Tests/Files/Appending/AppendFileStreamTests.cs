using MappedFileQueues.Files;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>What goes in comes out, whatever the lengths, the buffers, the room ahead and the platform.</summary>
[Trait("Category", "Slow")]
public sealed class AppendFileStreamTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    public static TheoryData<bool, FilePreallocation, AppendDurability> Cases()
    {
        TheoryData<bool, FilePreallocation, AppendDurability> cases = [];
        foreach (bool portable in PlatformScope.Platforms.Select(row => row.Data))
        {
            foreach (FilePreallocation preallocation in Enum.GetValues<FilePreallocation>())
                cases.Add(portable, preallocation, AppendDurability.PageCache);
            foreach (AppendDurability durability in (AppendDurability[])[AppendDurability.Interval, AppendDurability.Group])
                cases.Add(portable, FilePreallocation.WrittenZeros, durability);
        }

        return cases;
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void Write_AnyLengths_FileHoldsThemAndNothingElse(
        bool portable, FilePreallocation preallocation, AppendDurability durability)
    {
        PlatformScope.Use(portable);
        int seed = Random.Shared.Next();
        TestContext.Current.TestOutputHelper?.WriteLine($"seed={seed}");
        Random random = new(seed);
        using MemoryStream expected = new();
        AppendFileOptions options = new()
        {
            BufferLength = 12 * 1024,
            Durability = durability,
            Preallocation = preallocation,
            Content = FileContent.Text,
            PreallocationLength = 100_000,
        };
        for (int opening = 0; opening < 3; opening++)
        {
            using AppendFileStream stream = new(FilePath, options);
            for (int i = 0; i < 200; i++)
            {
                // Below, at and above what one buffer holds; 0 too.
                int length = random.Next(10) == 0 ? random.Next(40_000) : random.Next(600);
                byte[] bytes = TextOf(random, length);
                stream.Write(bytes);
                expected.Write(bytes);
                if (random.Next(20) == 0)
                    stream.Flush(durable: random.Next(2) == 0);
            }

            stream.Flush();
            Assert.Equal(stream.AcceptedLength, stream.WrittenLength);
            Assert.Equal(expected.ToArray(), TempStore.ReadOpenFile(FilePath).AsSpan(0, (int)expected.Length).ToArray());
        }

        Assert.Equal(expected.ToArray(), File.ReadAllBytes(FilePath));
    }

    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void Write_ManyThreads_EachWriteIsWholeAndInOrderOfItsThread(bool portable)
    {
        PlatformScope.Use(portable);
        const int ThreadCount = 6;
        const int LineCount = 3000;
        AppendFileOptions options = new()
        {
            BufferLength = 16 * 1024,
            Durability = AppendDurability.PageCache,
            FlushInterval = TimeSpan.FromMilliseconds(1),
        };
        using (AppendFileStream stream = new(FilePath, options))
        {
            RunThreads(ThreadCount, thread =>
            {
                for (int i = 0; i < LineCount; i++)
                    stream.Write(LineMaker.Line(thread, i));
            });
        }

        LineSet.Check(File.ReadAllBytes(FilePath), ThreadCount, LineCount);
    }

    /// <summary>Many callers wait for the disk at once; each of their writes is there when the call returns.</summary>
    [Fact]
    public void Write_GroupOfManyThreads_SharesFlushes()
    {
        const int ThreadCount = 8;
        const int LineCount = 60;
        FaultyDisk disk = new();
        int syncs = 0;
        disk.Before = (call, _) =>
        {
            if (call != DiskCall.Sync)
                return;
            Interlocked.Increment(ref syncs);
            // As slow as a disk, so that others write meanwhile: threads that run one after the other would share nothing.
            Thread.Sleep(1);
        };
        AppendFileOptions options = new() { Durability = AppendDurability.Group, FlushInterval = Timeout.InfiniteTimeSpan };
        using (AppendFileStream stream = new(FilePath, options))
        {
            RunThreads(ThreadCount, thread =>
            {
                long mine = 0;
                for (int i = 0; i < LineCount; i++)
                {
                    byte[] line = LineMaker.Line(thread, i);
                    stream.Write(line);
                    mine += line.Length;
                    Assert.True(stream.FlushedLength >= mine, $"flushed={stream.FlushedLength}, this thread's={mine}");
                }
            });
            Assert.Equal(stream.AcceptedLength, stream.FlushedLength);
        }

        LineSet.Check(File.ReadAllBytes(FilePath), ThreadCount, LineCount);
        Assert.InRange(syncs, 1, ThreadCount * LineCount * 3 / 4);
    }

    [Fact]
    public void Write_BinaryThatEndsWithZeros_KeepsThemOverReopening()
    {
        AppendFileOptions options = new() { Content = FileContent.Binary, Preallocation = FilePreallocation.Fallocate };
        byte[] bytes = [1, 2, 0, 0, 0];
        for (int i = 0; i < 2; i++)
        {
            using AppendFileStream stream = new(FilePath, options);
            stream.Write(bytes);
        }

        Assert.Equal([.. bytes, .. bytes], File.ReadAllBytes(FilePath));
    }

    [Fact]
    public void Open_NotAppending_EmptiesTheFile()
    {
        File.WriteAllText(FilePath, "old");
        using (AppendFileStream stream = new(FilePath, new AppendFileOptions { Append = false }))
            stream.Write("new!"u8);

        Assert.Equal("new!", File.ReadAllText(FilePath));
    }

    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void Open_Twice_IsRefusedUntilTheFirstIsClosed(bool portable)
    {
        PlatformScope.Use(portable);
        using (AppendFileStream first = new(FilePath))
        {
            QueueInUseException error = Assert.Throws<QueueInUseException>(() => new AppendFileStream(FilePath));
            Assert.Contains(FilePath, error.Message, StringComparison.Ordinal);
        }

        new AppendFileStream(FilePath).Dispose();
    }

    [Fact]
    public void Tick_IntervalPasses_BytesAreWrittenAndFlushed()
    {
        ManualTime time = new();
        using AppendFileStream stream = new(FilePath, new AppendFileOptions { TimeProvider = time });
        stream.Write("line\n"u8);
        Assert.Equal(0, stream.WrittenLength);

        time.Advance(TimeSpan.FromSeconds(1));

        Eventually.Equal(5, () => stream.FlushedLength);
        Assert.Equal("line\n"u8.ToArray(), TempStore.ReadOpenFile(FilePath));
    }

    [Fact]
    public async Task WriteAsync_EveryKind_IsWritten()
    {
        CancellationToken token = TestContext.Current.CancellationToken;
        await using (AppendFileStream stream = new(FilePath, new AppendFileOptions { Durability = AppendDurability.Group }))
        {
            await stream.WriteAsync("one "u8.ToArray(), token);
            Assert.Equal(4, stream.FlushedLength);
            await stream.WriteAsync("two "u8.ToArray(), 0, 4, token);
            stream.WriteByte((byte)'3');
            await stream.FlushAsync(token);
            await stream.FlushAsync(durable: true, token);
            await Assert.ThrowsAnyAsync<OperationCanceledException>(
                async () => await stream.WriteAsync("no"u8.ToArray(), new CancellationToken(canceled: true)));
        }

        Assert.Equal("one two 3", await File.ReadAllTextAsync(FilePath, token));
    }

    [Fact]
    public async Task Dispose_WhileOthersWrite_HoldsWhatTheyWereToldIsAccepted()
    {
        const int ThreadCount = 4;
        for (int round = 0; round < 20; round++)
        {
            File.Delete(FilePath);
            AppendFileStream stream = new(
                FilePath, new AppendFileOptions { BufferLength = 8192, Durability = AppendDurability.PageCache });
            int[] counts = new int[ThreadCount];
            using CountdownEvent started = new(ThreadCount);
            Task writers = Task.Run(() => RunThreads(ThreadCount, thread =>
            {
                try
                {
                    for (; ; counts[thread]++)
                    {
                        stream.Write(LineMaker.Line(thread, counts[thread]));
                        if (counts[thread] == 0)
                            started.Signal();
                    }
                }
                catch (ObjectDisposedException)
                {
                    // The end of this test for this thread.
                }
            }));
            started.Wait(TestContext.Current.CancellationToken);
            stream.Dispose();
            await writers;

            LineSet.Check(File.ReadAllBytes(FilePath), counts);
        }
    }

    [Fact]
    public void Calls_AfterDispose_Throw()
    {
        AppendFileStream stream = new(FilePath);
        stream.Dispose();
        stream.Dispose();

        Assert.False(stream.CanWrite);
        Assert.Throws<ObjectDisposedException>(() => stream.Write([]));
        Assert.Throws<ObjectDisposedException>(() => stream.Write([1]));
        Assert.Throws<ObjectDisposedException>(() => stream.Write(new byte[1 << 20]));
        Assert.Throws<ObjectDisposedException>(stream.Flush);
        Assert.Throws<NotSupportedException>(() => stream.Position);
        Assert.Throws<NotSupportedException>(() => stream.SetLength(0));
    }

    [Fact]
    public void Write_ManyLines_AllocatesNothing()
    {
        byte[] line = LineMaker.Line(1, 2);
        using AppendFileStream stream = new(FilePath, new AppendFileOptions { Durability = AppendDurability.PageCache });
        for (int i = 0; i < 100; i++)
            stream.Write(line);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 20_000; i++)
            stream.Write(line);

        Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before);
    }

    [Fact]
    public void Options_ThatDoNotGoTogether_AreRefused()
    {
        AppendFileOptions binary = new() { Content = FileContent.Binary };
        Assert.Throws<ArgumentException>(() => Open(binary with { Preallocation = FilePreallocation.WrittenZeros }));
        Assert.Throws<ArgumentException>(() => Open(binary with { Preallocation = FilePreallocation.ZeroRange }));
        Assert.Throws<ArgumentException>(() => Open(new AppendFileOptions { ReuseOldFiles = true, RollLength = 100 }));
        Assert.Throws<ArgumentOutOfRangeException>(() => Open(new AppendFileOptions { BufferLength = 100 }));
        Assert.Throws<ArgumentOutOfRangeException>(() => Open(new AppendFileOptions { FlushInterval = TimeSpan.Zero }));
        Assert.Throws<ArgumentOutOfRangeException>(() => Open(new AppendFileOptions { RollLength = -1 }));
        Assert.Empty(Directory.EnumerateFileSystemEntries(_temp.StorePath));
    }

    private void Open(AppendFileOptions options) => new AppendFileStream(FilePath, options).Dispose();

    private static void RunThreads(int count, Action<int> body)
    {
        Task[] tasks = [.. Enumerable.Range(0, count).Select(thread =>
            Task.Factory.StartNew(() => body(thread), TaskCreationOptions.LongRunning))];
        Task.WhenAll(tasks).GetAwaiter().GetResult();
    }

    private static byte[] TextOf(Random random, int length)
    {
        byte[] bytes = new byte[length];
        foreach (ref byte value in bytes.AsSpan())
            value = (byte)random.Next('a', 'z');
        return bytes;
    }
}
