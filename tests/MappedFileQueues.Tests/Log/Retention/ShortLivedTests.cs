using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>A store whose messages are removed within moments: what is not done for them, and what is done anyway.</summary>
[Collection(AloneCollection.Name)]
public sealed class ShortLivedTests : IDisposable
{
    private const int SegmentLength = 1 << 20;

    private static readonly TimeSpan s_interval = TimeSpan.FromSeconds(1);

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>The first flush comes an interval after the first message, whatever is removed.</summary>
    [Fact]
    [Trait("Category", "Slow")]
    public void Interval_MessagesLiveForLess_NoneIsFlushedUntilTheProducerStops()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open(DurabilityLevel.Interval);
        queue.SetRetention(new RetentionOptions { MaxBytes = 4 * SegmentLength });
        // A thread that does not run for an interval lets messages grow that old, and then they are flushed.
        string? wrong = "";
        for (int attempt = 0; attempt < 20 && wrong is not null; attempt++)
        {
            AppendFor(queue, 2 * s_interval, _ => { });
            wrong = null;

            AppendFor(queue, 2 * s_interval, confirmed =>
            {
                long start = queue.GetInfo().LogStart;
                if (confirmed > start)
                    wrong = $"confirmed={confirmed}, start={start}";
            });

            Eventually.Equal(queue.Producer.Offset, () => queue.ConfirmedOffset);
        }

        Assert.Null(wrong);
    }

    [Fact]
    public void Checkpoint_SegmentsLiveForLess_TheRestIsFlushedOnceTheProducerStops()
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open(DurabilityLevel.PageCache);
        queue.SetRetention(new RetentionOptions { MaxBytes = 4 * SegmentLength });

        AppendFor(queue, s_interval / 4, _ => { });

        long last = queue.Producer.Offset / SegmentLength * SegmentLength;
        Eventually.Equal(last, () => queue.ConfirmedOffset);
        Assert.True(queue.GetInfo().LogStart < last);
    }

    /// <summary>A mapping that nobody uses stays for the segment that the file becomes: not when the file is gone.</summary>
    [Fact]
    public void DropRemoved_NobodyUsesTheMapping_GivesTheDiskItsBlocksBack()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "/proc tells what is mapped.");
        PlatformScope.Use(portable: false);
        using (Open(DurabilityLevel.PageCache))
        {
        }

        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, false, null)!;
        var window = new SegmentWindow(directory, SegmentLength, writable: true) { IdleMax = 4 };
        window.Release(window.TryAcquire(0)!);
        window.DropRemoved();
        Assert.Single(Mapped());
        File.Delete(_temp.PathOf(StoreNames.Segment(0)));
        Assert.Single(Mapped());

        window.DropRemoved();

        Assert.Empty(Mapped());
        window.CloseFiles();

        string[] Mapped() => [.. File.ReadAllLines("/proc/self/maps")
            .Where(line => line.Contains(_temp.PathOf(StoreNames.Segment(0)), StringComparison.Ordinal))];
    }

    /// <summary>Appends for a time, and looks now and then at what is durable.</summary>
    private static void AppendFor(MappedFileQueue queue, TimeSpan time, Action<long> look)
    {
        byte[] message = new byte[1000];
        long began = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(began) < time)
        {
            for (int i = 0; i < 2000; i++)
                queue.Producer.Produce(message);
            look(queue.ConfirmedOffset);
        }
    }

    private MappedFileQueue Open(DurabilityLevel level) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = SegmentLength,
        Durability = level,
        FlushInterval = s_interval,
    });
}
