using MappedFileQueues.Log.Opening;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>Names of segments that a power loss took, or brought back.</summary>
public sealed class LostNameTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Portable cannot flush a directory, so a cut may take the name of the only segment. What is left looks like a store that is
    /// just being made, and was opened as one: the epoch stayed, and consumers stayed ahead of the log and missed what came.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Open_OnlySegmentLostInACut_ClampsCursorsAndRaisesTheEpoch(bool portable)
    {
        PlatformScope.Use(portable);
        var disk = new FaultyDisk();
        using (MappedFileQueue queue = Open())
        {
            for (int i = 0; i < 20; i++)
                queue.Producer.Produce(new byte[100]);
            using MappedFileConsumer consumer = queue.OpenConsumer("c");
            while (consumer.TryConsume(out ReadOnlySpan<byte> _))
                consumer.Commit();
        }

        foreach (string segment in Directory.EnumerateFiles(_temp.PathOf("commitlog")))
            File.Delete(segment);
        File.Delete(_temp.PathOf("control"));
        ResetCheckpoint();
        disk.BootIdOverride = Guid.NewGuid().ToString();

        using MappedFileQueue again = Open();
        Assert.InRange(again.GetInfo().Epoch, 1, long.MaxValue);
        again.Producer.Produce([7]);
        using MappedFileConsumer same = again.OpenConsumer("c");
        Assert.True(same.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal([7], message.ToArray());
    }

    /// <summary>
    /// A cut may bring back segments that were removed before the log's beginning, empty: the beginning was taken to be there,
    /// and new consumers waited at a free header for ever.
    /// </summary>
    [Fact]
    public void Open_EmptySegmentsBackBeforeTheBeginning_ConsumersBeginBehindThem()
    {
        var disk = new FaultyDisk();
        Open().Dispose();
        LaterLog.Begin(_temp.StorePath, 3 * 4096);
        using (MappedFileQueue queue = Open())
        {
            queue.Producer.Produce([7]);
            queue.Flush();
        }

        for (int i = 0; i < 3; i++)
            File.WriteAllBytes(_temp.PathOf("commitlog", $"{i * 4096:D20}.log"), new byte[4096]);
        disk.BootIdOverride = Guid.NewGuid().ToString();

        using MappedFileQueue again = Open();
        Assert.Equal(3 * 4096, again.GetInfo().LogStart);
        Assert.True(again.Consumer.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal([7], message.ToArray());
    }

    private void ResetCheckpoint()
    {
        using HeldDirectory directory =
            CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        new CheckpointFile(directory, StoreMetaFile.Read(directory)!.StoreId)
            .Create(CurrentPlatform.Services.Boot.Stored);
    }

    private MappedFileQueue Open() => new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 4096 });
}
