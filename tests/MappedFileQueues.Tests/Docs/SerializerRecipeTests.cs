using System.Buffers;
using System.Buffers.Binary;
using System.Text;
using MappedFileQueues.Tests.Contract;

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

/// <summary>What the recipe serializes.</summary>
public sealed record Reading(double Value, string Name);

/// <summary>The recipe for a serializer of one's own compiles, runs, and stands in the page as it is here.</summary>
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
            queue.Producer.Produce(reading, serializer);
            await queue.Producer.ProduceAsync(reading, serializer);
            queue.Producer.Produce(serializer.Serialize(reading));
            for (int copy = 0; copy < 3; copy++)
            {
                Assert.Equal(reading, queue.Consumer.Consume(serializer));
                queue.Consumer.Commit();
            }
        }
    }

    [Fact]
    public void Page_Recipe_IsWhatIsCompiledHere()
    {
        string here = Normalized(File.ReadAllText(Repository.PathOf(ThisFile)));
        string page = File.ReadAllText(Repository.PathOf("docs/SERIALIZERS.md"));
        string recipe = page[page.IndexOf("## Your own", StringComparison.Ordinal)..].Split("```csharp\n")[1].Split("```")[0];
        Assert.Contains(Normalized(recipe), here, StringComparison.Ordinal);
    }

    private static string Normalized(string text) =>
        string.Join(' ', text.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries));
}
