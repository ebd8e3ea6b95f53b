using MappedFileQueues.Files;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>Reads that fail, hang, or are overtaken, on a file of which the test decides what each read does.</summary>
public sealed class ReadAheadFaultTests
{
    private static readonly TimeSpan s_deadline = Eventually.DefaultDeadline;
    private static readonly byte[] s_content = FileUnderTest.Bytes(5, 1_000_000);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Read_AnErrorAhead_ComesInItsPlaceAndStaysUntilASeek(bool isAsync)
    {
        const long BadFrom = 400_000;
        bool isBroken = true;
        ScriptedFile file = new(s_content)
        {
            BeforeRead = position =>
            {
                if (isBroken && position > BadFrom)
                    throw new QueueDiskException("bad sector", DiskErrors.EIO, "/scripted");
            },
        };
        await using ReadAheadStream stream = new(file, new ReadAheadOptions { BlockSize = 65536 });
        byte[] read = new byte[s_content.Length];
        int got = 0;
        QueueDiskException error = await Assert.ThrowsAsync<QueueDiskException>(async () =>
        {
            // Long synchronous reads would go past the blocks.
            while (got < read.Length)
                got += isAsync ? await stream.ReadAsync(read.AsMemory(got)) : stream.Read(read.AsSpan(got, 1000));
        });
        Assert.Equal(DiskErrors.EIO, error.Errno);
        Assert.Equal(458_752, got);
        Assert.True(read.AsSpan(0, got).SequenceEqual(s_content.AsSpan(0, got)));
        isBroken = false;
        await Assert.ThrowsAsync<QueueDiskException>(async () => Assert.Equal(0, await stream.ReadAsync(read)));
        Assert.Throws<QueueDiskException>(() => stream.ReadByte());
        Assert.Equal(got, stream.Position);

        stream.Seek(0, SeekOrigin.Current);
        stream.ReadExactly(read.AsSpan(got));
        Assert.True(read.AsSpan().SequenceEqual(s_content));
    }

    /// <summary>Every later read threw the error, long after there was memory again.</summary>
    [Fact]
    public void Read_NoMemoryForAMoment_ReadsOn()
    {
        bool isShort = true;
        ScriptedFile file = new(s_content)
        {
            BeforeRead = _ =>
            {
                if (isShort)
                    throw new OutOfMemoryException();
            },
        };
        using ReadAheadStream stream = new(file, new ReadAheadOptions { BlockSize = 65536 });
        byte[] read = new byte[1000];
        Assert.Throws<OutOfMemoryException>(() => stream.Read(read));
        isShort = false;

        stream.ReadExactly(read);

        Assert.True(read.AsSpan().SequenceEqual(s_content.AsSpan(0, read.Length)));
    }

    /// <summary>
    /// An interrupt at the lock after a read of its own left the reader marked as reading, and without the lock: every later call
    /// and Dispose waited for ever.
    /// </summary>
    [Fact]
    public void Read_InterruptedAtTheLockAfterTheRead_LaterCallsContinue()
    {
        using ManualResetEventSlim holdsLock = new();
        Thread? reader = null;
        Thread? holder = null;
        ReadAheadStream? stream = null;
        ScriptedFile file = new(s_content)
        {
            BeforeRead = _ =>
            {
                if (Thread.CurrentThread != reader || holder is not null)
                    return;
                // It takes the lock to look at the length, and keeps it while the reader comes back for it.
                holder = new Thread(() => _ = stream!.Length) { IsBackground = true };
                holder.Start();
                holdsLock.Wait();
                Thread.CurrentThread.Interrupt();
            },
            OnLength = () =>
            {
                if (Thread.CurrentThread != holder)
                    return;
                holdsLock.Set();
                Thread.Sleep(300);
            },
        };
        stream = new ReadAheadStream(file, new ReadAheadOptions { BlockSize = 65536 });
        Exception? first = null;
        byte[] read = new byte[1000];
        reader = new Thread(() =>
        {
            first = Record.Exception(() => stream.ReadExactly(read));
            _ = Record.Exception(() => Thread.Sleep(0));
            stream.Position = 0;
            stream.ReadExactly(read);
            stream.Dispose();
        })
        {
            IsBackground = true,
        };
        reader.Start();

        Assert.True(reader.Join(Eventually.DefaultDeadline), "the reader waits for ever");
        Assert.NotNull(holder);
        Assert.True(first is null or ThreadInterruptedException, $"{first}");
        Assert.True(read.AsSpan().SequenceEqual(s_content.AsSpan(0, read.Length)));
    }

    [Fact]
    public async Task ReadAsync_TheDiskHangs_CancellingReturnsAtOnceAndLaterReadsGoOn()
    {
        using ManualResetEventSlim hangs = new();
        ScriptedFile file = new(s_content) { BeforeRead = _ => hangs.Wait() };
        await using ReadAheadStream stream = new(file, new ReadAheadOptions());
        byte[] buffer = new byte[1000];
        using CancellationTokenSource source = new();
        Task<int> pending = stream.ReadAsync(buffer, source.Token).AsTask();
        await Assert.ThrowsAsync<InvalidOperationException>(async () => Assert.Equal(0, await stream.ReadAsync(buffer)));
        Assert.Throws<InvalidOperationException>(() => stream.Position = 5);
        await source.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => pending.WaitAsync(s_deadline));

