using System.Buffers;
using MessagePack;
using MessagePack.Resolvers;

namespace MappedFileQueues.Tests.Queues.Serializers;

/// <summary>Messages of MessagePack through a queue.</summary>
public sealed class MessagePackMessageSerializerTests()
    : ParcelSerializerContract<MessagePackMessageSerializer<Parcel>, MessagePackSerializationException>(new())
{
    protected override byte[] Null => [0xc0];

    protected override byte[] TooMany => [0x96, 0x01, 0xc0, 0xc0, 0xdd, 0x7f, 0xff, 0xff, 0xff];

    /// <summary>With the package's own default, a message of 200 kB ended the process that read it.</summary>
    [Fact]
    public void Message_NestedTooDeep_ThrowsAndTheProcessLives()
    {
        byte[] deep = [.. Enumerable.Repeat<byte[]>([0x96, 0x01, 0xc0, 0xc0, 0xc0, 0xc0], 100_000).SelectMany(one => one), 0xc0];
        Assert.Throws<MessagePackSerializationException>(
            () => new MessagePackMessageSerializer<Parcel>().Deserialize(deep));
    }

    [Fact]
    public void Options_Compressing_MessageIsSmallAndComesBackEqual()
    {
        MessagePackSerializerOptions options =
            MessagePackSerializerOptions.Standard.WithCompression(MessagePackCompression.Lz4BlockArray);
        var serializer = new MessagePackMessageSerializer<Parcel>(options);
        var destination = new ArrayBufferWriter<byte>();
        serializer.Serialize(Parcel.Make(1, 1_000), destination);
        Assert.InRange(
            destination.WrittenCount, 1, new MessagePackMessageSerializer<Parcel>().Serialize(Parcel.Make(1, 1_000)).Length / 2);
        Assert.Equal(Parcel.Make(1, 1_000).ToString(), serializer.Deserialize(destination.WrittenSpan).ToString());
        Parcel parcel = Parcel.Make(1, 1_000);
        AssertAllocatesNothing(() =>
        {
            destination.ResetWrittenCount();
            serializer.Serialize(parcel, destination);
        });
    }

    [Fact]
    public void Options_TypeIsUnknownToThem_ThrowsAndNothingIsAppended()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        long tail = queue.Producer.Offset;
        var serializer = new MessagePackMessageSerializer<Parcel>(
            MessagePackSerializerOptions.Standard.WithResolver(BuiltinResolver.Instance));
        Assert.Throws<MessagePackSerializationException>(() => queue.Producer.Produce(Parcel.Make(1, 10), serializer));
        Assert.Equal(tail, queue.Producer.Offset);
        Assert.Throws<ArgumentNullException>(() => new MessagePackMessageSerializer<Parcel>(null!));
    }

    [Fact]
    public void Read_Number_AllocatesNothing()
    {
        var serializer = new MessagePackMessageSerializer<long>();
        byte[] bytes = serializer.Serialize(1L << 40).ToArray();
        Assert.Equal(1L << 40, serializer.Deserialize(bytes));
        AssertAllocatesNothing(() => serializer.Deserialize(bytes));
    }
}
