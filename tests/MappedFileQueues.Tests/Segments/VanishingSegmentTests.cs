using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Segments;

/// <summary>A producer makes a segment while others make the same one and remove it again.</summary>
public sealed class VanishingSegmentTests
{
    private const int Segment = 65536;

    /// <summary>
    /// A producer that retention had overtaken tried twice to make its next segment, which others made and removed before it
    /// could open it. Then Produce said that the segment's name "leads to no file; it may be a broken link". Nothing was broken.
    /// </summary>
    [Fact]
    public void Produce_NextSegmentComesAndGoes_TriesOn()
    {
        PlatformScope.Use(portable: false);
        using var store = new CrashStore(Segment);
        var disk = new FaultyDisk();
        using MappedFileQueue queue = store.Open();
        // The first of a group that is made at once, after the group that the store began with.
        string name = StoreNames.Segment(4 * Segment);
        string path = Path.Combine(store.Path, name);
        int left = 10;
        bool isRenaming = false;
        disk.Before = (call, reached) =>
        {
            if (reached != name)
                return;
            if (call == DiskCall.Rename)
            {
                Volatile.Write(ref isRenaming, true);
                if (Interlocked.Decrement(ref left) >= 0)
                    File.WriteAllText(path, "");
            }
            else if (call == DiskCall.Renamed)
            {
                Volatile.Write(ref isRenaming, false);
            }
            else if (call == DiskCall.Open)
            {
                // Removed by another thread just before its rename, the file of the others would let the rename succeed.
                SpinWait.SpinUntil(() => !Volatile.Read(ref isRenaming));
                if (Volatile.Read(ref left) >= 0 && new FileInfo(path) is { Exists: true, Length: 0 })
                    File.Delete(path);
            }
        };

        List<string> texts = [.. Enumerable.Range(0, 8 * Segment / 1000).Select(i => $"m-{i}")];
        using (MappedFileProducer producer = queue.OpenProducer())
        {
            foreach (string text in texts)
                producer.Produce(CrashMessage.Make(text, 1000));
        }

        disk.Before = null;
        Assert.True(left < 0, "the segment came and went");
        Assert.Equal(texts, CrashStore.ReadAll(queue, "all"));
    }

    /// <summary>A link that does lead nowhere is still named.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Produce_NextSegmentIsABrokenLink_SaysSo(bool portable)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Links are made on Linux only");
        PlatformScope.Use(portable);
        using var store = new CrashStore(Segment);
        using (MappedFileQueue made = store.Open())
            CrashStore.Append(made, "first");
        string path = Path.Combine(store.Path, StoreNames.Segment(Segment));
        File.Delete(path);
        File.CreateSymbolicLink(path, Path.Combine(store.Path, "nowhere"));
        using MappedFileQueue queue = store.Open();
        using MappedFileProducer producer = queue.OpenProducer();

        QueueDiskException error = Assert.Throws<QueueDiskException>(() =>
        {
            for (int i = 0; i < Segment / 1000; i++)
                producer.Produce(CrashMessage.Make("m", 1000));
        });

        Assert.Contains("broken link", error.Message, StringComparison.Ordinal);
    }
}
