using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Format;

/// <summary>Checkpoint records, cursor words, slots, names.</summary>
public sealed class SmallRecordsTests
{
    private static readonly CheckpointRecord s_record = new(1L << 40, 3, 7, GoldenStore.BootId);

    [Fact]
    public void CheckpointParse_WhatWasWritten_GivesItBack()
    {
        byte[] bytes = s_record.ToBytes(GoldenStore.StoreId);
        Assert.Equal(CheckpointRecord.Length, bytes.Length);
        Assert.Equal(s_record, CheckpointRecord.Parse(bytes, GoldenStore.StoreId));
        byte[] file = new byte[2 * CheckpointRecord.SlotDistance];
        bytes.CopyTo(file, s_record.Position);
        Assert.Equal(s_record.Offset, FormatTwo.ReadCheckpoint(file, GoldenStore.StoreId.ToByteArray()).Offset);
    }

    [Fact]
    public void CheckpointParse_FlippedBitOrTornOrForeign_IsNull()
    {
        byte[] bytes = s_record.ToBytes(GoldenStore.StoreId);
        for (int bit = 0; bit < bytes.Length * 8; bit++)
        {
            bytes[bit / 8] ^= (byte)(1 << (bit % 8));
            Assert.Null(CheckpointRecord.Parse(bytes, GoldenStore.StoreId));
            bytes[bit / 8] ^= (byte)(1 << (bit % 8));
        }

        for (int length = 0; length < bytes.Length; length++)
            Assert.Null(CheckpointRecord.Parse(bytes.AsSpan(0, length), GoldenStore.StoreId));
        Assert.Null(CheckpointRecord.Parse(bytes, Guid.Empty));
        Assert.Null(CheckpointRecord.Parse(new byte[CheckpointRecord.Length], Guid.Empty));
    }

    [Theory]
    [InlineData(-8)]
    [InlineData(12)]
    public void CheckpointParse_ImpossibleOffset_IsNull(long offset) =>
        Assert.Null(CheckpointRecord.Parse(
            (s_record with { Offset = offset }).ToBytes(GoldenStore.StoreId), GoldenStore.StoreId));

    [Theory]
    [InlineData(0, 0)]
    [InlineData(1, 4096)]
    [InlineData(8, 0)]
    public void CheckpointPosition_Sequence_Alternates(long sequence, long position) =>
        Assert.Equal(position, (s_record with { Sequence = sequence }).Position);

    [Theory]
    [InlineData(0)]
    [InlineData(8)]
    [InlineData(123_456_789_008)]
    [InlineData(CursorWord.OffsetEnd - 8)]
    public void CursorWord_Offset_GivesItBackAndNoticesEachFlippedBit(long offset)
    {
        ulong word = CursorWord.From(offset);
        Assert.True(CursorWord.TryRead(word, out long read));
        Assert.Equal(offset, read);
        for (int bit = 0; bit < 64; bit++)
            Assert.False(CursorWord.TryRead(word ^ (1UL << bit), out _), $"bit {bit}");
    }

    [Fact]
    public void CursorWord_ZerosAndANewOne_AreNoOffset()
    {
        Assert.False(CursorWord.TryRead(0, out _));
        Assert.False(CursorWord.TryRead(ulong.MaxValue, out _));
        Assert.False(CursorWord.TryRead(CursorWord.New, out _));
        Assert.Equal("MFQ-NONE"u8, BitConverter.GetBytes(CursorWord.New));
    }

    /// <summary>Many offsets: each bit that flips in any of them is noticed, and of random words one in 1,024 passes.</summary>
    [Fact]
    public void CursorWord_ManyWords_FlippedBitsAreNoticedAndFewRandomOnesPass()
    {
        var random = new Random(26);
        int passed = 0;
        for (int i = 0; i < 100_000; i++)
        {
            ulong word = CursorWord.From(random.NextInt64(CursorWord.OffsetEnd) & ~7L);
            Assert.False(CursorWord.TryRead(word ^ (1UL << random.Next(64)), out _), $"0x{word:X16}");
            passed += CursorWord.TryRead((ulong)random.NextInt64(long.MinValue, long.MaxValue), out _) ? 1 : 0;
        }

        Assert.InRange(passed, 1, 200);
    }

    [Fact]
    public void SlotOwner_SlotAndGeneration_GivesThemBack()
    {
        uint owner = SlotLayout.Owner(SlotLayout.SlotCount - 1, SlotLayout.GenerationMax);
        Assert.Equal(uint.MaxValue, owner);
        Assert.Equal(SlotLayout.SlotCount - 1, SlotLayout.Slot(owner));
        Assert.Equal(SlotLayout.GenerationMax, SlotLayout.Generation(owner));
        Assert.Equal(0x0070_0003u, SlotLayout.Owner(7, 3));
        Assert.Equal(SlotLayout.FileLength, SlotLayout.EntryAt(SlotLayout.SlotCount));
    }

