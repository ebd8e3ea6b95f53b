using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>Opening in a process that has no descriptor left.</summary>
[Trait("Category", "Slow")]
public sealed class OutOfDescriptorsTests
{
    /// <summary>
    /// The last file that opening holds was opened after the place where everything is let go after an error: without a
    /// descriptor for it the lock `attached` stayed held, and nobody was alone in the store until the process ended.
    /// </summary>
    [Fact]
    public void Open_NoDescriptorForTheNthFile_LetsEverythingGo()
    {
        using TempStore store = new();
        var disk = new FaultyDisk();
        bool isOpened = false;
        for (int failing = 1; !isOpened; failing++)
        {
            using (Open(store))
            {
            }

            int calls = 0;
            disk.Before = (call, name) =>
            {
                if (call is DiskCall.Open or DiskCall.Lock && ++calls == failing)
                    throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
            };
            Exception? error = Record.Exception(() => Open(store).Dispose());
            disk.Before = null;
            isOpened = calls < failing;
            Assert.True(isOpened ? error is null : error is QueueDiskException or null, $"call {failing}: {error}");
            // Refused while anyone is attached.
            MappedFileQueue.Delete(store.StorePath);
        }
    }

    /// <summary>What fails for want of a descriptor may be tried again, and keeps nothing.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Use_NoDescriptorForTheNthFile_WorksAgainAndLetsEverythingGo(ProducerMode mode)
    {
        using TempStore store = new();
        var disk = new FaultyDisk();
        bool isDone = false;
        for (int failing = 1; !isDone; failing++)
        {
            using (MappedFileQueue queue = Open(store, mode))
            {
                int calls = 0;
                disk.Before = (call, name) =>
                {
                    if (call is DiskCall.Open or DiskCall.Lock && Interlocked.Increment(ref calls) == failing)
                        throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
                };
                Exception? error = Record.Exception(() => Use(queue));
                disk.Before = null;
                Assert.True(error is QueueDiskException or null, $"call {failing}: {error}");
                isDone = calls < failing;
                Use(queue);
            }

            MappedFileQueue.Delete(store.StorePath);
        }
    }

    private static void Use(MappedFileQueue queue)
    {
        for (int i = 0; i < 3; i++)
            queue.Producer.Produce(new byte[30_000]);
        queue.Flush();
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        Assert.Equal(30_000, consumer.Consume().Length);
        consumer.Commit(durable: true);
        // A cursor that cannot be opened is named; the rest of the state is told all the same.
        MappedFileQueueInfo info = queue.GetInfo();
        Assert.NotEqual(0, info.Consumers.Count + info.CursorProblems.Count);
    }

    private static MappedFileQueue Open(TempStore store, ProducerMode mode = ProducerMode.Shared) =>
        new(new MappedFileQueueOptions
        {
            StorePath = store.StorePath,
            SegmentSize = 64 * 1024,
            ProducerMode = mode,
            Durability = DurabilityLevel.PageCache,
        });
}
