using MappedFileQueues.Log.Frames;


namespace MappedFileQueues.Tests.Crash.Producers;

public class SegmentStartsTests
{
    [Fact]
    public void AddRemoveFrom_InAnyOrder_IsWhatASortedSetHolds()
    {
        int seed = Environment.TickCount;
        var random = new Random(seed);
        var starts = new SegmentStarts();
        var expected = new SortedSet<long>();
        for (int i = 0; i < 2000; i++)
        {
            long start = random.Next(100) * 4096L;
            bool adds = random.Next(3) > 0;
            if (adds)
                starts.Add(start);
            else
                starts.Remove(start);
            _ = adds ? expected.Add(start) : expected.Remove(start);

            long from = random.Next(-4096, 101 * 4096);
            Assert.True(
                expected.Where(each => each >= from).SequenceEqual(starts.From(from)), $"seed={seed}, step={i}, from={from}");
            Assert.Equal(expected.Contains(from), starts.Contains(from));
            Assert.Equal(expected.Contains(start), starts.Contains(start));
            Assert.Equal(expected.Count, starts.Count);
            if (expected.Count > 0)
                Assert.Equal(expected.Min, starts.Min);
        }
    }

    [Fact]
    public void Min_Empty_Throws() => Assert.Throws<InvalidOperationException>(() => new SegmentStarts().Min);
}
