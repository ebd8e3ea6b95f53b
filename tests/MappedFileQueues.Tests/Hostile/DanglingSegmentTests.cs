using System.Globalization;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Crash.Cuts;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// A link that leads nowhere in the place of a segment, as it remains when a log was moved to another disk and that disk is
/// away. The stories: a producer found no file there, could not give its own that name, and tried again for ever; an opener met
/// a null reference.
/// </summary>
[Trait("Category", "Slow")]
public sealed class DanglingSegmentTests
{
    private const int Segment = 1 << 20;

    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public void Append_NextSegmentIsADanglingLink_ThrowsAndGoesOnOnceItIsGone(ProducerMode mode)
    {
        using var store = new CrashStore(Segment, mode);
        using PeerAgent child = PeerAgent.Start();
        child.Ask(store.OpenCommand);
        string next = NameOf(store, Segment);
        File.CreateSymbolicLink(next, Path.Combine(store.Path, "away", "segment"));

        string error = child.AskForError("append prefix=c count=2000 size=1000");
        Assert.StartsWith(nameof(QueueDiskException), error, StringComparison.Ordinal);
        Assert.Contains(Path.GetFileName(next), error, StringComparison.Ordinal);
        int count = child.AckedCount;
        Assert.InRange(count, 1000, Segment / 1000);

        File.Delete(next);
        child.Ask($"append prefix=c first={count} count=10 size=1000");
        child.Ask("close");
        store.ExpectHealthy([.. Enumerable.Range(0, count + 10).Select(i => $"c-{i}")]);
    }

    [Theory]
    [InlineData(0, false)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    [InlineData(1, true)]
    public void Open_SegmentIsADanglingLink_IsRefusedAndNamesIt(int index, bool isOtherBoot)
    {
        using CutStore cut = CutStore.Make(Segment, count: 9000);
        string name = NameOf(cut.Store, index * Segment);
        byte[] bytes = File.ReadAllBytes(name);
        File.Delete(name);
        File.CreateSymbolicLink(name, Path.Combine(cut.Store.Path, "away", "segment"));
        using (PeerAgent child = PeerAgent.Start(isOtherBoot ? Guid.NewGuid() : null))
        {
            string error = child.AskForError(cut.Store.OpenCommand);
            Assert.StartsWith(nameof(QueueCorruptException), error, StringComparison.Ordinal);
            Assert.Contains(Path.GetFileName(name), error, StringComparison.Ordinal);
        }

        File.Delete(name);
        File.WriteAllBytes(name, bytes);
        Assert.Equal(cut.Texts, cut.Store.Peek());
    }

    private static string NameOf(CrashStore store, long start) =>
        Path.Combine(store.Path, "commitlog", start.ToString("D20", CultureInfo.InvariantCulture) + ".log");
}
