using MappedFileQueues.Tests.Log.Opening;

namespace MappedFileQueues.Tests.Log.StoreFiles;

/// <summary>
/// A store that is emptied and made anew in the same folder, under an open queue. File systems give the inode number of a deleted
/// file to the next one, so the new `queue.meta` passed for the old one: the old queue continued appending to files that nobody
/// would ever read, and the durable offset it.
/// </summary>
public sealed class ReplacedInPlaceTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Flush_FolderEmptiedAndMadeAnew_Throws()
    {
        using MappedFileQueue queue = new(Refusal.Options(_temp.StorePath));
        _ = queue.Consumer;
        MakeAnew();
        Assert.Throws<QueueDeletedException>(() => queue.Flush());
        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    [Fact]
    public void Read_FolderEmptiedAndMadeAnew_Throws()
    {
        Refusal.MakeStore(_temp.StorePath);
        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        while (reader.TryRead(out _))
        {
        }

        MakeAnew();
        Assert.Throws<QueueDeletedException>(() => reader.TryRead(out _, Eventually.DefaultDeadline));
    }

    /// <summary>Several times: which number a file system gives is its own business.</summary>
    private void MakeAnew()
    {
        for (int i = 0; i < 10; i++)
        {
            foreach (string file in Directory.EnumerateFiles(_temp.StorePath, "*", SearchOption.AllDirectories))
                File.Delete(file);
            Refusal.MakeStore(_temp.StorePath);
        }
    }
}
