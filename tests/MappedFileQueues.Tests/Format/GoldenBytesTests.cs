using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Format;

/// <summary>
/// The bytes of format version 2, byte for byte. Whoever makes this test fail has changed the format: stores that exist could not
/// be read any more, so a new version, or a feature bit, is needed, and docs/FORMAT.md with it.
/// </summary>
public sealed class GoldenBytesTests : IDisposable
{
    private readonly TempStore _temp = new();
    private readonly GoldenStore _store;

    public GoldenBytesTests() => _store = new GoldenStore(_temp.StorePath);

    public void Dispose()
    {
        _store.Dispose();
        _temp.Dispose();
    }

    /// <summary>MFQ_GOLDEN names a file that the dumps are written to, to be looked at, understood, and then copied.</summary>
    [Fact]
    public void Files_GoldenStore_HoldTheCheckedInBytes()
    {
        using MessageClaim claim = _store.Claim();
        var text = new StringBuilder();
        Dump(text, "queue.meta", Read("queue.meta"));
        Dump(text, "commitlog/00000000000000000000.log", Segment(0));
        Dump(text, "commitlog/00000000000000004096.log", Segment(4096));
        Dump(text, "offset/producer.checkpoint", Read("offset/producer.checkpoint"));
        Dump(text, "offset/consumer.cursor", Read("offset/consumer.cursor"));
        Dump(text, "offset/consumers/second.reader.cursor", Read("offset/consumers/second.reader.cursor"));
        Dump(text, "control, cold block", Read("control").AsSpan(0, 128));
        Dump(text, "locks/slots", Slots());
        if (Environment.GetEnvironmentVariable("MFQ_GOLDEN") is { Length: > 0 } path)
            File.WriteAllText(path, text.ToString());

        string golden = File.ReadAllText(Repository.PathOf("tests/MappedFileQueues.Tests/Format/GoldenBytes.txt"));

        Assert.Equal(golden, text.ToString());
    }

    [Fact]
    public void Files_GoldenStore_AreReadByAnIndependentReader()
    {
        using MessageClaim claim = _store.Claim();
        FormatTwo.Meta meta = FormatTwo.ReadMeta(Read("queue.meta"));
        Assert.Equal(
            new FormatTwo.Meta(
                2, GoldenStore.SegmentLength, 0, 0, meta.StoreId, meta.LogId, GoldenStore.Created.ToUnixTimeMilliseconds()),
            meta);
        Assert.Equal(GoldenStore.StoreId.ToByteArray(), meta.StoreId);
        Assert.Equal(meta.StoreId, meta.LogId);

        FormatTwo.Frame[] first = [.. FormatTwo.Walk(Segment(0), 0, meta.StoreId)];
        Assert.Equal([2, 2, 3, 4, 4, 2, 2, 4, 2, 2, 3], first.Select(frame => frame.State));
        Assert.Equal("Hello, MFQ!"u8, first[0].Payload);
        Assert.Empty(first[1].Payload);
        Assert.Equal([[1], [2, 2], [3, 3, 3]], first[3..6].Select(frame => frame.Payload));
        Assert.Equal("WriteOnly"u8, first[6].Payload);
        Assert.Equal([[4, 4, 4, 4], [5]], first[7..9].Select(frame => frame.Payload));
        Assert.Equal(GoldenStore.SegmentLength, first[^1].Offset + 8 + first[^1].Payload.Length);

        FormatTwo.Frame[] second = [.. FormatTwo.Walk(Segment(4096), 4096, meta.StoreId)];
        Assert.Equal([2, 1], second.Select(frame => frame.State));
        const uint slotZeroThirdTaker = 3;
        Assert.Equal(slotZeroThirdTaker, second[1].High);
        Assert.Equal(24, second[1].Payload.Length);

        FormatTwo.Checkpoint checkpoint = FormatTwo.ReadCheckpoint(Read("offset/producer.checkpoint"), meta.StoreId);
        Assert.Contains(checkpoint.Offset, first.Concat(second).Select(frame => frame.Offset));
        Assert.Equal(GoldenStore.BootId.ToByteArray(), checkpoint.BootId);
        Assert.Equal(first[2].Offset, FormatTwo.ReadCursor(Read("offset/consumer.cursor")));
        Assert.Equal(first[5].Offset, FormatTwo.ReadCursor(Read("offset/consumers/second.reader.cursor")));
        Assert.True(FormatTwo.IsColdBlockValid(Read("control"), meta.StoreId));
    }

    /// <summary>
    /// The independent reader must see damage, or it has shown nothing: one flipped bit anywhere in a frame.
    /// </summary>
    [Fact]
    public void IndependentReader_FlippedBit_Fails()
    {
        byte[] storeId = GoldenStore.StoreId.ToByteArray();
        foreach (int position in new[] { 0, 4, 8, 18 })
        {
            byte[] segment = Segment(0);
            segment[position] ^= 1;
            Assert.ThrowsAny<Exception>(() => FormatTwo.Walk(segment, 0, storeId).Count());
        }
    }

    private byte[] Read(string name) => File.ReadAllBytes(_temp.PathOf(name));

    private byte[] Segment(long start) =>
        Read(string.Create(CultureInfo.InvariantCulture, $"commitlog/{start:D20}.log"));

    /// <summary>Process id and start time differ from run to run; only the generation is part of the format's meaning.</summary>
    private byte[] Slots()
    {
        byte[] slots = Read("locks/slots");
        Assert.Equal(Environment.ProcessId, BitConverter.ToInt32(slots, 4));
        slots.AsSpan(4, 12).Clear();
        return slots;
    }

    /// <summary>Lines of 16 bytes with their place; a star stands for lines equal to the one before it.</summary>
    private static void Dump(StringBuilder text, string name, ReadOnlySpan<byte> bytes)
    {
        text.Append(CultureInfo.InvariantCulture, $"{name}, {bytes.Length} bytes\n");
        string before = "";
        bool isStarred = false;
        for (int at = 0; at < bytes.Length; at += 16)
        {
            string line = Convert.ToHexStringLower(bytes.Slice(at, Math.Min(16, bytes.Length - at)));
            if (line == before && at + 16 < bytes.Length)
            {
                text.Append(isStarred ? "" : "*\n");
                isStarred = true;
                continue;
            }

            text.Append(CultureInfo.InvariantCulture, $"{at:x6}  {line}\n");
            before = line;
            isStarred = false;
        }

        text.Append('\n');
    }
}
