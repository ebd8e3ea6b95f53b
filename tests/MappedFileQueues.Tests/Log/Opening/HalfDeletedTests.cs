using MappedFileQueues.Log.Opening;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>A deletion that is cut short, and who comes while it is under way.</summary>
public sealed class HalfDeletedTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Delete_Store_LeavesNothing(bool portable)
    {
        PlatformScope.Use(portable);
        Refusal.MakeStore(_temp.StorePath);
        Directory.CreateDirectory(_temp.PathOf("salvage", "inner"));
        File.WriteAllText(_temp.PathOf("salvage", "inner", "note"), "");
        MappedFileQueue.Delete(_temp.StorePath);
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    /// <summary>What another process does before a command removes the store that it could not append to.</summary>
    [Theory]
    [InlineData("nothing", false)]
    [InlineData("attached", true)]
    [InlineData("appended", true)]
    [InlineData("consumer", true)]
    public void DeleteUnused_StoreThatSomebodyUses_Stays(string use, bool stays)
    {
        var options = new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 4096 };
        MappedFileQueue queue = new(options);
        if (use == "appended")
            queue.Producer.Produce([1]);
        if (use == "consumer")
            queue.OpenConsumer("one").Commit();
        if (use != "attached")
            queue.Dispose();

        Exception? refusal = Record.Exception(() => StoreDeletion.DeleteUnused(_temp.StorePath, keepsFolder: false));

        Assert.Equal(use == "attached", refusal is QueueInUseException);
        Assert.Equal(stays, Directory.Exists(_temp.StorePath));
        queue.Dispose();
        if (stays)
            new MappedFileQueue(options).Dispose();
    }

    /// <summary>The link went, and an empty folder stayed that nobody knew of.</summary>
    [Fact]
    public void Delete_StoreBehindALink_LinkAndEmptyFolderStay()
    {
        string folder = Directory.CreateDirectory(Path.Combine(_temp.Root, "real")).FullName;
        string link = Path.Combine(_temp.Root, "link");
        Directory.CreateSymbolicLink(link, folder);
        Refusal.MakeStore(link);
        MappedFileQueue.Delete(link);
        Assert.Empty(Directory.GetFileSystemEntries(folder));
        Assert.Equal(folder, new DirectoryInfo(link).LinkTarget);
        Refusal.MakeStore(link);
    }

    /// <summary>
    /// Before a segment gets its name, its maker looks whether another store is in the folder by now. A link in the path is no
    /// other store, until it leads to one: that one gets nothing, and neither does the one that is no longer there.
    /// </summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Produce_StoreBehindALink_RollsUntilTheLinkLeadsElsewhere(ProducerMode mode)
    {
        const int Count = 50;
        string real = Path.Combine(_temp.Root, "real");
        string other = Path.Combine(_temp.Root, "other");
        string link = Path.Combine(_temp.Root, "link");
        Directory.CreateDirectory(real);
        Directory.CreateSymbolicLink(link, "real");
        Refusal.MakeStore(other);
        string[] others = Segments(other);
        byte[] message = new byte[1000];
        using (var queue = new MappedFileQueue(
            new MappedFileQueueOptions { StorePath = link, SegmentSize = 4096, ProducerMode = mode }))
        {
            for (int i = 0; i < Count; i++)
                queue.Producer.Produce(message);
            Assert.True(Segments(real).Length >= Count / 4);
            Directory.Delete(link);
            Directory.CreateSymbolicLink(link, "other");

            Assert.Throws<QueueDeletedException>(() =>
            {
                for (int i = 0; i < 100 * Count; i++)
                    queue.Producer.Produce(message);
            });
        }

        Assert.Equal(others, Segments(other));
        using var again = new MappedFileQueue(new MappedFileQueueOptions { StorePath = real, SegmentSize = 4096 });
        int count = 0;
        for (; again.Consumer.TryConsume(out ReadOnlySpan<byte> found); count++)
        {
            Assert.Equal(message, found);
            again.Consumer.Commit();
        }

        Assert.True(count >= Count);

        static string[] Segments(string path) =>
            [.. Directory.GetFiles(Path.Combine(path, "commitlog")).Select(file => Path.GetFileName(file)).Order()];
    }

    /// <summary>The opener that makes nothing looks twice; a deletion ended in between.</summary>
    [Fact]
    public void Open_StoreIsDeletedBetweenTheLooks_MakesNone()
    {
        Refusal.MakeStore(_temp.StorePath);
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == "locks/open")
                File.Delete(_temp.PathOf("queue.meta"));
        };
        var options = new MappedFileQueueOptions { StorePath = _temp.StorePath, CreateIfMissing = false };

        QueueNotFoundException error = Assert.Throws<QueueNotFoundException>(() => new MappedFileQueue(options));

        Assert.Contains("There is no store", error.Message, StringComparison.Ordinal);
        Assert.False(File.Exists(_temp.PathOf("queue.meta")));
    }

    /// <summary>
    /// `queue.meta` was removed first. Killed after that, neither a second deletion nor an opener got out of what was left: the
    /// one saw no store, the other a folder with foreign files.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Delete_CutShort_CanBeRepeatedAndNobodyOpensInBetween(bool portable)
    {
        PlatformScope.Use(portable);
        Refusal.MakeStore(_temp.StorePath);
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if ((call, name) is (DiskCall.Renamed or DiskCall.Deleted, not "queue.meta.tmp"))
                throw FaultyDisk.Broken(name);
        };
        Assert.Throws<QueueDiskException>(() => MappedFileQueue.Delete(_temp.StorePath));
        disk.Before = null;

        QueueDeletedException error = Assert.Throws<QueueDeletedException>(() => Refusal.Attach(_temp.StorePath));
        Refusal.CheckMessage(error.Message, _temp.StorePath, "Delete");
        Assert.Throws<QueueNotFoundException>(() => Refusal.Read(_temp.StorePath));
        MappedFileQueue.Delete(_temp.StorePath);

        Assert.False(Directory.Exists(_temp.StorePath));
        Refusal.MakeStore(_temp.StorePath);
        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    /// <summary>
    /// Killed, or failed by the disk, after it had removed the locks and before the mark went: every later deletion wanted a lock
    /// in the folder that was gone, and opening said "Call Delete again".
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Delete_CutShortAfterTheLocksWent_CanBeRepeated(bool portable)
    {
        PlatformScope.Use(portable);
        Refusal.MakeStore(_temp.StorePath);
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if ((call, name) == (DiskCall.SyncEntries, "") && !Directory.Exists(_temp.PathOf("locks")))
                throw FaultyDisk.Broken(name);
        };
        Assert.Throws<QueueDiskException>(() => MappedFileQueue.Delete(_temp.StorePath));
        disk.Before = null;
        Assert.Equal(["queue.meta.deleted"], Directory.GetFileSystemEntries(_temp.StorePath).Select(Path.GetFileName));
        Assert.Throws<QueueDeletedException>(() => Refusal.Attach(_temp.StorePath));

        MappedFileQueue.Delete(_temp.StorePath);

        Assert.False(Directory.Exists(_temp.StorePath));
    }

    /// <summary>Whoever wanted a lock when the folder of the locks went was told "No such file or directory".</summary>
    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public void OpenOrDelete_AnotherDeletionIsQuicker_SaysSo(bool portable, bool deletes)
    {
        PlatformScope.Use(portable);
        Refusal.MakeStore(_temp.StorePath);
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if ((call, name) != (DiskCall.Lock, "locks/open"))
                return;
            disk.Before = null;
            MappedFileQueue.Delete(_temp.StorePath);
        };

        Assert.Throws<QueueDeletedException>(() =>
        {
            if (deletes)
                MappedFileQueue.Delete(_temp.StorePath);
            else
                Refusal.Attach(_temp.StorePath);
        });
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    /// <summary>
    /// The process that renamed `queue.meta` may have died before it flushed that. The next deletion removed the rest without it,
    /// and a power loss could bring back a store whose files were partly gone. The mark too could go for good before the rest.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Delete_Store_FlushesEachStepBeforeTheNext(bool isRenamed)
    {
        const string mark = "queue.meta.deleted";
        Refusal.MakeStore(_temp.StorePath);
        if (isRenamed)
            File.Move(_temp.PathOf("queue.meta"), _temp.PathOf(mark));
        List<string> flushed = [];
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if ((call, name) == (DiskCall.SyncEntries, ""))
                flushed.Add(string.Join(' ', Directory.GetFileSystemEntries(_temp.StorePath).Select(Path.GetFileName).Order()));
        };

        MappedFileQueue.Delete(_temp.StorePath);

        Assert.Equal(3, flushed.Count);
        Assert.Contains($"control locks offset {mark}", flushed[0], StringComparison.Ordinal);
        Assert.Equal([mark, ""], flushed[1..]);
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    /// <summary>
    /// An opener that was waiting for `open` could get it when the deletion let it go, and make a store in a folder that was
    /// about to be removed with all that is in it.
    /// </summary>
    [Fact]
    public void Open_WaitingWhileAnotherDeletes_MakesNoStoreThere()
    {
        Refusal.MakeStore(_temp.StorePath);
        var disk = new FaultyDisk();
        BackgroundCall? opener = null;
        int tries = 0;
        disk.Before = (call, name) =>
        {
            if ((call, name) == (DiskCall.Lock, "locks/open"))
                Interlocked.Increment(ref tries);
            if ((call, name) != (DiskCall.Lock, "locks/attached") || opener is not null)
                return;
            opener = BackgroundCall.Start(() => Refusal.Attach(_temp.StorePath));
            Eventually.True(() => Volatile.Read(ref tries) > 1, "the opener has seen the store, and asks for the lock");
        };

        MappedFileQueue.Delete(_temp.StorePath);

        disk.Before = null;
        Assert.IsAssignableFrom<MappedFileQueueException>(opener!.JoinSilently());
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    /// <summary>
    /// An opener that got the lock's file in the moment in which the deletion removed it made a store in a folder without locks,
    /// and the deletion failed over the folder that was not empty (three of 120 runs with one processor).
    /// </summary>
    [Fact]
    [Trait("Category", "Slow")]
    public void Delete_BesideOpeners_LeavesAWholeStoreOrNone()
    {
        for (int round = 0; round < 40; round++)
        {
            Refusal.MakeStore(_temp.StorePath);
            BackgroundCall[] openers =
                [.. Enumerable.Range(0, 3).Select(_ => BackgroundCall.Start(() => Refusal.Attach(_temp.StorePath)))];
            BackgroundCall deletion = BackgroundCall.Start(() => MappedFileQueue.Delete(_temp.StorePath));

            foreach (BackgroundCall opener in openers)
                Assert.True(opener.JoinSilently() is null or MappedFileQueueException);
            Exception? error = deletion.JoinSilently();
            Assert.True(error is null or QueueInUseException, error?.ToString());
            Refusal.Attach(_temp.StorePath);
            MappedFileQueue.Delete(_temp.StorePath);
            Assert.False(Directory.Exists(_temp.StorePath));
        }
    }
}
