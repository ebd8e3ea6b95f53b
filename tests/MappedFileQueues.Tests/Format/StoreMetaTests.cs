using System.Buffers.Binary;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tests.Format;

public sealed class StoreMetaTests
{
    private static readonly StoreMeta s_meta = new(
        StoreKind.Struct, 1L << 40, 24, 0x0123_4567_89AB_CDEF, GoldenStore.StoreId, GoldenStore.Created);

    [Fact]
    public void Parse_WhatWasWritten_GivesItBack()
    {
        Assert.Equal(s_meta, StoreMeta.Parse(s_meta.ToBytes(), "queue.meta"));
        FormatTwo.Meta other = FormatTwo.ReadMeta(s_meta.ToBytes());
        Assert.Equal(
            (1, 1L << 40, 24, 0x0123_4567_89AB_CDEFul), (other.Kind, other.SegmentLength, other.StructSize, other.Fingerprint));
    }

    [Fact]
    public void Parse_LogWithAnIdOfItsOwn_GivesItBackAndTellsOlderReaders()
    {
        StoreMeta snapshot = s_meta with { StoreId = Guid.NewGuid() };

        Assert.Equal((s_meta.StoreId, s_meta.StoreId), (s_meta.LogId, snapshot.LogId));
        Assert.Equal(snapshot, StoreMeta.Parse(snapshot.ToBytes(), "queue.meta"));
        FormatTwo.Meta other = FormatTwo.ReadMeta(snapshot.ToBytes());
        Assert.Equal((snapshot.StoreId, snapshot.LogId), (new Guid(other.StoreId), new Guid(other.LogId)));
        // They know no bit, and refuse the store.
        Assert.Equal(3, snapshot.ToBytes()[24]);
        Assert.Equal(2, s_meta.ToBytes()[24]);
    }

    /// <summary>Stores of builds before the first release have no feature bit.</summary>
    [Fact]
    public void Parse_WithoutTheBitForHeaders_IsRead()
    {
        byte[] bytes = s_meta.ToBytes();
        bytes[24] = 0;
        Crc32C.Seal(bytes);

        Assert.Equal(s_meta, StoreMeta.Parse(bytes, "queue.meta"));
    }

    [Fact]
    public void Parse_AnyFlippedBit_IsRefused()
    {
        byte[] bytes = s_meta.ToBytes();
        for (int position = 0; position < bytes.Length; position++)
        {
            bytes[position] ^= (byte)(1 << (position % 8));
            Assert.Throws<QueueFormatException>(() => StoreMeta.Parse(bytes, "queue.meta"));
            bytes[position] ^= (byte)(1 << (position % 8));
        }

        Assert.Equal(s_meta, StoreMeta.Parse(bytes, "queue.meta"));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(4095)]
    [InlineData(4097)]
    public void Parse_AnotherLength_IsRefused(int length)
    {
        byte[] bytes = s_meta.ToBytes();
        Array.Resize(ref bytes, length);
        Assert.Throws<QueueFormatException>(() => StoreMeta.Parse(bytes, "queue.meta"));
    }

    /// <summary>A right checksum is no excuse for a wrong value.</summary>
    [Theory]
    [InlineData(8, 1L, "version=1")]
    [InlineData(12, 3L, "kind=3")]
    [InlineData(24, 4L, "features=0x4")]
    [InlineData(32, 0L, "segmentLength=0")]
    [InlineData(32, 4097L, "segmentLength=4097")]
    [InlineData(32, (1L << 40) + 4096, "segmentLength=")]
    [InlineData(32, -4096L, "segmentLength=-4096")]
    [InlineData(40, 0x8000_0000L, "structSize=-2147483648")]
    public void Parse_ImpossibleValue_IsRefused(int position, long value, string inMessage)
    {
        byte[] bytes = s_meta.ToBytes();
        int length = position is 8 or 12 or 40 ? 4 : 8;
        BitConverter.GetBytes(value).AsSpan(0, length).CopyTo(bytes.AsSpan(position));
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(4092), FormatTwo.PageCrc(bytes.AsSpan(0, 4092)));
        QueueFormatException error = Assert.Throws<QueueFormatException>(() => StoreMeta.Parse(bytes, "queue.meta"));
        Assert.Contains(inMessage, error.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(long.MinValue)]
    [InlineData(long.MaxValue)]
    public void Parse_ImpossibleTime_IsTakenAsTheNearestPossible(long milliseconds)
    {
        byte[] bytes = s_meta.ToBytes();
        BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(72), milliseconds);
        BinaryPrimitives.WriteUInt32LittleEndian(bytes.AsSpan(4092), FormatTwo.PageCrc(bytes.AsSpan(0, 4092)));
        Assert.Equal(s_meta with { Created = default }, StoreMeta.Parse(bytes, "queue.meta") with { Created = default });
    }
}
