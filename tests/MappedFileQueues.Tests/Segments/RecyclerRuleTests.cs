using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Segments;

/// <summary>When a producer looks for a removed segment's file, and when it may take one.</summary>
public sealed class RecyclerRuleTests
{
    private const int Segment = 1 << 20;
    private const int MessageLength = 1000;

    /// <summary>
    /// Each new segment listed all others, looking for a spare, also in a store that removes none: up to 7 ms of CPU where there
    /// were 14,000.
    /// </summary>
    [Fact]
    public void Produce_StoreHasNoPolicy_NothingIsListed()
    {
        PlatformScope.Use(portable: false);
        using var store = new CrashStore(Segment);
        var disk = new FaultyDisk();
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();
        int lists = 0;
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.List)
                Interlocked.Increment(ref lists);
        };

        Produce(producer, 20);

        disk.Before = null;
        Assert.Equal(0, lists);
    }

    /// <summary>
    /// Where the kernel gave no lock of the open file (ENOLCK, EINVAL), the lock counted as taken. Two threads would have zeroed
    /// the same part of a segment that is used again, the slower one over published messages.
    /// </summary>
    [Fact]
    public void Produce_FilesCannotBeLocked_NoFileIsUsedAgain()
    {
        PlatformScope.Use(portable: false);
        using var store = new CrashStore(Segment);
        var disk = new FaultyDisk { CanTakeAlone = false };
        using MappedFileQueue queue = store.Open();
        queue.SetRetention(new RetentionOptions { MaxBytes = 4 * Segment });
        using MappedFileProducer producer = queue.OpenProducer();

        for (int i = 0; i < 20; i++)
        {
            Produce(producer, 2);
            queue.Trim(long.MaxValue);
            Assert.All(Directory.GetFiles(Path.Combine(store.Path, StoreNames.CommitLog), "*.log"),
                path => Assert.Equal(Segment, new FileInfo(path).Length));
        }

        Assert.True(disk.WasAskedWhetherTaken, "a file was about to be used again");
    }

    private static void Produce(MappedFileProducer producer, int segments)
    {
        for (int i = 0; i < segments * Segment / MessageLength; i++)
            producer.Produce(CrashMessage.Make("m", MessageLength));
    }
}
