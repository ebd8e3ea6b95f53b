using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Segments;

/// <summary>
/// A Portable process in segments that a Linux process has made and given their first blocks only. The stories: its preparer
/// asked for more blocks there, got an exception that nobody caught, and took the process with it; and where it found such a
/// segment at the very place up to which blocks were promised, it promised the whole segment, whose holes kill on a full disk.
/// </summary>
public sealed class MixedPlatformTests : IDisposable
{
    private const int Enospc = 28;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Produce_PortableBesideLinuxInItsSegment_GoesOnInTheNextOne()
    {
        const int Count = 3_000;
        PlatformScope.Use(portable: false);
        using var store = new CrashStore(4 * 1024 * 1024);
        using MappedFileQueue queue = store.Open();
        List<string> texts = [.. Enumerable.Range(0, 200).Select(i => $"linux-{i}")];
        using MappedFileProducer producer = queue.OpenProducer();
        texts.ForEach(text => producer.Produce(CrashMessage.Make(text, 1000)));

        // Slowly, a line for each message, so that the one who prepares ahead comes to the end of the blocks first.
        using ChildProcess child = ChildProcess.StartPeer("--portable", "agent");
        child.Input.WriteLine(store.OpenCommand);
        child.Input.WriteLine($"append prefix=portable count={Count} size=1000");
        child.WaitForLine($"acked {Count - 1}");
        child.Input.WriteLine("exit");
        child.ExpectExit();
        producer.Produce(CrashMessage.Make("last", 1000));

        texts.AddRange(Enumerable.Range(0, Count).Select(i => $"portable-{i}"));
        Assert.Equal([.. texts, "last"], CrashStore.ReadAll(queue, "all"));
    }

    /// <summary>
    /// No padding covers a rest of more than 256 MiB: its length ran over into the header's other bits, walkers came out in the
    /// middle of nothing, and what was appended after it could not be read.
    /// </summary>
    [Fact]
    public void Produce_PortableWhereTheRestIsLongerThanAnyFrame_ThrowsAndLosesNothing()
    {
        PlatformScope.Use(portable: false);
        var options = new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = 520L << 20, PrepareAhead = 0 };
        using var linux = new MappedFileQueue(options);
        linux.Producer.Produce(new byte[1016]);
        int appended = 1;
        PlatformScope.Use(portable: true);
        using (var portable = new MappedFileQueue(options))
        {
            QueueDiskException error = Assert.Throws<QueueDiskException>(() =>
            {
                for (; appended < 10_000; appended++)
                    portable.Producer.Produce(new byte[1016]);
            });
            Assert.Contains("Close every queue", error.Message, StringComparison.Ordinal);
        }

        linux.Producer.Produce(new byte[1016]);
        int read = 0;
        for (; linux.Consumer.TryConsume(out _); read++)
            linux.Consumer.Commit();
        Assert.Equal(appended + 1, read);
    }

    /// <summary>The disk fills up after the first blocks of a segment of Linux: an exception, not a dead process.</summary>
    [Fact]
    public void Produce_PortableInAFreshSegmentOfLinuxOnAFullDisk_Throws()
    {
        const int Room = 500 * 1024;
        PlatformScope.Use(portable: false);
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        using var queue = new MappedFileQueue(
            new MappedFileQueueOptions { StorePath = disk.PathOf("store"), SegmentSize = 1024 * 1024 });
        File.WriteAllBytes(disk.PathOf("ballast"), new byte[new DriveInfo(disk.Path).AvailableFreeSpace - Room]);
        using ChildProcess child = ChildProcess.StartPeer(
            "--portable", "fill", disk.PathOf("store"), "1048576", "shared", "100");

        string full = child.WaitForLine(line => line.StartsWith("FULL ", StringComparison.Ordinal));
        Assert.StartsWith($"FULL {Enospc} ", full, StringComparison.Ordinal);
        child.WaitForLine(line => line.StartsWith("COMMITTED ", StringComparison.Ordinal));
        disk.Free("ballast");
        child.Input.WriteLine("freed");

        child.WaitForLine(line => line.StartsWith("DONE ", StringComparison.Ordinal));
        child.ExpectExit();
    }
}
