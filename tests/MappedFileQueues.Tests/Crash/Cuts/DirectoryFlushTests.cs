namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// docs/DESIGN.md section 2, directory first, for a store that is opened when its last segment is exactly full. The story:
/// the opener noted that the name of the tail's segment was on disk, although no such file was there yet; the one who made it
/// then skipped the flush of the directory, and a power loss could take the name with messages that `Flush()` had returned for.
/// </summary>
[Trait("Category", "Slow")]
public sealed class DirectoryFlushTests
{
    private const int Segment = 1 << 20;
    private const int FrameLength = 4096;

    [Fact]
    public void Recover_TailAtTheEndOfTheLastSegment_NameOfTheNextIsStillToBeFlushed()
    {
        using var store = new CrashStore(Segment);
        using (PeerAgent child = PeerAgent.Start())
        {
            child.Ask(store.OpenCommand);
            // The preparer never gets to make the next segment; the last append needs none.
            child.Trap("TemporaryMade", 1, "sleep");
            child.Ask($"append prefix=c count={Segment / FrameLength} size={FrameLength - 8}");
            child.Kill();
        }

        using MappedFileQueue queue = store.Open();
        using var words = new StoreWords(store.Path);
        Assert.Equal(Segment, words.TailHint);
        Assert.False(words.HasSegment(Segment));
        Assert.Equal(Segment, words.DirectoryFlushed);

        CrashStore.Append(queue, "last");
        Assert.True(words.HasSegment(Segment));
        Assert.True(words.DirectoryFlushed > Segment, "the word covers the segment that was made");
    }

    /// <summary>
    /// A lone opener who finds no segment makes the first one, and asked the old control page whether its name is on disk: that
    /// spoke of a file that is gone.
    /// </summary>
    [Fact]
    public void Recover_TheOnlySegmentIsGone_NameOfTheNewOneIsFlushed()
    {
        var disk = new FaultyDisk();
        using var store = new CrashStore(Segment);
        store.Open().Dispose();
        foreach (string file in Directory.GetFiles(Path.Combine(store.Path, "commitlog")))
            File.Delete(file);
        List<string> calls = [];
        disk.Before = (call, name) => calls.Add($"{call} {name}");

        using MappedFileQueue queue = store.Open();

        disk.Before = null;
        int named = calls.IndexOf("Renamed commitlog/00000000000000000000.log");
        Assert.True(named >= 0 && calls.IndexOf("SyncEntries commitlog", named) > named, string.Join('\n', calls));
    }
}
