using System.Buffers.Binary;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Format;

public sealed class FrameChecksumTests
{
    private readonly FrameChecksum _checksum = new(GoldenStore.StoreId);

    /// <summary>The worked example of docs/FORMAT.md.</summary>
    [Fact]
    public void Begin_WorkedExample_IsAsTheDocumentSays()
    {
        byte[] payload = "Hello, MFQ!"u8.ToArray();
        uint low = FrameHeader.LowHalf(payload.Length, FrameState.Published);
        Assert.Equal(0x2000_000Bu, low);
        uint crc = FormatTwo.FrameCrc(GoldenStore.StoreId.ToByteArray(), 0, low, payload);
        string page = File.ReadAllText(Repository.PathOf("docs/FORMAT.md"));
        Assert.Contains($"0x{crc:x8}", page, StringComparison.Ordinal);
        Assert.True(_checksum.Matches(FrameHeader.Make(low, crc), 0, ref payload[0]));
    }

    /// <summary>
    /// Every length around the unrolled loop's and the tail's edges, and offsets on both sides of the fold at 2^35.
    /// </summary>
    [Fact]
    public void Matches_ManyLengthsAndOffsets_AgreesWithTheIndependentChecksum()
    {
        byte[] bytes = new byte[300];
        new Random(7).NextBytes(bytes);
        foreach (long offset in new[] { 0, 8, 4096, 1L << 34, (1L << 35) + 8, (1L << 45) - 8, long.MaxValue - 7 })
        {
            for (int length = 0; length < bytes.Length; length++)
            {
                uint low = FrameHeader.LowHalf(length, FrameState.PublishedInBatch);
                uint crc = FormatTwo.FrameCrc(GoldenStore.StoreId.ToByteArray(), offset, low, bytes.AsSpan(0, length));
                Assert.True(_checksum.Matches(FrameHeader.Make(low, crc), offset, ref bytes[0]));
            }
        }
    }

    [Fact]
    public void Matches_AnythingElseChanged_IsFalse()
    {
        byte[] payload = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        uint low = FrameHeader.LowHalf(payload.Length, FrameState.Published);
        uint crc = FormatTwo.FrameCrc(GoldenStore.StoreId.ToByteArray(), 64, low, payload);
        ulong header = FrameHeader.Make(low, crc);
        Assert.True(_checksum.Matches(header, 64, ref payload[0]));
        Assert.False(_checksum.Matches(header, 72, ref payload[0]));
        Assert.False(_checksum.Matches(header, 64 + (1L << 35), ref payload[0]));
        Assert.False(_checksum.Matches(header ^ (1UL << 40), 64, ref payload[0]));
        ulong asBatch = FrameHeader.Make(FrameHeader.LowHalf(payload.Length, FrameState.PublishedInBatch), crc);
        Assert.False(_checksum.Matches(asBatch, 64, ref payload[0]));
        Assert.False(new FrameChecksum(Guid.Empty).Matches(header, 64, ref payload[0]));
        payload[8] ^= 1;
        Assert.False(_checksum.Matches(header, 64, ref payload[0]));
    }

    [Theory]
    [InlineData(8)]
    [InlineData(320)]
    [InlineData(1L << 28)]
    public void PaddingHeader_Length_CoversTheFrameWithoutItsPayload(long frameLength)
    {
        ulong header = _checksum.PaddingHeader(4096, frameLength);
        Assert.Equal(FrameState.Padding, FrameHeader.State(header));
        Assert.Equal(frameLength, FrameHeader.FrameLength(FrameHeader.Length(header)));
        Assert.Equal(FormatTwo.FrameCrc(GoldenStore.StoreId.ToByteArray(), 4096, (uint)header, []), FrameHeader.HighHalf(header));
        byte anything = 0x77;
        Assert.True(_checksum.Matches(header, 4096, ref anything));
        Assert.False(_checksum.Matches(header, 4104, ref anything));
    }

    [Fact]
    public void PaddingHeader_LongerThanAnyFrame_Throws() =>
        Assert.Throws<ArgumentOutOfRangeException>(() => _checksum.PaddingHeader(4096, (1L << 28) + 8));

    /// <summary>The id's bytes are hashed in the order in which they lie in the meta page.</summary>
    [Fact]
    public void StoreId_InMetaPage_HasTheOrderThatIsHashed()
    {
        byte[] page = new StoreMeta(StoreKind.Messages, 4096, 0, 0, GoldenStore.StoreId, GoldenStore.Created).ToBytes();
        Assert.Equal(GoldenStore.StoreId.ToByteArray(), page.AsSpan(56, 16));
        Assert.Equal(0x0011_2233u, BinaryPrimitives.ReadUInt32LittleEndian(page.AsSpan(56)));
    }
}
