using System.Buffers.Binary;
using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>Meta pages that cannot be used, and control pages that can be made anew.</summary>
public sealed class DamagedStoreTests : IDisposable
{
    private const int VersionAt = 8;
    private const int CompatibleAt = 16;
    private const int IncompatibleAt = 24;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Open_UnknownVersion_IsRefused()
    {
        Refusal.MakeStore(_temp.StorePath);
        ChangeMeta(bytes => bytes[VersionAt] = 3);
        RefusedByAll("version=3");
    }

    [Fact]
    public void Open_UnknownIncompatibleFeature_IsRefused()
    {
        Refusal.MakeStore(_temp.StorePath);
        ChangeMeta(bytes => bytes[IncompatibleAt + 7] = 0x80);
        RefusedByAll("features=0x8000000000000000");
    }

    [Fact]
    public void Open_UnknownCompatibleFeature_Opens()
    {
        Refusal.MakeStore(_temp.StorePath);
        ChangeMeta(bytes => bytes[CompatibleAt] = 0xFF);
        Refusal.Attach(_temp.StorePath);
        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    [Theory]
    [InlineData(0, "length=4096")]
    [InlineData(8, "checksum=")]
    [InlineData(2000, "checksum=")]
    [InlineData(4095, "checksum=")]
    public void Open_DamagedMetaPage_IsRefused(int position, string inMessage)
    {
        Refusal.MakeStore(_temp.StorePath);
        byte[] bytes = File.ReadAllBytes(_temp.PathOf("queue.meta"));
        bytes[position] ^= 4;
        File.WriteAllBytes(_temp.PathOf("queue.meta"), bytes);
        RefusedByAll(inMessage);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(4095)]
    [InlineData(4097)]
    public void Open_MetaPageOfAnotherLength_IsRefused(int length)
    {
        Refusal.MakeStore(_temp.StorePath);
        byte[] bytes = File.ReadAllBytes(_temp.PathOf("queue.meta"));
        Array.Resize(ref bytes, length);
        File.WriteAllBytes(_temp.PathOf("queue.meta"), bytes);
        RefusedByAll($"length={length}");
    }

    [Fact]
    public void Open_ImpossibleGeometry_IsRefused()
    {
        Refusal.MakeStore(_temp.StorePath);
        ChangeMeta(bytes => BinaryPrimitives.WriteInt64LittleEndian(bytes.AsSpan(32), 4097));
        RefusedByAll("segmentLength=4097");
    }

    /// <summary>
    /// A new store's checkpoint once named no boot. When its control page was damaged too, opening took that for a power loss,
    /// which nothing after a dead producer's claim survives: one damaged byte of a page that is to hold nothing of value cut
    /// the log off there.
    /// </summary>
    [Theory]
    [InlineData("flip")]
    [InlineData("zero")]
    [InlineData("truncate")]
    [InlineData("remove")]
    public void Open_DamagedControlOfAStoreThatWasNeverFlushed_LosesNothing(string damage)
    {
        MappedFileQueueOptions options = Refusal.Options(_temp.StorePath);
        options.Durability = DurabilityLevel.PageCache;
        long claimed;
        using (MappedFileQueue queue = new(options))
        {
            queue.Producer.Produce([1]);
            claimed = queue.Producer.Produce([2]);
            queue.Producer.Produce([3]);
        }

        using (var words = new StoreWords(_temp.StorePath))
        {
            ulong claim = FrameHeader.Make(FrameHeader.LowHalf(1, FrameState.Claimed), SlotLayout.Owner(7, 3));
            words.WriteAt(claimed, BitConverter.GetBytes(claim));
        }

        string path = _temp.PathOf("control");
        byte[] bytes = File.ReadAllBytes(path);
        if (damage == "flip")
            bytes[30] ^= 1;
        else if (damage == "zero")
            Array.Clear(bytes);
        else
            Array.Resize(ref bytes, 100);
        File.WriteAllBytes(path, bytes);
        if (damage == "remove")
            File.Delete(path);

        Refusal.Attach(_temp.StorePath);

        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        Assert.True(reader.TryRead(out ReadOnlySpan<byte> message) && message[0] == 1);
        Assert.True(reader.TryRead(out message) && message[0] == 3);
        Assert.False(Directory.Exists(_temp.PathOf("salvage")));
    }

    /// <summary>
    /// After a power loss that took nothing away from a store of one segment, recovery wanted to flush a salvage folder that
    /// nobody had made, and the store could not be opened any more.
    /// </summary>
    [Fact]
    public void Open_AfterACutThatTookNothing_Opens()
    {
        Refusal.MakeStore(_temp.StorePath);
        foreach (string spare in Directory.EnumerateFiles(_temp.PathOf("commitlog")).Order(StringComparer.Ordinal).Skip(1))
            File.Delete(spare);
        MoveToEarlierBoot();

        using (MappedFileQueue queue = new(Refusal.Options(_temp.StorePath)))
        {
            Assert.Equal(1, queue.GetInfo().Epoch);
            queue.Producer.Produce([1, 2, 3, 3]);
        }

        Assert.Equal(4, Refusal.CountMessages(_temp.StorePath));
        Assert.False(Directory.Exists(_temp.PathOf("salvage")));
    }

    /// <summary>Earlier versions wrote messages without checksums: states 5 and 6, with a high half of zero.</summary>
    [Theory]
    [InlineData(5)]
    [InlineData(6)]
    public void Read_StateOfAnEarlierVersion_IsCorrupt(uint state)
    {
        Refusal.MakeStore(_temp.StorePath);
        using (var words = new StoreWords(_temp.StorePath))
            words.WriteAt(0, BitConverter.GetBytes((ulong)FrameHeader.LowHalf(4, (FrameState)state)));

        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        Assert.Throws<QueueCorruptException>(() => reader.TryRead(out _));
        using MappedFileQueue queue = new(Refusal.Options(_temp.StorePath));
        Assert.Throws<QueueCorruptException>(() => queue.Consumer.TryConsume(out ReadOnlySpan<byte> _));
    }

    /// <summary>
    /// The first offset was taken from the segments that stand in a row before the tail, also when the control page knew
    /// better: a segment that is missing in the middle then hid all the whole ones before it.
    /// </summary>
    [Fact]
    public void Open_SegmentMissingBelowTheCheckpoint_ConsumerReadsUpToIt()
    {
        MappedFileQueueOptions options = new() { StorePath = _temp.StorePath, SegmentSize = 4096 };
        using (MappedFileQueue queue = new(options))
        {
            for (int i = 0; i < 12; i++)
                queue.Producer.Produce(new byte[1000]);
            queue.Flush();
        }

        File.Delete(_temp.PathOf("commitlog", "00000000000000004096.log"));

        using MappedFileQueue again = new(options);
        for (int i = 0; i < 4; i++)
        {
            Assert.True(again.Consumer.TryConsume(out ReadOnlySpan<byte> _));
            again.Consumer.Commit();
        }

        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => again.Consumer.TryConsume(out _));
        Assert.Equal(4096, error.Offset);
        Assert.Equal(4096, again.Consumer.Offset);
    }

