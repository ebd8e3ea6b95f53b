using System.Text;
using MemoryPack;

namespace MappedFileQueues.Tests.Queues.Serializers;

/// <summary>Messages of MemoryPack through a queue.</summary>
public sealed class MemoryPackMessageSerializerTests()
    : ParcelSerializerContract<MemoryPackMessageSerializer<Parcel>, MemoryPackSerializationException>(new())
{
    protected override byte[] Null => [255];

    protected override byte[] TooMany => [6, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 127];

    [Fact]
    public void Options_Utf16_StringsAreWrittenSo()
    {
        var serializer = new MemoryPackMessageSerializer<Parcel>(MemoryPackSerializerOptions.Utf16);
        var parcel = new Parcel { Text = "Ümlaut" };
        ReadOnlySpan<byte> bytes = serializer.Serialize(parcel);
        Assert.True(bytes.IndexOf(Encoding.Unicode.GetBytes("Ümlaut")) > 0);
        Assert.Equal(parcel.ToString(), serializer.Deserialize(bytes).ToString());
    }

    [Fact]
    public void Message_OfACycle_ThrowsAndNothingIsAppended()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        var cycle = new Parcel();
        cycle.Inner = cycle;
        long tail = queue.Producer.Offset;
        Assert.Throws<MemoryPackSerializationException>(
            () => queue.Producer.Produce(cycle, new MemoryPackMessageSerializer<Parcel>()));
        Assert.Equal(tail, queue.Producer.Offset);
    }

    [Fact]
    public void Read_Number_AllocatesNothing()
    {
        var serializer = new MemoryPackMessageSerializer<long>();
        byte[] bytes = serializer.Serialize(1L << 40).ToArray();
        Assert.Equal(1L << 40, serializer.Deserialize(bytes));
        AssertAllocatesNothing(() => serializer.Deserialize(bytes));
    }
}
