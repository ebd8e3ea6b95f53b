using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// A real file system is shut down without writing its journal, unmounted and mounted again. The boot is the same, and nothing
/// could be written that would tell the next opener: it refused every `poison` file.
/// </summary>
[Trait("Category", "Slow")]
public sealed class LostFileSystemTests : IDisposable
{
    private const int Flushed = 1000;
    private const int Lost = 6000;
    private const int New = 4000;

    private readonly TempStore _temp = new(createStoreFolder: true);

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A cursor was committed durably over messages that no flush had covered. It was above the tail: the name was refused at
    /// first, and after 4,000 new messages it was not, and skipped most of them without a word.
    /// </summary>
    [Theory]
    [InlineData("ext4", 64)]
    [InlineData("xfs", 320)]
    public void Open_MountedAgainInTheSameBoot_EveryNewMessageIsSeen(string kind, int lengthMiB)
    {
        using MountedFileSystem disk = MountedFileSystem.Make(kind, _temp.Root, lengthMiB);
        string path = disk.PathOf("store");
        using (MappedFileQueue queue = Open(path, DurabilityLevel.PageCache))
        {
            Produce(queue, Flushed);
            queue.Flush();
            Produce(queue, Lost);
            using MappedFileConsumer consumer = queue.OpenConsumer("c");
            while (consumer.TryConsume(out ReadOnlySpan<byte> _))
                consumer.Advance();
            consumer.Commit(durable: true);
            disk.ShutDown();
        }

        disk.Remount();

        using MappedFileQueue again = Open(path, DurabilityLevel.Group);
        MappedFileQueueInfo info = again.GetInfo();
        Assert.InRange(info.Epoch, 1, long.MaxValue);
        int kept = Count(path);
        Assert.InRange(kept, Flushed, Flushed + Lost - 1);
        using MappedFileConsumer after = again.OpenConsumer("c");
        Assert.Equal(info.TailOffset, after.Offset);
        for (int i = 0; i < New; i++)
            again.Producer.Produce(BitConverter.GetBytes(i), new ProduceOptions { Durability = DurabilityLevel.PageCache });
        again.Flush();
        for (int i = 0; i < New; i++)
        {
            Assert.True(after.TryConsume(out ReadOnlySpan<byte> message));
            Assert.Equal(i, BitConverter.ToInt32(message));
            after.Commit();
        }

        Assert.Equal(kept + New, Count(path));
    }

    private static MappedFileQueue Open(string path, DurabilityLevel level) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = 1 << 20,
        Durability = level,
    });

    private static void Produce(MappedFileQueue queue, int count)
    {
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(new byte[24]);
    }

    private static int Count(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        int count = 0;
        while (reader.TryRead(out _))
            count++;
        return count;
    }
}
