using System.Buffers;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace MappedFileQueues.Tests.Queues.Serializers;

/// <summary>The serializers that come with the library, through a queue.</summary>
public sealed partial class MessageSerializerTests
{
    private static readonly JsonMessageSerializer<Quote> s_json = new(QuoteContext.Default.Quote);

    [Fact]
    public void Json_ObjectsOfAllLengths_ComeBackEqual()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        for (int i = 0; i < 300; i++)
            queue.Producer.Produce(Make(i), s_json);
        for (int i = 0; i < 300; i++)
        {
            Assert.Equal(Make(i), queue.Consumer.Consume(s_json));
            queue.Consumer.Commit();
        }
    }

    [Fact]
    public void Json_BytesInTheQueue_AreWhatTheFrameworkWrites()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        queue.Producer.Produce(Make(3), s_json);
        Assert.Equal(
            JsonSerializer.SerializeToUtf8Bytes(Make(3), QuoteContext.Default.Quote), queue.Consumer.Consume().ToArray());
        Assert.Equal(s_json.Serialize(Make(3)).ToArray(), queue.Consumer.Consume().ToArray());
    }

    [Fact]
    public void Json_MessageThatIsNone_ThrowsAndCommitSkipsIt()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        foreach (string text in (string[])["{\"Number\":", "null", "[]", ""])
        {
            queue.Producer.Produce(Encoding.UTF8.GetBytes(text));
            Assert.Throws<JsonException>(() => queue.Consumer.Consume(s_json));
            queue.Consumer.Commit();
        }

        queue.Producer.Produce(Make(1), s_json);
        Assert.Equal(Make(1), queue.Consumer.Consume(s_json));
    }

    /// <summary>A property that throws leaves its writer in the middle of a message: the next message gets another one.</summary>
    [Fact]
    public void Json_PropertyThrows_NothingIsAppendedAndTheNextIsWhole()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        var fragile = new JsonMessageSerializer<Fragile>(QuoteContext.Default.Fragile);
        long tail = queue.Producer.Offset;
        for (int i = 0; i < 3; i++)
            Assert.Throws<InvalidDataException>(() => queue.Producer.Produce(new Fragile { Throws = true }, fragile));
        Assert.Equal(tail, queue.Producer.Offset);
        queue.Producer.Produce(new Fragile(), fragile);
        Assert.Equal("{\"First\":\"one\",\"Second\":\"two\"}", Encoding.UTF8.GetString(queue.Consumer.Consume()));
    }

    [Fact]
    public void Json_ManyThreads_EveryMessageIsWhole()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        Parallel.For(0, 4, thread =>
        {
            for (int i = 0; i < 500; i++)
                queue.Producer.Produce(Make((thread * 500) + i), s_json);
        });
        HashSet<int> found = [];
        while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> bytes))
        {
            Quote quote = s_json.Deserialize(bytes);
            Assert.Equal(Make(quote.Number), quote);
            Assert.True(found.Add(quote.Number));
            queue.Consumer.Commit();
        }

        Assert.Equal(2000, found.Count);
    }

    [Fact]
    public void Json_Written_AllocatesNothing()
    {
        Quote quote = Make(7);
        var destination = new ArrayBufferWriter<byte>(1024);
        long before = 0;
        for (int i = 0; i < 3_000; i++)
        {
            if (i == 1_000)
                before = GC.GetAllocatedBytesForCurrentThread();
            destination.ResetWrittenCount();
            s_json.Serialize(quote, destination);
        }

        // What the runtime allocates once is not a message's: it compiles the loop a second time meanwhile.
        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, 1_000);
    }

    [Theory]
    [InlineData("")]
    [InlineData("a line")]
    [InlineData("Zeile mit Ümlaut, 日本語, 😀")]
    public void Utf8_Text_ComesBackEqual(string text)
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        queue.Producer.Produce(text, Utf8MessageSerializer.Instance);
        Assert.Equal(Encoding.UTF8.GetBytes(text), queue.Consumer.Consume().ToArray());
        Assert.Equal(text, queue.Consumer.Consume(Utf8MessageSerializer.Instance));
        Assert.Equal(Encoding.UTF8.GetBytes(text), Utf8MessageSerializer.Instance.Serialize(text).ToArray());
    }

    [Fact]
    public void Utf8_TextThatIsNone_ThrowsOnBothSides()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        long tail = queue.Producer.Offset;
        Assert.Throws<EncoderFallbackException>(() => queue.Producer.Produce("half \ud83d", Utf8MessageSerializer.Instance));
        Assert.Equal(tail, queue.Producer.Offset);
        queue.Producer.Produce([0xc3, 0x28]);
        Assert.Throws<DecoderFallbackException>(() => queue.Consumer.Consume(Utf8MessageSerializer.Instance));
    }

    [Fact]
    public async Task ConsumeAsync_Deserializer_WaitsAndSkipsWhatThrows()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        Task<Quote> pending = queue.Consumer.ConsumeAsync(s_json).AsTask();
        queue.Producer.Produce("nothing of the kind"u8);
        await Assert.ThrowsAsync<JsonException>(() => pending.WaitAsync(Eventually.DefaultDeadline));
        queue.Consumer.Commit();
        pending = queue.Consumer.ConsumeAsync(s_json).AsTask();
        queue.Producer.Produce(Make(9), s_json);
        Assert.Equal(Make(9), await pending.WaitAsync(Eventually.DefaultDeadline));
    }

    private static MappedFileQueue Open(TempStore store) =>
        new(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 64 * 1024 });

    private static Quote Make(int number) => new()
    {
        Number = number,
        Time = number * 1_000_000_007L,
        Price = number / 7.0,
        Name = new string((char)('a' + (number % 26)), number),
    };

    internal sealed record Quote
    {
        public int Number { get; init; }

        public long Time { get; init; }

        public double Price { get; init; }

        public string Name { get; init; } = "";
    }

    internal sealed class Fragile
    {
        public string First => "one";

        public string Second => Throws ? throw new InvalidDataException("No second.") : "two";

        [JsonIgnore]
        public bool Throws { get; init; }
    }

    [JsonSerializable(typeof(Quote))]
    [JsonSerializable(typeof(Fragile))]
    private sealed partial class QuoteContext : JsonSerializerContext;
}
