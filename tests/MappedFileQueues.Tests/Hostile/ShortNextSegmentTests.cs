using System.Globalization;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// A file that is too short in the place of the next segment, as a bad copy of a store leaves it. The story: the maker took it
/// for a segment and asked for blocks beyond its end; that threw on the thread that prepares ahead, where nobody caught it, and
/// the process was gone. A child appends, so that the test would outlive that.
/// </summary>
[Trait("Category", "Slow")]
public sealed class ShortNextSegmentTests
{
    private const int Segment = 1 << 20;

    [Theory]
    [InlineData(0, ProducerMode.Shared)]
    [InlineData(0, ProducerMode.Exclusive)]
    [InlineData(4096, ProducerMode.Shared)]
    [InlineData(Segment - 8, ProducerMode.Exclusive)]
    public void Append_NextSegmentIsShort_ThrowsAndGoesOnOnceItIsGone(int length, ProducerMode mode)
    {
        using var store = new CrashStore(Segment, mode);
        using PeerAgent child = PeerAgent.Start();
        child.Ask(store.OpenCommand);
        string next = Path.Combine(store.Path, "commitlog", Segment.ToString("D20", CultureInfo.InvariantCulture) + ".log");
        File.WriteAllBytes(next, new byte[length]);

        string error = child.AskForError("append prefix=c count=2000 size=1000");
        Assert.StartsWith(nameof(QueueCorruptException), error, StringComparison.Ordinal);
        Assert.Contains(Path.GetFileName(next), error, StringComparison.Ordinal);
        Assert.Contains(store.Path, error, StringComparison.Ordinal);
        int count = child.AckedCount;
        Assert.InRange(count, 1000, Segment / 1000);

        File.Delete(next);
        child.Ask($"append prefix=c first={count} count=10 size=1000");
        child.Ask("close");
        store.ExpectHealthy([.. Enumerable.Range(0, count + 10).Select(i => $"c-{i}")]);
    }
}
