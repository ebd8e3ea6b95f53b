using System.Buffers.Binary;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;

namespace MappedFileQueues.Tests.Format;

/// <summary>The words of a group's file, and the file that a power loss leaves of it.</summary>
public sealed class GroupLayoutTests
{
    private static readonly DateTimeOffset s_made = DateTimeOffset.FromUnixTimeMilliseconds(0x0102_0304_0506);

    [Fact]
    public void Layout_Length_IsThatOfThePage() => Assert.Equal(1_052_672, GroupLayout.FileLength);

    [Fact]
    public void MakeHead_Known_IsGolden() => Assert.Equal(
        "4D465147524F5550" + "01000000" + "01000000" + Convert.ToHexString(GoldenStore.StoreId.ToByteArray())
            + "0605040302010000" + new string('0', 40) + "D6B61682",
        Convert.ToHexString(GroupLayout.MakeHead(GoldenStore.StoreId, s_made)));

    [Fact]
    public void FindFault_FlippedBitOrForeignOrShort_IsFound()
    {
        byte[] head = GroupLayout.MakeHead(GoldenStore.StoreId, s_made);
        Assert.Null(GroupLayout.FindFault(head, GoldenStore.StoreId));
        for (int bit = 0; bit < head.Length * 8; bit++)
        {
            head[bit / 8] ^= (byte)(1 << (bit % 8));
            Assert.NotNull(GroupLayout.FindFault(head, GoldenStore.StoreId));
            head[bit / 8] ^= (byte)(1 << (bit % 8));
        }

        Assert.Equal("it belongs to another store", GroupLayout.FindFault(head, Guid.Empty));
        Assert.NotNull(GroupLayout.FindFault(head.AsSpan(0, 63), GoldenStore.StoreId));
    }

    [Fact]
    public void LeaseState_Fields_AreWhereThePageSays()
    {
        LeaseState state = LeaseState.Make(LeaseKind.Held, owner: 0x0053_0007, tag: 0xABCDEF, deliveries: 5);
        Assert.Equal(0x0053_0007_ABCD_EF16UL, state.Word);
        Assert.Equal((LeaseKind.Held, 0x0053_0007u, 0xABCDEFu, 5), (state.Kind, state.Owner, state.Tag, state.Deliveries));
        Assert.Equal(63, LeaseState.Make(LeaseKind.Waiting, 0, 1, 64).Deliveries);
        Assert.Equal(0, LeaseState.Make(LeaseKind.Waiting, 0, 1, -1).Deliveries);
        Assert.Equal(0u, LeaseState.Make(LeaseKind.Held, 1, 0x1_000_000, 1).Tag);
    }

    [Theory]
    [InlineData(0u)]
    [InlineData(0xFF_FFFFu)]
    [InlineData(0x100_0000u)]
    [InlineData(0xFFFF_FFFFu)]
    public void LeaseState_Done_KeepsAllOfItsTag(uint tag)
    {
        LeaseState done = LeaseState.Done(tag);
        Assert.Equal((LeaseKind.Done, tag), (done.Kind, done.WholeTag));
    }

    [Theory]
    [InlineData(0x0000_0005u, 6u, 0x0000_0006u, false)]
    [InlineData(0x07FF_FFFFu, 0u, 0x0800_0000u, false)]
    [InlineData(0x0800_0000u, 0xFF_FFFFu, 0x07FF_FFFFu, true)]
    [InlineData(0xFFFF_FFFFu, 1u, 0x0000_0001u, false)]
    public void LeaseBits_Widen_FindsTheNearestTag(uint tag, uint shortTag, uint whole, bool isAfter)
    {
        LeaseBits bits = LeaseBits.Make(tag, 0x8000_0001);
        Assert.Equal((whole, isAfter), (bits.Widen(shortTag), bits.IsAfter(shortTag)));
        Assert.Equal(((ulong)tag << 32) | 0x8000_0001, bits.Word);
    }

    [Fact]
    public void SingleContent_Fields_AreWhereThePageSays()
    {
        SingleContent content = SingleContent.Make(parent: 0x1234, ownTag: 0x56789A, parentTag: 0xBCDEF0);
        Assert.Equal(0xBCDE_F056_789A_1234UL, content.Word);
        Assert.Equal((0x1234, 0x56789Au, 0xBCDEF0u), (content.Parent, content.OwnTag, content.ParentTag));
    }

    [Fact]
    public void DueWord_OfAnotherTag_IsDueNow()
    {
        DueWord due = DueWord.Make(tag: 7, dueMs: 123_456_789);
        Assert.Equal(0x0000_0700_075B_CD15UL, due.Word);
        Assert.Equal((123_456_789, 0), (due.DueFor(7), due.DueFor(8)));
    }

