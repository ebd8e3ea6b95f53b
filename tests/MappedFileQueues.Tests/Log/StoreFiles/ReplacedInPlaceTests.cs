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

    /// <summary>A segment of zeros appeared in the new store before anybody looked. It may have ended that store.</summary>
    [Fact]
    public void Produce_FolderEmptiedAndMadeAnew_MakesNoSegmentThere()
    {
        using MappedFileQueue queue = new(Refusal.Options(_temp.StorePath));
        queue.Producer.Produce([1]);
        // The preparer would put its next files into the folder while that is emptied.
        Eventually.True(IsQuiet, "the segments ahead are prepared");
        MakeAnew();
        string[] before = Segments();
        Assert.Throws<QueueDeletedException>(() => Fill(queue, 1, 1000));
        Assert.Equal(before, Segments());

        string[] Segments() => [.. Directory.GetFiles(_temp.PathOf("commitlog"), "*.log").Order()];

        bool IsQuiet()
        {
            string[] files = Directory.GetFiles(_temp.PathOf("commitlog"));
            Thread.Sleep(300);
            return files.Length > 1 && files.Order().SequenceEqual(Directory.GetFiles(_temp.PathOf("commitlog")).Order());
        }
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

    /// <summary>
    /// A snapshot that is restored in the folder is of the same log. Those that had the store open came to the end of a segment,
    /// and read the restored store's next one, over messages there that they had not seen.
    /// </summary>
    [Fact]
    public void Read_SnapshotRestoredInTheFolder_ThrowsAtTheNextSegment()
    {
        string copy = Path.Combine(_temp.Root, "copy");
        using (MappedFileQueue queue = new(Refusal.Options(_temp.StorePath)))
        {
            Fill(queue, 1, 10);
            queue.Snapshot(copy);
            Fill(queue, 1, 100);
        }

        using MappedFileQueue attached = new(Refusal.Options(_temp.StorePath));
        MappedFileConsumer consumer = attached.Consumer;
        using MappedFileGroupMember member = attached.OpenGroupMember(
            "workers", new GroupOptions { Start = QueueStart.Earliest });
        using MappedFileReader reader = attached.OpenReader();
        Assert.Equal(1, consumer.Consume()[0]);
        consumer.Advance();
        Assert.Equal(1, member.Consume()[0]);
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> first));
        Assert.Equal(1, first[0]);
        foreach (string file in Directory.EnumerateFiles(_temp.StorePath, "*", SearchOption.AllDirectories))
            File.Delete(file);
        foreach (string file in Directory.EnumerateFiles(copy, "*", SearchOption.AllDirectories))
        {
            string target = Path.Combine(_temp.StorePath, Path.GetRelativePath(copy, file));
            Directory.CreateDirectory(Path.GetDirectoryName(target)!);
            File.Move(file, target);
        }

        using (MappedFileQueue restored = new(Refusal.Options(_temp.StorePath)))
            Fill(restored, 2, 200);

        ReadOn(() =>
        {
            byte value = consumer.Consume()[0];
            consumer.Advance();
            return value;
        });
        ReadOn(() => member.Consume()[0]);
        ReadOn(() => reader.TryRead(out ReadOnlySpan<byte> message) ? message[0] : (byte)1);
    }

    /// <summary>Reads messages of the former store, until it is told that it is gone.</summary>
    private static void ReadOn(Func<byte> read) => Assert.Throws<QueueDeletedException>(() =>
    {
        for (int i = 0; i < 1000; i++)
            Assert.Equal(1, read());
    });

    private static void Fill(MappedFileQueue queue, byte value, int count)
    {
        byte[] message = new byte[1000];
        message[0] = value;
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(message);
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
