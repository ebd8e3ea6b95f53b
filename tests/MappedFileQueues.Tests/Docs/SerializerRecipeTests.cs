using System.Buffers;
using System.Text.Json;
using MappedFileQueues.Tests.Contract;
using MemoryPack;
using MessagePack;

// The recipes of docs/SERIALIZERS.md to the letter, and stand-ins for the packages that they need.
namespace MappedFileQueues.Tests.Docs
{
    public sealed class MemoryPackMessageSerializer<T> : IBufferedMessageSerializer<T>, IMessageDeserializer<T>
    {
        public void Serialize(T message, IBufferWriter<byte> destination) =>
            MemoryPackSerializer.Serialize(in destination, in message);

        public ReadOnlySpan<byte> Serialize(T message)
        {
            var buffer = new ArrayBufferWriter<byte>();
            Serialize(message, buffer);
            return buffer.WrittenSpan;
        }

        public T Deserialize(ReadOnlySpan<byte> buffer) => MemoryPackSerializer.Deserialize<T>(buffer)!;
    }

    public sealed class MessagePackMessageSerializer<T>(MessagePackSerializerOptions? options = null)
        : IBufferedMessageSerializer<T>, IMessageDeserializer<T>
    {
        public void Serialize(T message, IBufferWriter<byte> destination) =>
            MessagePackSerializer.Serialize(destination, message, options);

        public ReadOnlySpan<byte> Serialize(T message)
        {
            var buffer = new ArrayBufferWriter<byte>();
            Serialize(message, buffer);
            return buffer.WrittenSpan;
        }

        public T Deserialize(ReadOnlySpan<byte> buffer)
        {
            byte[] copy = ArrayPool<byte>.Shared.Rent(buffer.Length);
            try
            {
                buffer.CopyTo(copy);
                return MessagePackSerializer.Deserialize<T>(new ReadOnlySequence<byte>(copy, 0, buffer.Length), options);
            }
            finally
            {
                ArrayPool<byte>.Shared.Return(copy);
            }
        }
    }

    /// <summary>The recipes for serializers of other packages compile, run, and stand in the page as they are here.</summary>
    public sealed class SerializerRecipeTests
    {
        private const string ThisFile = "tests/MappedFileQueues.Tests/Docs/SerializerRecipeTests.cs";

        [Fact]
        public async Task Recipes_MessagesOfManyLengths_ComeBack()
        {
            await RoundTrip(new MemoryPackMessageSerializer<Order>());
            await RoundTrip(new MessagePackMessageSerializer<Order>());
            await RoundTrip(new MessagePackMessageSerializer<Order>(new MessagePackSerializerOptions()));
        }

        [Fact]
        public void Page_CodeBlocks_AreThoseThatAreCompiledHere()
        {
            string here = Normalized(File.ReadAllText(Repository.PathOf(ThisFile)));
            string[] blocks = File.ReadAllText(Repository.PathOf("docs/SERIALIZERS.md")).Split("```csharp\n")[1..];
            Assert.Equal(2, blocks.Length);
            Assert.All(blocks, block => Assert.Contains(Normalized(block.Split("```")[0]), here, StringComparison.Ordinal));
        }

        private static async Task RoundTrip<TSerializer>(TSerializer serializer)
            where TSerializer : IBufferedMessageSerializer<Order>, IMessageDeserializer<Order>
        {
            using TempStore store = new();
            PlatformScope.Use(portable: false);
            using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store.StorePath });
            for (int i = 0; i < 300; i++)
            {
                var order = new Order(i, new string('x', i));
                queue.Producer.Produce(order, serializer);
                await queue.Producer.ProduceAsync(order, serializer);
                queue.Producer.Produce(serializer.Serialize(order));
                for (int copy = 0; copy < 3; copy++)
                {
                    Assert.Equal(order, queue.Consumer.Consume(serializer));
                    queue.Consumer.Commit();
                }
            }
        }

        private static string Normalized(string text) =>
            string.Join(' ', text.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries));

        private sealed record Order(int Id, string Text);
    }
}

namespace MemoryPack
{
    internal static class MemoryPackSerializer
    {
        public static void Serialize<T, TBufferWriter>(in TBufferWriter bufferWriter, in T? value, object? options = null)
            where TBufferWriter : IBufferWriter<byte> => bufferWriter.Write(JsonSerializer.SerializeToUtf8Bytes(value));

        public static T? Deserialize<T>(ReadOnlySpan<byte> buffer, object? options = null) =>
            JsonSerializer.Deserialize<T>(buffer);
    }
}

namespace MessagePack
{
    public sealed class MessagePackSerializerOptions;

    internal static class MessagePackSerializer
    {
        public static void Serialize<T>(
            IBufferWriter<byte> writer,
            T value,
            MessagePackSerializerOptions? options = null,
            CancellationToken cancellationToken = default) => writer.Write(JsonSerializer.SerializeToUtf8Bytes(value));

        public static T Deserialize<T>(
            in ReadOnlySequence<byte> byteSequence,
            MessagePackSerializerOptions? options = null,
            CancellationToken cancellationToken = default)
        {
            var reader = new Utf8JsonReader(byteSequence);
            return JsonSerializer.Deserialize<T>(ref reader)!;
        }
    }
}