    /// <summary>Copies of a store often lack empty folders, and the one that holds nothing but locks.</summary>
    [Fact]
    public void Open_WithoutLocksFolder_Opens()
    {
        Refusal.MakeStore(_temp.StorePath);
        Directory.Delete(_temp.PathOf("locks"), recursive: true);
        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
        Refusal.Attach(_temp.StorePath);
        Assert.Equal(3, Refusal.CountMessages(_temp.StorePath));
    }

    private void MoveToEarlierBoot()
    {
        using HeldDirectory directory =
            CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        StoreMeta meta = StoreMetaFile.Read(directory)!;
        using ControlPage control = ControlPage.Open(directory);
        control.BootId = new Guid("00000000-0000-4000-8000-00000000beef");
        control.SealColdBlock(meta.StoreId);
    }

    private void ChangeMeta(Action<byte[]> change)
    {
        byte[] bytes = File.ReadAllBytes(_temp.PathOf("queue.meta"));
        change(bytes);
        BinaryPrimitives.WriteUInt32LittleEndian(
            bytes.AsSpan(StoreMeta.Length - 4), Crc32C.Compute(bytes.AsSpan(0, StoreMeta.Length - 4)));
        File.WriteAllBytes(_temp.PathOf("queue.meta"), bytes);
    }

    private void RefusedByAll(string inMessage)
    {
        string meta = _temp.PathOf("queue.meta");
        Refusal.Of<QueueFormatException>(_temp, meta, () => Refusal.Attach(_temp.StorePath), inMessage);
        Refusal.Of<QueueFormatException>(
            _temp, meta, () => new MappedFileQueue<long>(Refusal.Options(_temp.StorePath)).Dispose(), inMessage);
        Refusal.Of<QueueFormatException>(_temp, meta, () => Refusal.Read(_temp.StorePath), inMessage);
        Refusal.Of<QueueFormatException>(_temp, meta, () => StoreInspector.Inspect(_temp.StorePath), inMessage);
        Refusal.Of<QueueFormatException>(_temp, meta, () => MappedFileQueue.Delete(_temp.StorePath), inMessage);
    }
}
