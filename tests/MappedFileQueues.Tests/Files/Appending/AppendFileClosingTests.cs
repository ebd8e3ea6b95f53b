using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>The beginning and the end of a stream's life, and the calls that meet them.</summary>
public sealed class AppendFileClosingTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Writers wait after a flush, and so does the closing. The flush ends and the writers wake first: nobody drained, and the
    /// stream counted as closed, so they got an ObjectDisposedException, which says that none of their bytes is in the file. The
    /// closing then wrote and flushed these bytes.
    /// </summary>
    [Fact]
    public void Dispose_GroupWritesWaitForAFlush_TheyEndWellAndAreInTheFile()
    {
        const int WriterCount = 6;
        using ManualResetEventSlim isFlushing = new();
        using ManualResetEventSlim mayGoOn = new();
        HoldFirstSync(isFlushing, mayGoOn);
        AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            Durability = AppendDurability.Group,
            FlushInterval = Timeout.InfiniteTimeSpan,
        });
        Exception?[] errors = new Exception?[WriterCount + 1];
        Thread leader = Start(() => errors[WriterCount] = Record.Exception(() => stream.Write("x"u8)));
        isFlushing.Wait(TestContext.Current.CancellationToken);
        Thread[] writers = [.. Enumerable.Range(0, WriterCount).Select(writer => Start(
            () => errors[writer] = Record.Exception(() => stream.Write("x"u8))))];
        Eventually.True(() => stream.AcceptedLength == WriterCount + 1 && writers.All(IsWaiting), "all writers wait");
        Thread closer = Start(stream.Dispose);
        Eventually.True(() => !stream.CanWrite && IsWaiting(closer), "the closing waits");
        mayGoOn.Set();
        foreach (Thread thread in (Thread[])[leader, .. writers, closer])
            Assert.True(thread.Join(Eventually.DefaultDeadline));

        Assert.All(errors, Assert.Null);
        Assert.Equal(new string('x', WriterCount + 1), File.ReadAllText(FilePath));
    }

    /// <summary>
    /// A flush to the disk that a closing without such a flush does not include. It must end, and must not end well.
    /// </summary>
    [Fact]
    public void Dispose_NoDurabilityWhileADurableFlushWaits_TheFlushFails()
    {
        using ManualResetEventSlim isFlushing = new();
        using ManualResetEventSlim mayGoOn = new();
        HoldFirstSync(isFlushing, mayGoOn);
        AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            Durability = AppendDurability.PageCache,
            FlushInterval = Timeout.InfiniteTimeSpan,
        });
        Exception? error = null;
        stream.Write("x"u8);
        Thread leader = Start(() => stream.Flush(durable: true));
        isFlushing.Wait(TestContext.Current.CancellationToken);
        stream.Write("y"u8);
        Thread second = Start(() => error = Record.Exception(() => stream.Flush(durable: true)));
        Thread closer = Start(() =>
        {
            Eventually.True(() => IsWaiting(second), "the second flush waits");
            stream.Dispose();
        });
        Eventually.True(() => !stream.CanWrite && IsWaiting(closer), "the closing waits");
        mayGoOn.Set();
        foreach (Thread thread in (Thread[])[leader, second, closer])
            Assert.True(thread.Join(Eventually.DefaultDeadline));

        Assert.IsType<ObjectDisposedException>(error);
        Assert.Equal("xy", File.ReadAllText(FilePath));
    }

    [Fact]
    public void Open_IntervalsLongerThanTimersTake_AreRefusedOrServed()
    {
        AppendFileOptions options = new() { FlushInterval = TimeSpan.FromDays(49) };
        new AppendFileStream(FilePath, options).Dispose();
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new AppendFileStream(FilePath, options with { FlushInterval = TimeSpan.FromDays(50) }));

        // The interval of rolling is no period: the timer only looks whether it has passed.
        options = options with { RollInterval = TimeSpan.FromDays(60) };
        new AppendFileStream(FilePath, options).Dispose();
        new AppendFileStream(FilePath, options with { FlushInterval = Timeout.InfiniteTimeSpan }).Dispose();
    }

    /// <summary>What was made before the timer stayed: the file was in use until the process ended.</summary>
    [Fact]
    public void Open_TimerCannotBeMade_LetsGoOfTheFile()
    {
        Assert.Throws<NotSupportedException>(
            () => new AppendFileStream(FilePath, new AppendFileOptions { TimeProvider = new TimeWithoutTimers() }));

        new AppendFileStream(FilePath).Dispose();
    }

    /// <summary>The first sync of a file that is opened from here on waits, and says so.</summary>
    private static void HoldFirstSync(ManualResetEventSlim isFlushing, ManualResetEventSlim mayGoOn) =>
        new FaultyDisk().Before = (call, _) =>
        {
            if (call != DiskCall.Sync || isFlushing.IsSet)
                return;
            isFlushing.Set();
            mayGoOn.Wait(Eventually.DefaultDeadline);
        };

    private static Thread Start(Action body)
    {
        Thread thread = new(() => body()) { IsBackground = true };
        thread.Start();
        return thread;
    }

    private static bool IsWaiting(Thread thread) => thread.ThreadState.HasFlag(ThreadState.WaitSleepJoin);

    private sealed class TimeWithoutTimers : TimeProvider
    {
        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) =>
            throw new NotSupportedException();
    }
}
