using System.Buffers.Binary;

namespace MappedFileQueues.Tests.Format;

/// <summary>
/// Format version 2 once more, written from docs/FORMAT.md alone: it shares no code with the library, not even the checksum,
/// so that page and library can be held against each other.
/// </summary>
internal static class FormatTwo
{
    /// <summary>CRC-32C bit by bit, reflected, without the final inversion.</summary>
    public static uint Crc(uint crc, ReadOnlySpan<byte> bytes)
    {
        foreach (byte value in bytes)
        {
            crc ^= value;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F6_3B78 : crc >> 1;
        }

        return crc;
    }

    /// <summary>The finished checksum of pages and records.</summary>
    public static uint PageCrc(ReadOnlySpan<byte> bytes) => ~Crc(0xFFFF_FFFF, bytes);

    /// <summary>
    /// The checksum of a frame: log id, then the word of offset and low half, then the payload filled up with zeros.
    /// </summary>
    public static uint FrameCrc(ReadOnlySpan<byte> logId, long offset, uint low, ReadOnlySpan<byte> payload)
    {
        byte[] first = new byte[8];
        BinaryPrimitives.WriteUInt64LittleEndian(first, ((ulong)offset / 8) ^ ((ulong)low << 32));
        byte[] filled = new byte[(payload.Length + 7) / 8 * 8];
        payload.CopyTo(filled);
        return Crc(Crc(Crc(0xFFFF_FFFF, logId), first), filled);
    }

    /// <summary>Reads the meta page.</summary>
    public static Meta ReadMeta(ReadOnlySpan<byte> page)
    {
        Assert.Equal(4096, page.Length);
        Assert.Equal("MFQSTORE"u8, page[..8]);
        Assert.Equal(PageCrc(page[..4092]), BinaryPrimitives.ReadUInt32LittleEndian(page[4092..]));
        Assert.Equal(2u, BinaryPrimitives.ReadUInt32LittleEndian(page[8..]));
        ulong features = BinaryPrimitives.ReadUInt64LittleEndian(page[24..]);
        Assert.InRange(features, 0ul, 3ul);
        return new Meta(
            BinaryPrimitives.ReadInt32LittleEndian(page[12..]),
            BinaryPrimitives.ReadInt64LittleEndian(page[32..]),
            BinaryPrimitives.ReadInt32LittleEndian(page[40..]),
            BinaryPrimitives.ReadUInt64LittleEndian(page[48..]),
            page.Slice(56, 16).ToArray(),
            page.Slice((features & 1) == 1 ? 80 : 56, 16).ToArray(),
            BinaryPrimitives.ReadInt64LittleEndian(page[72..]));
    }

    /// <summary>Walks one segment to its first free header, or to its end.</summary>
    public static IEnumerable<Frame> Walk(byte[] segment, long start, byte[] logId)
    {
        for (int position = 0; position < segment.Length;)
        {
            ulong header = BinaryPrimitives.ReadUInt64LittleEndian(segment.AsSpan(position));
            if (header == 0)
                yield break;
            uint low = (uint)header;
            uint high = (uint)(header >> 32);
            int length = (int)(low & 0x0FFF_FFFF);
            int state = (int)(low >> 28) & 7;
            Assert.InRange(state, 1, 4);
            bool isExtended = low >> 31 != 0;
            Assert.True(!isExtended || state is 2 or 4);
            Assert.InRange(position + 8 + length, 8, segment.Length);
            byte[] payload = segment.AsSpan(position + 8, length).ToArray();
            uint expected = state switch
            {
                2 or 4 => FrameCrc(logId, start + position, low, payload),
                3 => FrameCrc(logId, start + position, low, []),
                _ => high,
            };
            Assert.Equal(expected, high);
            int block = isExtended ? payload[0] * 8 : 0;
            yield return new Frame(start + position, state, high, payload[block..]) { Block = ReadBlock(payload[..block]) };
            position += (8 + length + 7) / 8 * 8;
        }
    }