        hangs.Set();
        Assert.Equal(1000, await stream.ReadAsync(buffer));
        Assert.True(buffer.AsSpan().SequenceEqual(s_content.AsSpan(0, 1000)));
    }

    [Fact]
    public async Task Dispose_AReadIsUnderWay_WaitsForIt()
    {
        using HangingRead read = new();
        Task disposing = Task.Run(read.Stream.Dispose);
        await Assert.ThrowsAsync<ObjectDisposedException>(() => read.Pending.WaitAsync(s_deadline));
        Assert.False(disposing.IsCompleted);
        Assert.False(read.File.IsClosed);
        read.End();
        await disposing.WaitAsync(s_deadline);
        Assert.True(read.File.IsClosed);
    }

    /// <summary>The interrupt ended the wait for the read, and the file stayed open as long as the process lived.</summary>
    [Fact]
    public void Dispose_InterruptedWhileAReadIsUnderWay_ClosesTheFile()
    {
        using HangingRead read = new();
        BackgroundCall disposing = BackgroundCall.Start(() =>
        {
            Thread.CurrentThread.Interrupt();
            read.Stream.Dispose();
        });
        Thread.Sleep(50);
        read.End();
        disposing.Join();
        Assert.True(read.File.IsClosed);
        Assert.True(SpinWait.SpinUntil(() => read.Pending.IsFaulted, s_deadline));
    }

    [Fact]
    public async Task Seek_WhileABlockIsBeingRead_ThatBlockIsNotMistaken()
    {
        using SemaphoreSlim mayRead = new(0);
        int hanging = 0;
        ScriptedFile file = new(s_content)
        {
            BeforeRead = _ =>
            {
                Interlocked.Increment(ref hanging);
                mayRead.Wait();
            },
        };
        await using ReadAheadStream stream = new(file, new ReadAheadOptions { BlockSize = 65536 });
        byte[] buffer = new byte[100];
        mayRead.Release();
        Assert.Equal(100, await stream.ReadAsync(buffer));

        // The second block is under way; the seek comes before it is there.
        Eventually.True(() => Volatile.Read(ref hanging) == 2, "the block ahead is being read");
        stream.Position = 700_000;
        mayRead.Release(100);
        Assert.Equal(100, await stream.ReadAsync(buffer));
        Assert.True(buffer.AsSpan().SequenceEqual(s_content.AsSpan(700_000, 100)));
    }

    [Fact]
    public async Task Read_AnotherThreadAppendedBeforeTheCall_IsNeverMissed()
    {
        // The look at the end that answers a call must begin after it: a look that was under way before is too old.
        byte[] content = new byte[2000];
        ScriptedFile file = new([]);
        await using ReadAheadStream stream = new(file, new ReadAheadOptions());
        for (int length = 1; length < content.Length; length++)
        {
            content[length - 1] = (byte)length;
            file.Replace(content[..length]);
            byte[] one = new byte[1];
            Assert.Equal(1, length % 2 == 0 ? await stream.ReadAsync(one) : stream.Read(one));
            Assert.Equal((byte)length, one[0]);
            if (length % 3 == 0)
                Assert.Equal(0, await stream.ReadAsync(one));
        }
    }

    [Fact]
    public async Task BlocksAhead_NobodyReadsOn_NoMoreThanTheyAreRead()
    {
        int reads = 0;
        ScriptedFile file = new(s_content) { BeforeRead = _ => Interlocked.Increment(ref reads) };
        await using ReadAheadStream stream = new(file, new ReadAheadOptions { BlockSize = 4096, BlocksAhead = 3 });
        stream.ReadByte();
        Eventually.Equal(4, () => Volatile.Read(ref reads));
        stream.TryReadBlock(out _);
        stream.ReadByte();
        Eventually.Equal(5, () => Volatile.Read(ref reads));
    }

    /// <summary>A stream with a read under way, which the disk answers only at <see cref="End"/>.</summary>
    private sealed class HangingRead : IDisposable
    {
        private readonly ManualResetEventSlim _hangs = new();
        private readonly ManualResetEventSlim _reads = new();

        public HangingRead()
        {
            File = new ScriptedFile(s_content)
            {
                BeforeRead = _ =>
                {
                    _reads.Set();
                    _hangs.Wait();
                },
            };
            Stream = new ReadAheadStream(File, new ReadAheadOptions());
            Pending = Stream.ReadAsync(new byte[10]).AsTask();
            _reads.Wait(s_deadline);
        }

        public ScriptedFile File { get; }

        public ReadAheadStream Stream { get; }

        public Task<int> Pending { get; }

        public void End() => _hangs.Set();

        public void Dispose()
        {
            _hangs.Dispose();
            _reads.Dispose();
        }
    }
}
