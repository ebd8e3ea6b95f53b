using MappedFileQueues.Format;
using MappedFileQueues.Segments;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Inspection;

/// <summary>
/// Information came from words that programs share, and nobody looked at the files: `mfq check` said OK for a store whose
/// segments were gone, while its producers were refused.
/// </summary>
public sealed class FileProblemsTests : IDisposable
{
    private const int SegmentLength = 4096;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("nothing", "")]
    [InlineData("last", "Segment files are missing")]
    [InlineData("middle", "Segment files are missing")]
    [InlineData("all", "Segment files are missing")]
    [InlineData("short", "too short")]
    [InlineData("first header", "does not begin with a message")]
    [InlineData("end", "The log ends too early")]
    public void Inspect_FilesAreDamaged_SaysWhatAndNamesTheRemedy(string damage, string expected)
    {
        Fill();
        string[] segments =
            [.. Directory.GetFiles(_temp.PathOf(StoreNames.CommitLog), "*.log").Order(StringComparer.Ordinal).Take(5)];
        switch (damage)
        {
            case "last":
                File.Delete(segments[4]);
                break;
            case "middle":
                File.Delete(segments[2]);
                break;
            case "all":
                Array.ForEach(segments, File.Delete);
                break;
            case "short":
                Change(segments[2], file => file.SetLength(8));
                break;
            case "first header":
                Change(segments[0], file => file.Write(new byte[8]));
                break;
            case "end":
                // The second message of the last segment; nothing of it counts as flushed.
                using (var words = new StoreWords(_temp.StorePath))
                    words.ResetCheckpoint();
                Change(segments[4], file =>
                {
                    file.Position = 1024;
                    file.Write(new byte[8]);
                });
                break;
            default:
                Assert.Empty(StoreInspector.Inspect(_temp.StorePath).FileProblems);
                return;
        }

        IReadOnlyList<string> problems = StoreInspector.Inspect(_temp.StorePath).FileProblems;

        Assert.Contains(problems, problem => problem.Contains(expected, StringComparison.Ordinal));
        Assert.All(problems, problem => Assert.Contains("`mfq repair`", problem, StringComparison.Ordinal));
    }

    [Fact]
    public void Inspect_ProducersWereRefused_SaysSo()
    {
        Fill();
        File.Delete(_temp.PathOf(StoreNames.Segment(2 * SegmentLength)));
        File.Delete(_temp.PathOf(StoreNames.Checkpoint));

        using MappedFileQueue queue = Open();
        QueueCorruptException refused = Assert.Throws<QueueCorruptException>(() => queue.Producer);

        Assert.Contains("`mfq repair`", refused.Message, StringComparison.Ordinal);
        Assert.Contains(
            queue.GetInfo().FileProblems,
            problem => problem.StartsWith("Producers are refused", StringComparison.Ordinal));
    }

    /// <summary>The words of a page of garbage were believed: "flushes fail since 9999-12-31".</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Inspect_ControlIsGarbage_BelievesNoWordOfIt(bool isInUse)
    {
        Fill();
        MappedFileQueueInfo before = StoreInspector.Inspect(_temp.StorePath);
        using MappedFileQueue? queue = isInUse ? Open() : null;
        byte[] garbage = new byte[ControlLayout.Length];
        new Random(1).NextBytes(garbage);
        Change(_temp.PathOf(StoreNames.Control), file => file.Write(garbage));

        MappedFileQueueInfo info = StoreInspector.Inspect(_temp.StorePath);

        Assert.Equal((null, null, false), (info.FlushFailingSince, info.RetentionFailingSince, info.IsPoisoned));
        Assert.Equal((0, before.PublishedOffset), (info.RepairCount, info.PublishedOffset));
        Assert.InRange(info.ConfirmedOffset, 0, info.PublishedOffset);
        Assert.Equal(isInUse ? 1 : 0, info.FileProblems.Count);
        Change(_temp.PathOf(StoreNames.Control), file => file.Write(new byte[ControlLayout.Length]));
    }

    [Fact]
    [Trait("Category", "Slow")]
    public void CheckAndTop_DestroyedStore_SayWhatTheInfoSays()
    {
        Fill();
        Array.ForEach(Directory.GetFiles(_temp.PathOf(StoreNames.CommitLog)), File.Delete);

        string line = ToolRun.Of("check", _temp.StorePath).Expect(2).Text;
        string top = ToolRun.Of("top", _temp.Root, "--once").Expect(0).Text;
        string info = ToolRun.Of("info", _temp.StorePath).Expect(0).Text;
        string refused = ToolRun.WithInput([.. "x\n"u8], "produce", _temp.StorePath).Expect(1).Error;
        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);

        Assert.StartsWith("CRITICAL: store: Segment files are missing", line, StringComparison.Ordinal);
        Assert.Contains("DAMAGED: Segment files are missing", top, StringComparison.Ordinal);
        Assert.Contains("Segment files are missing", info, StringComparison.Ordinal);
        Assert.Contains("`mfq repair`", refused, StringComparison.Ordinal);
        ToolRun.Of("check", _temp.StorePath).Expect(0);
        ToolRun.WithInput([.. "x\n"u8], "produce", _temp.StorePath).Expect(0);
    }

    private void Fill()
    {
        using MappedFileQueue queue = Open();
        for (int i = 0; i < 19; i++)
            queue.Producer.Produce(new byte[1016]);
        queue.Flush();
    }

    private MappedFileQueue Open() =>
        new(new MappedFileQueueOptions { StorePath = _temp.StorePath, SegmentSize = SegmentLength });

    private static void Change(string path, Action<FileStream> change)
    {
        using FileStream file = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        change(file);
    }
}
