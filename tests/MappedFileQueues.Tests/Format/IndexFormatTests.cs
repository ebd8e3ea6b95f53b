using MappedFileQueues.Format.Index;

namespace MappedFileQueues.Tests.Format;

/// <summary>The bytes of `offset/index`, and what does not pass for them.</summary>
public sealed class IndexFormatTests
{
    private static readonly Guid s_store = Guid.Parse("00112233-4455-6677-8899-aabbccddeeff");
    private static readonly Guid s_log = Guid.Parse("ffeeddcc-bbaa-9988-7766-554433221100");
    private static readonly IndexPage s_page = new(s_store, Series: 0x0A0B0C0D, Origin: 4096);
    private static readonly IndexEntry s_entry = new(Offset: 1_048_600, Number: 14_563, Time: 17_953_056_000_000_000);

    [Fact]
    public void ToBytes_Page_IsWhatFormatSays()
    {
        byte[] bytes = s_page.ToBytes();
        s_entry.Write(bytes.AsSpan(IndexPage.CountedAt), s_page.Series, s_log);

        Assert.Equal(4096, bytes.Length);
        Assert.Equal(
            "4d4651494e444558" + "01000000" + "14000000" + "33221100554477668899aabbccddeeff" + "0d0c0b0a" + "00000000"
            + "0010000000000000" + "12000000" + "0000000000000000" + "a6927385",
            Convert.ToHexStringLower(bytes.AsSpan(0, 64)));
        Assert.Equal(
            "1800100000000000" + "e338000000000000" + "0040839535c83f00" + "0d0c0b0a" + "36b79b83",
            Convert.ToHexStringLower(bytes.AsSpan(64, 32)));
        Assert.False(bytes.AsSpan(96).ContainsAnyExcept((byte)0));
        Assert.Equal(4096 + 32, s_page.PositionOf(s_page.StepOf(s_entry.Offset)));
        Assert.Equal(4096 + (8 * 1024 * 1024) - 32, s_page.PositionOf((1 << 18) - 1));
        Assert.Equal(s_page.PositionOf(3), s_page.PositionOf(3 + (1 << 18)));
    }

    [Fact]
    public void Parse_Page_OnlyOfItsStoreAndUndamaged()
    {
        byte[] bytes = s_page.ToBytes();

        Assert.Equal(s_page, IndexPage.Parse(bytes, s_store));
        Assert.Null(IndexPage.Parse(bytes, s_log));
        Assert.Null(IndexPage.Parse(bytes.AsSpan(0, 63), s_store));
        for (int i = 0; i < IndexPage.RecordLength; i++)
        {
            bytes[i] ^= 1;
            Assert.Null(IndexPage.Parse(bytes, s_store));
            bytes[i] ^= 1;
        }

        Assert.Null(IndexPage.Parse((s_page with { StepBits = 62 }).ToBytes(), s_store));
        Assert.Null(IndexPage.Parse((s_page with { CountBits = 40 }).ToBytes(), s_store));
        Assert.Null(IndexPage.Parse((s_page with { Origin = -8 }).ToBytes(), s_store));
        Assert.Null(IndexPage.Parse((s_page with { Origin = 4097 }).ToBytes(), s_store));
    }

    [Fact]
    public void Parse_Entry_OnlyOfItsLogAndSeriesAndUndamaged()
    {
        byte[] bytes = new byte[IndexEntry.Length];
        Assert.Null(IndexEntry.Parse(bytes, 0, s_log));
        s_entry.Write(bytes, 7, s_log);

        Assert.Equal(s_entry, IndexEntry.Parse(bytes, 7, s_log));
        Assert.Null(IndexEntry.Parse(bytes, 8, s_log));
        Assert.Null(IndexEntry.Parse(bytes, 7, s_store));
        Assert.Null(IndexEntry.Parse(bytes.AsSpan(0, 31), 7, s_log));
        for (int i = 0; i < bytes.Length; i++)
        {
            bytes[i] ^= 1;
            Assert.Null(IndexEntry.Parse(bytes, 7, s_log));
            bytes[i] ^= 1;
        }

        (s_entry with { Offset = 4 }).Write(bytes, 7, s_log);
        Assert.Null(IndexEntry.Parse(bytes, 7, s_log));
        (s_entry with { Number = -1 }).Write(bytes, 7, s_log);
        Assert.Null(IndexEntry.Parse(bytes, 7, s_log));
    }

    [Fact]
    public void Time_AnyTime_ComesBack()
    {
        foreach (DateTimeOffset time in new[] { DateTimeOffset.MinValue, DateTimeOffset.UnixEpoch, DateTimeOffset.MaxValue })
            Assert.Equal(time, new IndexEntry(0, 0, IndexEntry.TimeFrom(time)).AsTime());
        Assert.Null(new IndexEntry(0, 0, IndexEntry.NoTime).AsTime());
        Assert.Null(new IndexEntry(0, 0, long.MaxValue).AsTime());
    }
}
