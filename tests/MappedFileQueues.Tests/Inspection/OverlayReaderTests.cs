using System.Buffers;
using System.Text;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Inspection;

/// <summary>
/// Readers in a container whose image brought the store: overlayfs shows the files of its lower layer until somebody opens one
/// for writing, and copies it up then. A mapping that was made before keeps showing the lower file. A reader that was there
/// before the first writer saw none of its messages, in silence; a reader of a pack reported damage in whole objects.
/// </summary>
public sealed class OverlayReaderTests : IDisposable
{
    private static readonly TimeSpan s_deadline = Eventually.DefaultDeadline;

    private readonly TempStore _temp = new();
    private readonly MountedFileSystem _disk;

    public OverlayReaderTests()
    {
        _disk = MountedFileSystem.Make("tmpfs", _temp.Root, lengthMiB: 64);
        foreach (string folder in (string[])["lower", "upper", "work", "merged"])
            Directory.CreateDirectory(_disk.PathOf(folder));
    }

    private string Merged => _disk.PathOf("merged");

    public void Dispose()
    {
        MountedFileSystem.Run("umount", Merged);
        _disk.Dispose();
        _temp.Dispose();
    }

    [Fact]
    public void TryRead_FirstWriterComesLater_SaysThatTheFilesWereReplaced()
    {
        Produce(_disk.PathOf("lower", "store"), "in the image");
        MountOverlay();
        string path = Path.Combine(Merged, "store");
        using MappedFileReader reader = MappedFileReader.Open(path);
        Assert.True(reader.TryRead(out _));
        Assert.False(reader.TryRead(out _));

        Produce(path, "in the container");

        Assert.Throws<QueueDeletedException>(() => reader.TryRead(out _, s_deadline));
        using MappedFileReader again = MappedFileReader.Open(path);
        Assert.True(again.TryRead(out _));
        Assert.True(again.TryRead(out ReadOnlySpan<byte> message));
        Assert.Equal("in the container"u8, message);
    }

    [Fact]
    public void TryGet_FirstWriterComesLater_FindsWhatItPuts()
    {
        using (PackStore lower = PackStore.Open(_disk.PathOf("lower", "pack")))
            lower.Put("old", "in the image"u8);
        MountOverlay();
        string path = Path.Combine(Merged, "pack");
        using PackReader reader = PackReader.Open(path);
        // The second look at a part of a volume copies from the mapping.
        for (int i = 0; i < 3; i++)
            Assert.Equal("in the image", Get(reader, "old"));

        using (PackStore pack = PackStore.Open(path))
        {
            for (int i = 0; i < 3; i++)
                pack.Put($"new{i}", "in the container"u8);
        }

        for (int i = 0; i < 3; i++)
            Assert.Equal("in the container", Get(reader, $"new{i}"));
        Assert.Equal("in the image", Get(reader, "old"));
    }

    private static void Produce(string path, string message)
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = path, SegmentSize = 64 * 1024 });
        queue.Producer.Produce(Encoding.UTF8.GetBytes(message));
    }

    private static string Get(PackReader reader, string key)
    {
        var found = new ArrayBufferWriter<byte>();
        Assert.True(reader.TryGet(key, found));
        return Encoding.UTF8.GetString(found.WrittenSpan);
    }

    private void MountOverlay() => MountedFileSystem.Run(
        "mount", "-t", "overlay", "overlay", "-o",
        $"lowerdir={_disk.PathOf("lower")},upperdir={_disk.PathOf("upper")},workdir={_disk.PathOf("work")}", Merged);
}