    [Fact]
    public void NextWord_Fields_AreWhereThePageSays()
    {
        NextWord next = NextWord.Make(0x1FFF, 0x1234_5678_9ABC);
        Assert.Equal(0x1234_5678_9ABC_1FFFUL, next.Word);
        Assert.Equal((0x1FFF, 0x1234_5678_9ABCUL), (next.Record, next.Sequence));
    }

    [Fact]
    public void SavedGroup_WhatWasWritten_GivesItBackAndIsGolden()
    {
        var saved = new SavedGroup(3, 4096, [new SavedLease(64, 512, 0x5, 9, 0, 0), new SavedLease(32, 0, 0, 0, 2, 77)]);
        byte[] bytes = saved.ToBytes(GoldenStore.StoreId);
        Assert.Equal(
            "4D46514752505331" + Convert.ToHexString(GoldenStore.StoreId.ToByteArray()) + "0300000000000000"
            + "0010000000000000" + "02000000" + new string('0', 40)
            + "4000000000000000" + "0002000000000000" + "05000000" + "09" + "00" + "0000" + "0000000000000000"
            + "2000000000000000" + "0000000000000000" + "00000000" + "00" + "02" + "0000" + "4D00000000000000",
            Convert.ToHexString(bytes.AsSpan(0, bytes.Length - 4)));
        SavedGroup read = SavedGroup.Parse(bytes, GoldenStore.StoreId)!;
        Assert.Equal((saved.Epoch, saved.NextEnd, 32L), (read.Epoch, read.NextEnd, read.Floor));
        Assert.Equal(saved.Leases, read.Leases);
    }

    [Fact]
    public void SavedGroup_DamagedOrForeignOrImpossible_IsNull()
    {
        var saved = new SavedGroup(3, 4096, [new SavedLease(64, 512, 0x5, 9, 0, 0)]);
        byte[] bytes = saved.ToBytes(GoldenStore.StoreId);
        for (int bit = 0; bit < bytes.Length * 8; bit++)
        {
            bytes[bit / 8] ^= (byte)(1 << (bit % 8));
            Assert.Null(SavedGroup.Parse(bytes, GoldenStore.StoreId));
            bytes[bit / 8] ^= (byte)(1 << (bit % 8));
        }

        for (int length = 0; length < bytes.Length; length++)
            Assert.Null(SavedGroup.Parse(bytes.AsSpan(0, length), GoldenStore.StoreId));
        Assert.Null(SavedGroup.Parse(bytes, Guid.Empty));
        Assert.Null(SavedGroup.Parse((saved with { NextEnd = 12 }).ToBytes(GoldenStore.StoreId), GoldenStore.StoreId));
        Assert.Null(SavedGroup.Parse(
            (saved with { Leases = [new SavedLease(-8, 0, 0, 0, 0, 0)] }).ToBytes(GoldenStore.StoreId), GoldenStore.StoreId));
        Assert.Null(SavedGroup.Parse(
            (saved with { Leases = [new SavedLease(64, 8, 0, 3, 0, 0)] }).ToBytes(GoldenStore.StoreId), GoldenStore.StoreId));
    }

    [Fact]
    public void SavedGroup_ClampTo_LeavesNothingBeyondTheTail()
    {
        var saved = new SavedGroup(3, 4096,
            [new SavedLease(64, 512, 0x5, 9, 0, 0), new SavedLease(1024, 0, 0, 0, 2, 0), new SavedLease(2048, 4096, 0, 3, 0, 0)]);
        SavedGroup clamped = saved.ClampTo(256, static (from, to) => (from, to) == (64, 256) ? 5 : null);
        Assert.Equal(256, clamped.NextEnd);
        Assert.Empty(saved.ClampTo(256, static (_, _) => 0).Leases);
        Assert.Equal([new SavedLease(64, 256, 0x5, 5, 0, 0)], clamped.Leases);
    }

    [Fact]
    public void Names_OfGroups_AreLowerCase()
    {
        Assert.Equal("offset/groups/a.b.group", StoreNames.Group("A.b"));
        Assert.Equal("offset/groups/a.b.saved", StoreNames.SavedGroup("A.b"));
        Assert.Equal("locks/group-a.b", StoreNames.GroupLock("A.b"));
    }

    [Fact]
    public void RecordAt_LastSingle_EndsTheFile()
    {
        Assert.Equal(GroupLayout.FileLength - 64, GroupLayout.RecordAt(GroupLayout.RangeCount + GroupLayout.SingleCount - 1));
        Assert.Equal(0x5055_4F52_4751_464DUL, BinaryPrimitives.ReadUInt64LittleEndian("MFQGROUP"u8));
    }
}