    /// <summary>
    /// Words that others write while one reads have 128 bytes each, and none is in the cold block's first 128.
    /// </summary>
    [Fact]
    public void ControlLayout_HotWords_AreApart()
    {
        int[] words =
        [
            ControlLayout.TailHintAt, ControlLayout.DurableAt, ControlLayout.AllocatedAt, ControlLayout.WakeSequenceAt,
            ControlLayout.WaiterFlagAt, ControlLayout.LogStartAt, ControlLayout.DirectoryFlushedAt,
            ControlLayout.ExclusiveAtWorkAt, ControlLayout.FlushTargetAt, ControlLayout.BarrierNeededAt,
            ControlLayout.FlushWakeSequenceAt, ControlLayout.FlushWaiterFlagAt, ControlLayout.RepairCountAt,
            ControlLayout.HasPollersAt,
        ];
        Assert.Equal(Enumerable.Range(1, words.Length).Select(i => i * 128), words);
        // Behind the text; and one that is read together with the log start.
        int[] later =
            [ControlLayout.CapacityWakeSequenceAt, ControlLayout.CapacityWaiterFlagAt, ControlLayout.ConsumersChangedAt];
        Assert.Equal([24 * 128, 25 * 128, 26 * 128], later);
        Assert.True(ControlLayout.FlushFailureAt + ControlLayout.FailureTextIn + ControlLayout.FlushFailureTextMax <= later[0]);
        Assert.True(later[^1] + 128 <= ControlLayout.RetentionFailureAt);
        Assert.True(ControlLayout.RetentionFailureAt + ControlLayout.FailureTextIn + ControlLayout.RetentionFailureTextMax
            <= ControlLayout.Length - 128);
        Assert.Equal(ControlLayout.LogStartAt + 8, ControlLayout.ProducersMayWaitAt);
        Assert.Equal("MFQCTRL2"u8, BitConverter.GetBytes(ControlLayout.Magic));
    }

    [Theory]
    [InlineData("00000000000000000000.log", 0)]
    [InlineData("00000000000000004096.log", 4096)]
    [InlineData("09223372036854775807.log", long.MaxValue)]
    public void TryParseSegment_SegmentName_GivesItsOffset(string name, long offset)
    {
        Assert.True(StoreNames.TryParseSegment(name, out long found));
        Assert.Equal(offset, found);
        Assert.Equal($"commitlog/{name}", StoreNames.Segment(offset));
    }

    [Theory]
    [InlineData("")]
    [InlineData("0.log")]
    [InlineData("00000000000000000000")]
    [InlineData("00000000000000000000.LOG")]
    [InlineData("00000000000000000000.log.tmp")]
    [InlineData("99999999999999999999.log")]
    [InlineData("-0000000000000000008.log")]
    [InlineData(" 0000000000000000008.log")]
    [InlineData("0000000000000000000x.log")]
    public void TryParseSegment_OtherName_IsFalse(string name) => Assert.False(StoreNames.TryParseSegment(name, out _));

    [Theory]
    [InlineData("", true)]
    [InlineData("a", true)]
    [InlineData("Orders-2.backup_1", true)]
    [InlineData("a b", false)]
    [InlineData("a/b", false)]
    [InlineData("ä", false)]
    [InlineData("a\0", false)]
    [InlineData("nul", false)]
    [InlineData("Con.orders", false)]
    [InlineData("LPT1", false)]
    [InlineData("console", true)]
    [InlineData("nul-1", true)]
    [InlineData("com", true)]
    [InlineData("comx", true)]
    public void IsValidConsumer_Name_IsAsDocumented(string name, bool expected) =>
        Assert.Equal(expected, StoreNames.IsValidConsumer(name));

    [Fact]
    public void ConsumerNames_LengthAndCase_AreAsDocumented()
    {
        Assert.True(StoreNames.IsValidConsumer(new string('x', 100)));
        Assert.False(StoreNames.IsValidConsumer(new string('x', 101)));
        Assert.Equal(StoreNames.Cursor("ORDERS"), StoreNames.Cursor("orders"));
        Assert.Equal(StoreNames.ConsumerLock("ORDERS"), StoreNames.ConsumerLock("orders"));
        Assert.Equal("offset/consumer.cursor", StoreNames.Cursor(""));
        Assert.Equal("offset/consumers/orders.cursor", StoreNames.Cursor("Orders"));
        Assert.Equal("locks/slot-0042", StoreNames.SlotLock(42));
    }
}
