using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>What a durable commit promises: the stored offset, or a later one, after a power cut.</summary>
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
        File.WriteAllBytes(store.PathOf(StoreNames.Cursor(name)), new byte[CursorWord.FileLength]);
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
}
