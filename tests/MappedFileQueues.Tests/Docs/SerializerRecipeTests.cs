using System.Buffers;
using System.Buffers.Binary;
using System.Text;
using MappedFileQueues.Tests.Contract;
using MessagePack;
using MessagePack.Resolvers;

namespace MappedFileQueues.Tests.Docs;

/// <summary>The recipe for a serializer in docs/SERIALIZERS.md, to the letter.</summary>
public sealed class ReadingSerializer : IBufferedMessageSerializer<Reading>, IMessageDeserializer<Reading>
{
    public void Serialize(Reading message, IBufferWriter<byte> destination)
    {
        int nameLength = Encoding.UTF8.GetByteCount(message.Name);
        Span<byte> place = destination.GetSpan(sizeof(double) + nameLength);
        BinaryPrimitives.WriteDoubleLittleEndian(place, message.Value);
        Encoding.UTF8.GetBytes(message.Name, place[sizeof(double)..]);
        destination.Advance(sizeof(double) + nameLength);
    }

    public ReadOnlySpan<byte> Serialize(Reading message)
    {
        var buffer = new ArrayBufferWriter<byte>();
        Serialize(message, buffer);
        return buffer.WrittenSpan;
    }

    public Reading Deserialize(ReadOnlySpan<byte> buffer)
    {
        if (buffer.Length < sizeof(double))
            throw new InvalidDataException($"This is no reading: length={buffer.Length}.");
        double value = BinaryPrimitives.ReadDoubleLittleEndian(buffer);
        return new Reading(value, Encoding.UTF8.GetString(buffer[sizeof(double)..]));
    }
}

/// <summary>What the page serializes.</summary>
[MessagePackObject]
public sealed record Reading([property: Key(0)] double Value, [property: Key(1)] string Name);

/// <summary>The code of docs/SERIALIZERS.md compiles, runs, and is in the page as it is here.</summary>
public sealed class SerializerRecipeTests
{
    private const string ThisFile = "tests/MappedFileQueues.Tests/Docs/SerializerRecipeTests.cs";

    [Fact]
    public async Task Recipe_MessagesOfManyLengths_ComeBack()
    {
        using TempStore store = new();
        PlatformScope.Use(portable: false);
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath });
        var serializer = new ReadingSerializer();
        for (int i = 0; i < 300; i++)
        {
            var reading = new Reading(i, new string('x', i));
            await queue.Producer.ProduceAsync(reading, serializer);
            queue.Producer.Produce(serializer.Serialize(reading));
            for (int copy = 0; copy < 2; copy++)
            {
                Assert.Equal(reading, queue.Consumer.Consume(serializer));
                queue.Consumer.Commit();
            }

            Assert.Equal(reading, RoundTrip(queue, reading, serializer));
        }
    }

    [Fact]
    public void MessagePackOptions_Reading_ComesBack()
    {
        IFormatterResolver generated = StandardResolver.Instance;
        MessagePackSerializerOptions options = MessagePackSerializerOptions.Standard
            .WithResolver(generated)
            .WithSecurity(MessagePackSecurity.UntrustedData);
        var serializer = new MessagePackMessageSerializer<Reading>(options);
        using TempStore store = new();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath });
        Assert.Equal(new Reading(0.5, "half"), RoundTrip(queue, new Reading(0.5, "half"), serializer));
    }

    [Fact]
    public void Page_CodeBlocks_AreWhatIsCompiledHere()
    {
        string here = Normalized(File.ReadAllText(Repository.PathOf(ThisFile)));
        string[] blocks = File.ReadAllText(Repository.PathOf("docs/SERIALIZERS.md")).Split("```csharp\n")[1..];
        Assert.Equal(3, blocks.Length);
        Assert.All(blocks, block => Assert.Contains(Normalized(block.Split("```")[0]), here, StringComparison.Ordinal));
    }

    private static Reading RoundTrip<TSerializer>(MappedFileQueue queue, Reading reading, TSerializer serializer)
        where TSerializer : IBufferedMessageSerializer<Reading>, IMessageDeserializer<Reading>
    {
        queue.Producer.Produce(reading, serializer);
        Reading next = queue.Consumer.Consume(serializer);
        queue.Consumer.Commit();
        return next;
    }

    private static string Normalized(string text) =>
        string.Join(' ', text.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries));
}
