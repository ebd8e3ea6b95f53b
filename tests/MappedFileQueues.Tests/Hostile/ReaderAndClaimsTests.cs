using System.Buffers.Binary;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// What a reader without a queue makes of bytes that look like a claim. The story: it decided by itself whether a claim's owner
/// was dead, and by the checkpoint as it stood when the reader was opened. One damaged header below what was durable since
/// then, which looked like the claim of a producer that is gone, made it step over ten flushed messages without a word.
/// </summary>
public sealed class ReaderAndClaimsTests : IDisposable
{
    private const int Count = 30;
    private const int Damaged = 12;

    /// <summary>How many messages the false claim seems to cover, its own included.</summary>
    private const int Covered = 10;

    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    [Theory]
    [InlineData("nobody", false)]
    [InlineData("nobody", true)]
    [InlineData("dead", false)]
    [InlineData("dead", true)]
    [InlineData("living", false)]
    [InlineData("living", true)]
    public void TryRead_DamageThatLooksLikeAClaim_BelowConfirmedIsNoClaim(string owner, bool portable)
    {
        PlatformScope.Use(portable);
        using MappedFileQueue queue = Open();
        // The slot of the queue's producers has had another generation before.
        queue.OpenProducer().Dispose();
        MappedFileReader reader = MappedFileReader.Open(_store.StorePath);
        MappedFileReader skipping = MappedFileReader.Open(_store.StorePath, default, CorruptionPolicy.SkipMessage);
        int skippedCount = 0;
        skipping.CorruptionSkipped += (_, _) => skippedCount++;
        using MappedFileProducer producer = queue.OpenProducer();
        long[] offsets = [.. Enumerable.Range(0, Count).Select(i => producer.Produce([(byte)i, 1, 2, 3]))];
        queue.Flush();
        Damage(offsets[Damaged], offsets[Damaged + Covered], owner);

        for (int i = 0; i < Damaged; i++)
            Assert.Equal(i, Next(reader));
        for (int look = 0; look < 2; look++)
            Assert.Equal(offsets[Damaged], Assert.Throws<QueueCorruptException>(() => reader.TryRead(out _)).Offset);
        Assert.Equal(
            Enumerable.Range(0, Count).Where(i => i != Damaged), Enumerable.Range(1, Count - 1).Select(_ => Next(skipping)));
        Assert.Equal(1, skippedCount);
        reader.Dispose();
        skipping.Dispose();
    }

    /// <summary>
    /// What nobody ever claimed is damage wherever it is; a dead one's claim above the durable offset is stepped over.
    /// </summary>
    [Theory]
    [InlineData("nobody", false)]
    [InlineData("dead", true)]
    public void TryRead_AClaimAboveConfirmed_IsJudgedByItsOwner(string owner, bool stepsOver)
    {
        PlatformScope.Use(portable: false);
        using MappedFileQueue queue = Open();
        queue.OpenProducer().Dispose();
        using MappedFileProducer producer = queue.OpenProducer();
        long[] offsets = [.. Enumerable.Range(0, Count).Select(i => producer.Produce([(byte)i, 1, 2, 3]))];
        Damage(offsets[0], offsets[Covered], owner);

        using MappedFileReader reader = MappedFileReader.Open(_store.StorePath);
        if (stepsOver)
            Assert.Equal(Covered, Next(reader));
        else
            Assert.Equal(offsets[0], Assert.Throws<QueueCorruptException>(() => reader.TryRead(out _)).Offset);
    }

    private static int Next(MappedFileReader reader)
    {
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
        return message[0];
    }

    private MappedFileQueue Open() => new(new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        SegmentSize = 64 * 1024,
        Durability = DurabilityLevel.PageCache,
    });

    /// <summary>Writes a claim over a header; the first slot is that of the queue, in its second generation.</summary>
    private void Damage(long offset, long end, string owner)
    {
        uint claimant = owner switch
        {
            "nobody" => SlotLayout.Owner(4000, 7),
            "dead" => SlotLayout.Owner(0, 1),
            _ => SlotLayout.Owner(0, 2),
        };
        byte[] header = new byte[8];
        int length = (int)(end - offset) - FrameHeader.Size;
        BinaryPrimitives.WriteUInt64LittleEndian(
            header, FrameHeader.Make(FrameHeader.LowHalf(length, FrameState.Claimed), claimant));
        using FileStream segment = new(
            _store.PathOf(StoreNames.Segment(0)), FileMode.Open, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete);
        segment.Position = offset;
        segment.Write(header);
    }
}