    /// <summary>Reads a header block.</summary>
    public static Block? ReadBlock(ReadOnlySpan<byte> block)
    {
        if (block.IsEmpty)
            return null;
        Assert.Equal(block.Length, block[0] * 8);
        Assert.Equal(0, block[1]);
        int fields = BinaryPrimitives.ReadUInt16LittleEndian(block[2..]);
        int keyLength = BinaryPrimitives.ReadUInt16LittleEndian(block[4..]);
        int stateLength = BinaryPrimitives.ReadUInt16LittleEndian(block[6..]);
        int at = 8;
        long? time = null;
        ulong? producer = null, sequence = null;
        byte[] trace = [];
        if ((fields & 1) != 0)
        {
            time = BinaryPrimitives.ReadInt64LittleEndian(block[at..]);
            at += 8;
        }

        if ((fields & 6) != 0)
        {
            Assert.NotEqual(6, fields & 6);
            producer = BinaryPrimitives.ReadUInt64LittleEndian(block[at..]);
            sequence = BinaryPrimitives.ReadUInt64LittleEndian(block[(at + 8)..]);
            at += 16;
        }

        if ((fields & 8) != 0)
        {
            trace = block.Slice(at, 25).ToArray();
            Assert.Equal(new byte[7], block.Slice(at + 25, 7));
            at += 32;
        }

        string state = System.Text.Encoding.ASCII.GetString(block.Slice(at, stateLength));
        Assert.Equal(-1, block[(at + stateLength)..(at += (stateLength + 7) / 8 * 8)].IndexOfAnyExcept((byte)0));
        byte[] key = block.Slice(at, keyLength).ToArray();
        Assert.Equal(-1, block[(at + keyLength)..(at + ((keyLength + 7) / 8 * 8))].IndexOfAnyExcept((byte)0));
        return new Block(time, producer, sequence, (fields & 4) != 0, trace, state, key);
    }

    /// <summary>The slot that counts.</summary>
    public static Checkpoint ReadCheckpoint(ReadOnlySpan<byte> file, byte[] storeId)
    {
        Checkpoint? newest = null;
        foreach (int at in new[] { 0, 4096 })
        {
            ReadOnlySpan<byte> slot = file.Slice(at, 64);
            bool isValid = BinaryPrimitives.ReadUInt32LittleEndian(slot[60..]) == PageCrc(slot[..60])
                && slot.Slice(40, 16).SequenceEqual(storeId);
            long sequence = BinaryPrimitives.ReadInt64LittleEndian(slot[16..]);
            if (!isValid || sequence <= (newest?.Sequence ?? -1))
                continue;
            Assert.Equal(at, (int)(sequence % 2) * 4096);
            newest = new Checkpoint(
                BinaryPrimitives.ReadInt64LittleEndian(slot),
                BinaryPrimitives.ReadInt64LittleEndian(slot[8..]),
                sequence,
                slot.Slice(24, 16).ToArray());
        }

        return newest!;
    }

    /// <summary>Whether the cold block of a control page, with its four words outside, is what somebody sealed.</summary>
    public static bool IsColdBlockValid(ReadOnlySpan<byte> control, ReadOnlySpan<byte> storeId)
    {
        byte[] covered =
        [
            .. control[..48], .. control.Slice(768, 8), .. control.Slice(1024, 8), .. control.Slice(1920, 8),
            .. control.Slice(64, 8),
        ];
        return control[..8].SequenceEqual("MFQCTRL2"u8)
            && control.Slice(8, 16).SequenceEqual(storeId)
            && BinaryPrimitives.ReadUInt32LittleEndian(control[48..]) == PageCrc(covered);
    }

    /// <summary>A cursor's offset; -1 while the consumer is new.</summary>
    public static long ReadCursor(ReadOnlySpan<byte> file)
    {
        if (file[..8].SequenceEqual("MFQ-NONE"u8))
            return -1;
        ulong word = BinaryPrimitives.ReadUInt64LittleEndian(file);
        ulong low = word & ((1UL << 57) - 1);
        return low % 8 == 1 && unchecked(low * 0xD502_9C1D_890D_25FB) >> 57 == word >> 57
            ? (long)low - 1
            : throw new InvalidDataException($"0x{word:X16}");
    }

    public sealed record Meta(
        int Kind, long SegmentLength, int StructSize, ulong Fingerprint, byte[] StoreId, byte[] LogId, long Created);

    public sealed record Frame(long Offset, int State, uint High, byte[] Payload)
    {
        /// <summary>What the header block says; null without one.</summary>
        public Block? Block { get; init; }
    }

    public sealed record Block(
        long? Time, ulong? ProducerId, ulong? Sequence, bool IsCarried, byte[] Trace, string TraceState, byte[] Key);

    public sealed record Checkpoint(long Offset, long Epoch, long Sequence, byte[] BootId);
}
