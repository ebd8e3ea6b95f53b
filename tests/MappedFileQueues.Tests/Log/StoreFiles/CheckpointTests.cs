using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.StoreFiles;

/// <summary>
/// Where the checkpoint stands when a queue is closed. The story: a flush writes one once a second at most, and nobody wrote one
/// at the end, so that a store which was flushed and closed in good order kept one from before: after a power loss its recovery
/// verified what needed no verifying, and would have cut damage off there that is to be reported.
/// </summary>
public sealed class CheckpointTests
{
    [Theory]
    [InlineData(DurabilityLevel.PageCache, false)]
    [InlineData(DurabilityLevel.Interval, false)]
    [InlineData(DurabilityLevel.Group, false)]
    [InlineData(DurabilityLevel.Group, true)]
    public void Dispose_FlushedTwiceWithinASecond_LeavesTheCheckpointAtTheEnd(DurabilityLevel level, bool portable)
    {
        PlatformScope.Use(portable);
        using TempStore store = new();
        long end;
        using (var queue = new MappedFileQueue<Tick>(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            Durability = level,
            FlushInterval = TimeSpan.FromHours(1),
        }))
        {
            queue.Producer.Produce(Tick.Make(0, 0));
            queue.Flush();
            queue.Producer.Produce(Tick.Make(0, 1));
            end = queue.Flush();
        }

        OperatingSystemServices os = CurrentPlatform.Services;
        using HeldDirectory directory = os.OpenDirectory(store.StorePath, create: false, mode: null)!;
        using var checkpoints = new CheckpointFile(directory, StoreMetaFile.Read(directory)!.StoreId);
        Assert.Equal(end, checkpoints.Read()!.Offset);
    }
}
