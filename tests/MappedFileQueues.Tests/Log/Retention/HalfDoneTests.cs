using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Retention;

/// <summary>
/// What a removal, or an opener, finds and relies on, when the process that wrote it died before it was durable. The
/// laboratory's part `again` found all of these.
/// </summary>
[Trait("Category", "Slow")]
public sealed class HalfDoneTests : IDisposable
{
    private const int SegmentLength = 4096;

    private readonly TempStore _temp = new();
    private readonly Lock _lock = new();
    private readonly List<string> _calls = [];
    private readonly FaultyDisk _disk = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The next removal took the record for done, and removed the files. A power loss took the record, and brought back names of
    /// files that held other segments by then: the store could not be opened any more.
    /// </summary>
    [Fact]
    public void Trim_RemoverDiedBeforeItsRecordWasSynced_SyncsItBeforeFilesGo()
    {
        using MappedFileQueue queue = Open();
        long last = Fill(queue);
        PeerAgent.KillRemover(_temp.StorePath, "LogStartRaised");
        WithRecord(queue, record => record.Write(last / SegmentLength * SegmentLength, 0, Guid.Empty));
        Watch();

        queue.Trim(0);

        CheckOrder($"{DiskCall.Sync} {StoreNames.LogStart}");
    }

    /// <summary>
    /// The next removal removed the files and left confirmed below them. Each flush began there, found no segment, and returned
    /// without having flushed anything.
    /// </summary>
    [Fact]
    public void Trim_RemoverDiedBeforeItRaisedConfirmed_FlushesGoOn()
    {
        using MappedFileQueue queue = Open();
        long last = Fill(queue);
        PeerAgent.KillRemover(_temp.StorePath, "LogStartRecorded");

        queue.Trim(0);

        Assert.False(File.Exists(_temp.PathOf(StoreNames.Segment(0))));
        Assert.InRange(queue.Flush(), last + 1, long.MaxValue);
    }

    /// <summary>A snapshot has no record. The process that made one may have died before the name was durable.</summary>
    [Fact]
    public void Trim_RecordWasMadeByOneThatDied_FlushesItsNameBeforeFilesGo()
    {
        using MappedFileQueue queue = Open();
        Fill(queue);
        File.Delete(_temp.PathOf(StoreNames.LogStart));
        WithRecord(queue, record => record.Create(Guid.Empty));
        Watch();

        queue.Trim(long.MaxValue);

        CheckOrder($"{DiskCall.SyncEntries} {StoreNames.Offsets}");
    }

    /// <summary>
    /// The kernel reports an error of a sync once: the next removal's syncs succeeded, and it removed what the lost cursors and
    /// the lost record were to vouch for.
    /// </summary>
    [Theory]
    [InlineData("offset/consumers/c")]
    [InlineData("offset/log-start")]
    public void Trim_ASyncFails_PoisonsAndTheNextRemovesNothing(string prefix)
    {
        using MappedFileQueue queue = Open();
        Fill(queue);
        using (MappedFileConsumer consumer = queue.OpenConsumer("c", QueueStart.Latest))
            _disk.FailNextSync(prefix);

        Assert.Throws<QueueDiskException>(() => queue.Trim(long.MaxValue));
        _disk.Before = null;

        Assert.Equal(0, queue.Trim(long.MaxValue));
        Assert.True(File.Exists(_temp.PathOf(StoreNames.Segment(0))));
        Assert.True(queue.GetInfo().IsPoisoned);
        Assert.Throws<QueuePoisonedException>(() => Fill(queue));
    }

    /// <summary>
    /// The process that made the store may have died after the rename. The next one appended and flushed, and a power loss took
    /// the name of `queue.meta`, with the store.
    /// </summary>
    [Fact]
    public void Open_StoreIsThere_FlushesItsNames()
    {
        Open().Dispose();
        Watch();

        using MappedFileQueue queue = Open();

        CheckCalled($"{DiskCall.SyncEntries} ");
    }

    /// <summary>The one who set the same policy may have died before it was durable: a cut brought back the old one.</summary>
    [Fact]
    public void Open_PolicyIsTheSame_FlushesItsName()
    {
        var policy = new RetentionOptions { MaxBytes = 100 * SegmentLength };
        using MappedFileQueue beside = Open();
        beside.SetRetention(policy);
        Watch();

        using MappedFileQueue queue = Open(policy);

        CheckCalled($"{DiskCall.SyncEntries} ");
    }

    private void Watch() => _disk.Before = (call, name) =>
    {
        lock (_lock)
            _calls.Add($"{call} {name}");
    };

    private void CheckCalled(string call)
    {
        lock (_lock)
            Assert.Contains(call, _calls);
    }

    private void CheckOrder(string first)
    {
        lock (_lock)
        {
            int gone = _calls.FindIndex(call => call.StartsWith($"{DiskCall.Deleted} commitlog/", StringComparison.Ordinal));
            Assert.True(gone >= 0 && _calls.IndexOf(first) is >= 0 and var at && at < gone, string.Join('\n', _calls));
        }
    }

    private void WithRecord(MappedFileQueue queue, Action<CheckpointFile> write)
    {
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        using var record = new CheckpointFile(directory, queue.GetInfo().StoreId, StoreNames.LogStart);
        write(record);
    }

    private static long Fill(MappedFileQueue queue)
    {
        long last = 0;
        for (int i = 0; i < 300; i++)
            last = queue.Producer.Produce(CrashMessage.Make($"m{i}", 64));
        return last;
    }

    private MappedFileQueue Open(RetentionOptions? policy = null) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = SegmentLength,
        Retention = policy,
    });
}
