using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Segments;

/// <summary>
/// A process that stands still (SIGSTOP, a debugger, a frozen container) between taking the lock `prepare` and letting it go.
/// Whoever needed a segment waited for it without an end and without a sleep: 15.7 s of processor time in 8 s, and no Dispose
/// ended it.
/// </summary>
public sealed class PrepareLockTests : IDisposable
{
    private const int Segment = 64 * 1024;

    private static readonly TimeSpan s_shortTimeout = TimeSpan.FromMilliseconds(100);

    private readonly TempStore _temp = new();
    private readonly FaultyDisk _disk = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(ProducerMode.Shared, true)]
    [InlineData(ProducerMode.Shared, false)]
    [InlineData(ProducerMode.Exclusive, true)]
    [InlineData(ProducerMode.Exclusive, false)]
    public void Dispose_AppendWaitsForTheLock_IsEnded(ProducerMode mode, bool wholeQueue)
    {
        MappedFileQueue queue = Open(mode);
        MappedFileProducer producer = queue.OpenProducer();
        producer.Produce([1]);
        using var words = new StoreWords(_temp.StorePath);
        using PlatformLock held = TakeLock(words);
        int tries = 0;
        int appended = 0;
        // The appender's, or those of the thread that prepares segments: then the appender waits for that one.
        _disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == StoreNames.PrepareLock)
                Interlocked.Increment(ref tries);
        };
        BackgroundCall append = BackgroundCall.Start(() =>
        {
            for (; ; Interlocked.Increment(ref appended))
                producer.Produce(new byte[10_000]);
        });
        Eventually.True(() => Volatile.Read(ref tries) > 0 && StandsStill(ref appended), "an append waits for the lock");
        long began = Stopwatch.GetTimestamp();

        // Neither a flush nor information needs a new segment.
        queue.Flush();
        queue.GetInfo();
        if (wholeQueue)
            queue.Dispose();
        else
            producer.Dispose();

        Assert.IsType<ObjectDisposedException>(append.JoinSilently());
        queue.Dispose();
        Assert.True(Stopwatch.GetElapsedTime(began) < TimeSpan.FromSeconds(10), "a Dispose ends it");
    }

    [Fact]
    public void Make_LockIsNeverLetGo_SleepsAndNamesTheHolder()
    {
        using (Open(ProducerMode.Shared))
        {
        }

        using var words = new StoreWords(_temp.StorePath);
        using PlatformLock held = TakeLock(words);
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, false, null)!;
        var window = new SegmentWindow(directory, Segment, writable: true);
        var maker = new SegmentMaker(directory, window, words.Control, allocatesInPlace: true, lockTimeout: s_shortTimeout);
        int tries = 0;
        _disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == StoreNames.PrepareLock)
                tries++;
        };
        long began = Stopwatch.GetTimestamp();

        var error = Assert.Throws<QueueInUseException>(() => maker.Make(100 * Segment, Segment));

        Assert.True(Stopwatch.GetElapsedTime(began) >= s_shortTimeout);
        // Ten that only give way, then sleeps of 1, 2, 4, 8 and 10 ms.
        Assert.InRange(tries, 2, 40);
        Assert.Contains(OperatingSystem.IsLinux() ? "holder=this process" : "holder=", error.Message, StringComparison.Ordinal);
        Assert.Empty(Directory.EnumerateFiles(_temp.StorePath, "*.tmp", SearchOption.AllDirectories));
    }

    /// <summary>The thread that prepares segments has it at times. Without it, a test appends until the disk is full.</summary>
    private static PlatformLock TakeLock(StoreWords words)
    {
        PlatformLock? held = null;
        Eventually.True(
            () => (held = words.TryLock(StoreNames.PrepareLock, LockKind.Exclusive)) is not null, "the lock is free at times");
        return held!;
    }

    private static bool StandsStill(ref int count)
    {
        int before = Volatile.Read(ref count);
        Thread.Sleep(200);
        return before == Volatile.Read(ref count);
    }

    private MappedFileQueue Open(ProducerMode mode) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = Segment,
        ProducerMode = mode,
        Durability = DurabilityLevel.PageCache,
    });
}
