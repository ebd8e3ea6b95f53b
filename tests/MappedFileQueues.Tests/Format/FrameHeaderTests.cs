using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Format;

public sealed class FrameHeaderTests
{
    private const int SegmentLength = 4096;

    [Theory]
    [InlineData(0, 8)]
    [InlineData(1, 16)]
    [InlineData(8, 16)]
    [InlineData(9, 24)]
    [InlineData(4088, 4096)]
    [InlineData(FrameHeader.PayloadLengthMax, 1L << 28)]
    [InlineData(0x0FFF_FFFF, (1L << 28) + 8)]
    public void FrameLength_PayloadLength_IsHeaderAndPayloadRoundedUpTo8(int payloadLength, long expected) =>
        Assert.Equal(expected, FrameHeader.FrameLength(payloadLength));

    [Theory]
    [InlineData(4096, 4088)]
    [InlineData(1L << 28, (1 << 28) - 8)]
    [InlineData(1L << 40, (1 << 28) - 8)]
    public void PayloadLimit_SegmentLength_LeavesRoomForTheHeaderAndFits28Bits(long segmentLength, int expected) =>
        Assert.Equal(expected, FrameHeader.PayloadLimit(segmentLength));

    [Fact]
    public void Make_EachState_GivesBackItsParts()
    {
        foreach (FrameState state in Enum.GetValues<FrameState>())
        {
            foreach (int length in new[] { 0, 1, 0x0FFF_FFFF })
            {
                ulong header = FrameHeader.Make(FrameHeader.LowHalf(length, state), 0xDEAD_BEEF);
                Assert.Equal(length, FrameHeader.Length(header));
                Assert.Equal(state, FrameHeader.State(header));
                Assert.Equal(0xDEAD_BEEFu, FrameHeader.HighHalf(header));
            }
        }
    }

    [Theory]
    [InlineData(FrameState.Free, false)]
    [InlineData(FrameState.Claimed, false)]
    [InlineData(FrameState.Published, true)]
    [InlineData(FrameState.Padding, false)]
    [InlineData(FrameState.PublishedInBatch, true)]
    [InlineData((FrameState)5, false)]
    [InlineData((FrameState)6, false)]
    [InlineData((FrameState)7, false)]
    internal void IsMessage_State_SaysWhetherItIsOne(FrameState state, bool isMessage) =>
        Assert.Equal(isMessage, FrameHeader.IsMessage(state));

    [Theory]
    [InlineData(FrameState.Claimed, 4088, 7u, true)]
    [InlineData(FrameState.Published, 4088, 7u, true)]
    [InlineData(FrameState.Padding, 0, 7u, true)]
    [InlineData(FrameState.PublishedInBatch, 0, 0u, true)]
    [InlineData(FrameState.Free, 1, 0u, false)]
    [InlineData(FrameState.Free, 0, 7u, false)]
    [InlineData((FrameState)5, 8, 0u, false)]
    [InlineData((FrameState)6, 8, 0u, false)]
    [InlineData((FrameState)7, 8, 0u, false)]
    [InlineData(FrameState.Published, 4089, 7u, false)]
    [InlineData(FrameState.Claimed, 0x0FFF_FFFF, 7u, false)]
    internal void IsPlausible_Header_OnlyWhatSomebodyCanHaveWritten(FrameState state, int length, uint high, bool expected)
    {
        ulong header = FrameHeader.Make(FrameHeader.LowHalf(length, state), high);
        Assert.Equal(expected, FrameHeader.IsPlausible(header, SegmentLength));
        // Only messages have header blocks.
        Assert.Equal(
            expected && FrameHeader.IsMessage(state), FrameHeader.IsPlausible(header | FrameHeader.Extended, SegmentLength));
    }

    [Fact]
    public void IsPlausible_NoRoom_IsFalse() =>
        Assert.False(FrameHeader.IsPlausible(FrameHeader.LowHalf(0, FrameState.Published), 7));
}
