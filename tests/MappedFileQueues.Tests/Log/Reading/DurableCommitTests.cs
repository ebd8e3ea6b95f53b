using MappedFileQueues.Format;
using MappedFileQueues.Tests.Platform;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>What a durable commit promises: the stored offset, or a later one, after a power loss.</summary>
public sealed class DurableCommitTests
{
    /// <summary>
    /// A consumer that died while it made its cursor left a file of full length whose name was not on disk. The next one of that
    /// name found the length right and flushed nothing but the page: a cut took the file, and the durable commit with it.
    /// </summary>
    [Theory]
    [InlineData("", StoreNames.Offsets)]
    [InlineData("late", StoreNames.Consumers)]
    public void Commit_CursorWasMadeByADeadOne_FlushesItsName(string name, string folder)
    {
        using TempStore store = new();
        var disk = new FaultyDisk();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath });
        queue.Producer.Produce([1]);
        byte[] page = new byte[CursorWord.FileLength];
        BitConverter.TryWriteBytes(page, CursorWord.New);
        File.WriteAllBytes(store.PathOf(StoreNames.Cursor(name)), page);
        List<string> calls = [];
        disk.Before = (call, file) =>
        {
            lock (calls)
                calls.Add($"{call} {file}");
        };
        using MappedFileConsumer consumer = queue.OpenConsumer(name);
        Assert.Equal([1], consumer.Consume().ToArray());

        consumer.Commit(durable: true);

        disk.Before = null;
        Assert.Contains($"SyncEntries {folder}", calls);
        Assert.Contains($"Sync {StoreNames.Cursor(name)}", calls);
    }

    /// <summary>
    /// After a failed sync the kernel takes the page for clean. The next sync was that of a removal, which succeeded, wrote
    /// nothing, and removed what the cursor on the disk still pointed at.
    /// </summary>
    [Fact]
    public void Commit_SyncFails_LeavesThePageDirtyForTheNextSync()
    {
        using TempStore temp = new();
        using MountedFileSystem mounted = MountedFileSystem.Make("ext4", temp.Root);
        var disk = new FaultyDisk();
        using var queue = new MappedFileQueue(
            new MappedFileQueueOptions { StorePath = mounted.PathOf("store"), SegmentSize = 64 * 1024 });
        queue.Producer.Produce([1]);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        Assert.Equal([1], consumer.Consume().ToArray());
        string cursor = mounted.PathOf("store", StoreNames.Cursor("c"));
        DateTime longAgo = DateTime.UtcNow.AddDays(-1);
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Sync || name != StoreNames.Cursor("c"))
                return;
            using (SafeFileHandle handle = File.OpenHandle(cursor, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite))
                RandomAccess.FlushToDisk(handle);
            File.SetLastWriteTimeUtc(cursor, longAgo);
            throw FaultyDisk.Broken(name);
        };

        Assert.Throws<QueueDiskException>(() => consumer.Commit(durable: true));

        disk.Before = null;
        // The system notices a store into a clean page.
        Assert.InRange(File.GetLastWriteTimeUtc(cursor), longAgo.AddHours(1), DateTime.MaxValue);
    }
}
