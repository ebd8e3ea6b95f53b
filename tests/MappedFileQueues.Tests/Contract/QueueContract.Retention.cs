namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void Trim_ConsumerIsBehind_KeepsWhatItHasNotCommitted(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, Many);
        using ConsumerUnderTest slow = pair.Right.OpenConsumer("slow");
        slow.Take(Many / 2);

        long kept = pair.Left.Trim(long.MaxValue);

        Assert.Equal(StartOf(pair, slow.CommittedOffset), kept);
        Assert.Equal(kept, pair.Right.GetInfo().LogStart);
        Assert.Equal(Numbers(Many / 2, Many / 2), slow.Take(Many / 2));
        Assert.Equal(offsets.Count(offset => offset >= kept), pair.Right.ReadAll().Count);
        Assert.Equal(Many - 1, pair.Right.ReadAll()[^1]);
    }

    [Theory, MemberData(nameof(Places))]
    public void SetRetention_SmallLog_KeepsTheNewestInOrder(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        pair.Left.SetRetention(new RetentionOptions { MaxBytes = 3 * pair.Left.GetInfo().SegmentSize });

        List<long> offsets = ProduceMany(pair.Producer, 4 * Many);

        long oldest = Math.Max(0, StartOf(pair, offsets[^1]) - (2 * pair.Left.GetInfo().SegmentSize));
        Eventually.Equal(oldest, () => pair.Right.GetInfo().LogStart);
        List<long> read = pair.Right.ReadAll();
        Assert.Equal(Numbers((4 * Many) - read.Count, read.Count), read);
        Assert.Equal(offsets.Count(offset => offset >= oldest), read.Count);
        pair.Reopen();
        Assert.Equal(oldest, pair.Right.GetInfo().LogStart);
        Assert.Equal(read, pair.Right.ReadAll());
    }

    private static long StartOf(QueuePair pair, long offset)
    {
        long length = pair.Left.GetInfo().SegmentSize;
        return offset / length * length;
    }
}
