using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Opening;

/// <summary>Opening in a process that has no descriptor left.</summary>
public sealed class OutOfDescriptorsTests
{
    /// <summary>
    /// The last file that opening holds was opened behind the place where everything is let go after an error: without a
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

    private static MappedFileQueue Open(TempStore store) => new(new MappedFileQueueOptions
    {
        StorePath = store.StorePath,
        Durability = DurabilityLevel.PageCache,
    });
}
