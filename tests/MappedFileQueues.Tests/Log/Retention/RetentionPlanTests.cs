using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>What a policy's limits choose where files are not as they usually are.</summary>
public sealed class RetentionPlanTests : IDisposable
{
    private const int SegmentLength = 4096;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Beside a snapshot, whose segments are hard links, a policy of the least free bytes removed nearly the whole log, and the
    /// disk was as full as before.
    /// </summary>
    [Fact]
    public void MinFreeBytes_SnapshotSharesTheSegments_RemovesNoneInVain()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Snapshots share segments on Linux only.");
        using MappedFileQueue queue = Open();
        Fill(queue);
        queue.Snapshot(Path.Combine(_temp.Root, "copy"));

        queue.SetRetention(new RetentionOptions { MinFreeBytes = long.MaxValue });

        Assert.Equal(0, queue.Trim(0));
        Assert.Equal(0, queue.GetInfo().RetentionHeldBytes);
        // A segment that gives room takes those before it along.
        Directory.Delete(Path.Combine(_temp.Root, "copy"), recursive: true);
        long last = Fill(queue);
        Eventually.Equal(last / SegmentLength * SegmentLength, () => queue.GetInfo().LogStart);
    }

    /// <summary>
    /// A clock was wrong while a segment was written: until that time came, neither it nor anything after it went by age.
    /// </summary>
    [Fact]
    public void MaxAge_OneSegmentIsFromTheFuture_GoesWithThoseAfterIt()
    {
        long last;
        using (MappedFileQueue queue = Open())
            last = Fill(queue);
        long[] starts = [.. Enumerable.Range(0, (int)(last / SegmentLength)).Select(i => (long)i * SegmentLength)];
        foreach (long start in starts)
            File.SetLastWriteTimeUtc(_temp.PathOf(StoreNames.Segment(start)), DateTime.UtcNow.AddHours(-3));
        File.SetLastWriteTimeUtc(_temp.PathOf(StoreNames.Segment(0)), DateTime.UtcNow.AddYears(10));
        File.SetLastWriteTimeUtc(_temp.PathOf(StoreNames.Segment(starts[^1])), DateTime.UtcNow.AddYears(10));

        using MappedFileQueue again = Open();
        again.SetRetention(new RetentionOptions { MaxAge = TimeSpan.FromHours(2) });

        // No segment after the last one says that it is old.
        Eventually.Equal(starts[^1], () => again.GetInfo().LogStart);
    }

    /// <summary>Removal by time met the same.</summary>
    [Fact]
    public void FindWrittenSince_OneSegmentIsFromTheFuture_IsSteppedOver()
    {
        using (MappedFileQueue queue = Open())
            Fill(queue);
        foreach (long start in new long[] { 0, SegmentLength, 2 * SegmentLength })
            File.SetLastWriteTimeUtc(_temp.PathOf(StoreNames.Segment(start)), DateTime.UtcNow.AddHours(-3));
        File.SetLastWriteTimeUtc(_temp.PathOf(StoreNames.Segment(SegmentLength)), DateTime.UtcNow.AddYears(10));

        using var core = new StoreEngine(
            new MappedFileQueueOptions { StorePath = _temp.StorePath }, StoreKind.Messages, 0, 0);

        Assert.Equal(3 * SegmentLength, core.FindWrittenSince(DateTimeOffset.UtcNow.AddHours(-2)));
    }

    /// <summary>A snapshot had no record of where its log begins: on a full disk there was no room to make it.</summary>
    [Fact]
    public void Trim_SnapshotOnAFullDisk_Removes()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string copy = disk.PathOf("copy");
        using (MappedFileQueue queue = Open())
        {
            Fill(queue);
            queue.Snapshot(copy);
        }

        using MappedFileQueue opened = new(new MappedFileQueueOptions { StorePath = copy });
        File.WriteAllBytes(disk.PathOf("ballast"), new byte[new DriveInfo(disk.Path).AvailableFreeSpace]);

        Assert.Equal(2 * SegmentLength, opened.Trim(2 * SegmentLength));
    }

    private static long Fill(MappedFileQueue queue)
    {
        long last = 0;
        for (int i = 0; i < 300; i++)
            last = queue.Producer.Produce(CrashMessage.Make($"m{i}", 64));
        return last;
    }

    private MappedFileQueue Open() =>
        new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = SegmentLength });
}
