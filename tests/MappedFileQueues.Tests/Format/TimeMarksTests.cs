using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Format;

/// <summary>The marks of time after a checkpoint's record.</summary>
public sealed class TimeMarksTests
{
    /// <summary>A mark each second for four days, one each hour for a year: no age is too small by more than a tenth.</summary>
    [Theory]
    [InlineData(1_000, 345_600)]
    [InlineData(3_600_000, 8_760)]
    [Trait("Category", "Slow")]
    public void TimeOf_AnyAge_IsTooSmallByATenthAtMost(long step, int count)
    {
        List<TimeMark> marks = [];
        for (int i = 1; i <= count; i++)
            TimeMarks.Add(marks, new TimeMark(8L * i, i * step));

        Assert.Equal(TimeMarks.CountMax, marks.Count);
        long now = count * step;
        for (int i = 1; i < count; i += Math.Max(1, count / 5_000))
        {
            // The message at this offset was there by the mark of its own second.
            double age = now - ((i + 1) * step);
            double told = now - TimeMarks.TimeOf(marks, 8L * i)!.Value.ToUnixTimeMilliseconds();
            Assert.InRange(told, (age * 0.9) - (2 * step), age);
        }

        Assert.Null(TimeMarks.TimeOf(marks, 8L * count));
    }

    [Fact]
    public void Parse_WhatWasWritten_GivesItBackAndNothingOfADamagedPage()
    {
        byte[] page = new byte[CheckpointRecord.SlotDistance];
        Assert.Empty(TimeMarks.Parse(page, long.MaxValue));
        TimeMarks.Write(page, [new TimeMark(8, 1), new TimeMark(64, 2)]);

        Assert.Equal([new TimeMark(8, 1), new TimeMark(64, 2)], TimeMarks.Parse(page, 64));
        // A recovery has cut the log since: the record says how far it goes.
        Assert.Equal([new TimeMark(8, 1)], TimeMarks.Parse(page, 56));
        foreach (int position in new[] { 128, 132, 140, 155 })
        {
            page[position] ^= 1;
            Assert.Empty(TimeMarks.Parse(page, 64));
            page[position] ^= 1;
        }
    }

    [Fact]
    public void Add_LogWasCutOrClockWentBack_DropsWhatIsNotTrueAnyMore()
    {
        List<TimeMark> marks = [new(8, 1), new(16, 5), new(24, 9)];

        TimeMarks.Add(marks, new TimeMark(16, 10));
        Assert.Equal([new TimeMark(8, 1), new TimeMark(16, 10)], marks);

        TimeMarks.Add(marks, new TimeMark(32, 4));
        Assert.Equal([new TimeMark(8, 1), new TimeMark(32, 4)], marks);
    }
}
