using System.Diagnostics;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// The files of a store were removed, and another store was put in the same folder, while programs in C and Python had the first
/// one open. What they still do concerns the first one alone.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class ReplacedStoreTests : IDisposable
{
    private const string Segment = "commitlog/00000000000000000000.log";

    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    /// <summary>
    /// A producer gave blocks to its segment by the segment's name. Where that was a longer file by now, it took the file for one
    /// that was recycled, and zeroed the messages in it.
    /// </summary>
    [Theory]
    [InlineData("900 1000")]
    [InlineData("prepare 1000000")]
    public void Produce_InTheSameSegment_LeavesTheOtherStoresMessagesAlone(string line)
    {
        Fill(segmentSize: 1 << 20, count: 0);
        using ChildProcess producer = CLibrary.Start(CLibrary.Checked, "append", _store.StorePath, "shared");
        InteropStore.Ask(producer, "1 1000", "ok");
        PutAnother(segmentSize: 8 << 20, count: 3000);
        byte[] before = TempStore.ReadOpenFile(_store.PathOf(Segment));
        InteropStore.Ask(producer, line, "ok");
        Assert.Equal(before, TempStore.ReadOpenFile(_store.PathOf(Segment)));
        Assert.Equal(3000, InteropStore.ReadAll(_store).Count);
    }

    /// <summary>A segment of zeros would be part of the other store, and might end it.</summary>
    [Fact]
    public void Produce_IntoTheNextSegment_MakesNoneInTheOtherStore()
    {
        Fill(segmentSize: 64 << 10, count: 0);
        using ChildProcess producer = CLibrary.Start(CLibrary.Checked, "append", _store.StorePath, "shared");
        InteropStore.Ask(producer, "1 1000", "ok");
        PutAnother(segmentSize: 8 << 20, count: 10);
        InteropStore.Ask(producer, "200 1000", "deleted");
        Assert.Equal([_store.PathOf(Segment)], Directory.GetFiles(_store.PathOf("commitlog")));
    }

    [Fact]
    public void Flush_SyncFails_DoesNotPoisonTheOtherStore()
    {
        Assert.SkipUnless(InteropTools.Has("strace"), "strace is not installed");
        Fill(segmentSize: 64 << 10, count: 0);
        using ChildProcess producer = ChildProcess.Start(new ProcessStartInfo("strace", [
            "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO",
            CLibrary.Fast, "append", _store.StorePath, "shared",
        ]));
        InteropStore.Ask(producer, "1 1000", "ok");
        PutAnother(segmentSize: 64 << 10, count: 10);
        InteropStore.Ask(producer, "flush", "deleted");
        Assert.False(File.Exists(_store.PathOf("poison")));
    }

    /// <summary>Its next segment is one of the other store: the reader called that damage.</summary>
    [Fact]
    public void Read_AtTheNextSegment_SaysSo()
    {
        Fill(segmentSize: 64 << 10, count: 100);
        using ChildProcess reader = CLibrary.Start(CLibrary.Checked, "read-on", _store.StorePath);
        for (int i = 0; i < 65; i++)
            InteropStore.Ask(reader, "", $"ok {i * 1008}");
        PutAnother(segmentSize: 64 << 10, count: 100);
        // The padding at the segment's end is passed before the next segment is asked for.
        InteropStore.Ask(reader, "", "deleted 65536");
    }

    /// <summary>Python asked the segment of that name, instead of the one that it has open, whether a message is there.</summary>
    [Fact]
    public void Read_InTheSameSegmentInPython_AsksTheOneThatIsOpen()
    {
        Vectors.SkipWithoutPython();
        Fill(segmentSize: 1 << 20, count: 3);
        using (FileStream control = File.OpenWrite(_store.PathOf("control")))
        {
            // The third message is above what has blocks, as this word says: only a read of the file can tell.
            control.Position = 384;
            control.Write([0xE0, 0x07, 0, 0, 0, 0, 0, 0]);
        }

        using ChildProcess reader = ChildProcess.Start(
            new ProcessStartInfo(PythonPackage.Program[0], [PythonPackage.Program[1], "read-on", _store.StorePath]),
            PythonPackage.Variables);
        InteropStore.Ask(reader, "", "ok 0");
        InteropStore.Ask(reader, "", "ok 1008");
        PutAnother(segmentSize: 1 << 20, count: 0);
        InteropStore.Ask(reader, "", "ok 2016");
    }

    private void PutAnother(long segmentSize, int count)
    {
        foreach (string entry in Directory.GetDirectories(_store.StorePath))
            Directory.Delete(entry, recursive: true);
        foreach (string entry in Directory.GetFiles(_store.StorePath))
            File.Delete(entry);
        Fill(segmentSize, count);
    }

    private void Fill(long segmentSize, int count)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _store.StorePath, SegmentSize = segmentSize });
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(new byte[1000]);
    }
}
