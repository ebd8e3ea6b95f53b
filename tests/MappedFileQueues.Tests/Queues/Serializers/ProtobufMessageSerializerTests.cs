using Google.Protobuf;
using Google.Protobuf.WellKnownTypes;

namespace MappedFileQueues.Tests.Queues.Serializers;

/// <summary>Messages of Google.Protobuf through a queue.</summary>
public sealed class ProtobufMessageSerializerTests
{
    private static readonly ProtobufMessageSerializer<Struct> s_serializer = new(Struct.Parser);

    [Fact]
    public void Messages_OfAllLengths_ComeBackEqual()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        for (int i = 0; i < 300; i++)
            queue.Producer.Produce(Make(i), s_serializer);
        for (int i = 0; i < 300; i++)
        {
            Assert.Equal(Make(i).ToByteArray(), queue.Consumer.Consume().ToArray());
            Assert.Equal(Make(i), queue.Consumer.Consume(s_serializer));
            queue.Consumer.Commit();
        }

        Assert.Equal(Make(5).ToByteArray(), s_serializer.Serialize(Make(5)).ToArray());
    }

    [Fact]
    public void Message_OfAnotherKind_ThrowsAndCommitSkipsIt()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        queue.Producer.Produce([0x0a, 0x7f, 0x01]);
        queue.Producer.Produce(Make(1), s_serializer);
        Assert.Throws<InvalidProtocolBufferException>(() => queue.Consumer.Consume(s_serializer));
        queue.Consumer.Commit();
        Assert.Equal(Make(1), queue.Consumer.Consume(s_serializer));
    }

    private static MappedFileQueue Open(TempStore store) =>
        new(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 64 * 1024 });

    private static Struct Make(int number)
    {
        var made = new Struct();
        if (number > 0)
            made.Fields["number"] = Value.ForNumber(number);
        if (number > 1)
            made.Fields["text"] = Value.ForString(new string('x', number));
        return made;
    }
}
