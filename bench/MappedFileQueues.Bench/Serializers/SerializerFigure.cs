using System.Buffers;
using Google.Protobuf;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Serializers;

/// <summary>
/// Nanoseconds for each object that is written to a queue or read from it, beside the same serializer with a buffer that is used
/// again and again. Room is prepared on both sides.
/// </summary>
internal static class SerializerFigure
{
    public const string JsonWrite = "json_write";
    public const string JsonRead = "json_read";
    public const string ProtobufWrite = "protobuf_write";
    public const string ProtobufRead = "protobuf_read";
    public const string MessagePackWrite = "messagepack_write";
    public const string MessagePackRead = "messagepack_read";
    public const string MemoryPackWrite = "memorypack_write";
    public const string MemoryPackRead = "memorypack_read";

    private static readonly JsonQuote s_json =
        new() { Number = 7, Time = 1_790_000_000_000, Price = 101.25, Name = "instrument" };

    private static readonly ProtobufQuote s_protobuf =
        new() { Number = 7, Time = 1_790_000_000_000, Price = 101.25, Name = "instrument" };

    private static readonly PackedQuote s_packed =
        new() { Number = 7, Time = 1_790_000_000_000, Price = 101.25, Name = "instrument" };

    public static SerializerFigure<JsonQuote> Json(ChildContext context) => new(
        context, s_json, new JsonMessageSerializer<JsonQuote>(JsonQuoteContext.Default.JsonQuote),
        static (quote, number) => quote.Number = number, static quote => quote.Number + quote.Time + quote.Name.Length);

    public static SerializerFigure<ProtobufQuote> Protobuf(ChildContext context) => new(
        context, s_protobuf, new ProtobufMessageSerializer<ProtobufQuote>(ProtobufQuote.Parser),
        static (quote, number) => quote.Number = number, static quote => quote.Number + quote.Time + quote.Name.Length);

    public static SerializerFigure<PackedQuote> MessagePack(ChildContext context) =>
        Packed(context, new MessagePackMessageSerializer<PackedQuote>());

    public static SerializerFigure<PackedQuote> MemoryPack(ChildContext context) =>
        Packed(context, new MemoryPackMessageSerializer<PackedQuote>());

    private static SerializerFigure<PackedQuote> Packed(
        ChildContext context, IBufferedMessageSerializer<PackedQuote> serializer) => new(
        context, s_packed, serializer, static (quote, number) => quote.Number = number,
        static quote => quote.Number + quote.Time + quote.Name.Length);
}

/// <inheritdoc cref="SerializerFigure"/>
internal sealed class SerializerFigure<T>
{
    /// <summary>So many objects are written, then read, and so on: the store stays small.</summary>
    private const int Round = 10_000;

    private const int FrameLengthMax = 256;

    private readonly ChildContext _context;
    private readonly T _quote;
    private readonly IBufferedMessageSerializer<T> _serializer;
    private readonly IMessageDeserializer<T> _deserializer;
    private readonly Action<T, int> _number;
    private readonly Func<T, long> _sum;
    private readonly ArrayBufferWriter<byte> _buffer = new(FrameLengthMax);

    public SerializerFigure(
        ChildContext context, T quote, IBufferedMessageSerializer<T> serializer, Action<T, int> number, Func<T, long> sum)
    {
        _context = context;
        _quote = quote;
        _serializer = serializer;
        _deserializer = (IMessageDeserializer<T>)serializer;
        _number = number;
        _sum = sum;
    }

    private int Rounds => (int)Math.Max(1, Math.Min(_context.Messages, 2_000_000) / Round);

    public IReadOnlyList<Samples> Measure(string write, string read)
    {
        var rawWrites = new double[_context.Repetitions];
        var rawReads = new double[_context.Repetitions];
        var writes = new double[_context.Repetitions];
        var reads = new double[_context.Repetitions];
        WarmUp.UntilCompiled(() =>
        {
            MeasureRaw(1);
            MeasureQueue(1);
        });
        for (int i = 0; i < _context.Repetitions; i++)
        {
            (rawWrites[i], rawReads[i]) = MeasureRaw(Rounds);
            (writes[i], reads[i]) = MeasureQueue(Rounds);
        }

        return [new Samples(write, "ns", rawWrites, writes), new Samples(read, "ns", rawReads, reads)];
    }

    private (double Write, double Read) MeasureRaw(int rounds)
    {
        long wrote = 0, took = 0, sum = 0;
        for (int round = 0; round < rounds; round++)
        {
            long start = Clock.Now;
            for (int i = 0; i < Round; i++)
            {
                _number(_quote, i);
                _buffer.ResetWrittenCount();
                _serializer.Serialize(_quote, _buffer);
            }

            wrote += Clock.Now - start;
            start = Clock.Now;
            for (int i = 0; i < Round; i++)
                sum += _sum(_deserializer.Deserialize(_buffer.WrittenSpan));
            took += Clock.Now - start;
        }

        Sums.Check("raw serializer", (ulong)sum, (ulong)((long)rounds * Round * _sum(_quote)));
        return (Each(wrote, rounds), Each(took, rounds));
    }

    private (double Write, double Read) MeasureQueue(int rounds)
    {
        string path = _context.Path("store");
        long wrote = 0, took = 0, sum = 0, expected = 0;
        using (MappedFileQueue queue = new(BenchStore.InOneSegment(
            path, (long)rounds * Round * FrameLengthMax / Message64.FrameLength, ProducerMode.Shared)))
        {
            MappedFileProducer producer = queue.Producer;
            MappedFileConsumer consumer = queue.Consumer;
            producer.Prepare((long)rounds * Round * FrameLengthMax);
            for (int round = 0; round < rounds; round++)
            {
                long start = Clock.Now;
                for (int i = 0; i < Round; i++)
                {
                    _number(_quote, i);
                    producer.Produce(_quote, _serializer);
                }

                wrote += Clock.Now - start;
                start = Clock.Now;
                for (int i = 0; i < Round; i++)
                {
                    sum += _sum(consumer.Consume(_deserializer));
                    consumer.Commit();
                }

                took += Clock.Now - start;
            }

            for (int i = 0; i < Round; i++)
            {
                _number(_quote, i);
                expected += rounds * _sum(_quote);
            }
        }

        BenchStore.Delete(path);
        Sums.Check("serializer", (ulong)sum, (ulong)expected);
        return (Each(wrote, rounds), Each(took, rounds));
    }

    private static double Each(long ticks, int rounds) => Clock.Nanoseconds(ticks) / ((double)rounds * Round);
}
