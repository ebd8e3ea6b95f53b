using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Serializers;

namespace MappedFileQueues.Bench.Headline;

/// <summary>
/// The table that version 1.x showed: an int, a long, a double and a string, 10,000,000 times written and read, as structs, as
/// JSON, by Protocol Buffers, MessagePack and MemoryPack. Options are the defaults, so a flush runs each second; the store is
/// new, nothing is prepared.
/// </summary>
internal static class HeadlineTable
{
    public const string StructRole = "headline_struct";
    public const string JsonRole = "headline_json";
    public const string ProtobufRole = "headline_protobuf";
    public const string MessagePackRole = "headline_messagepack";
    public const string MemoryPackRole = "headline_memorypack";

    public const long Time = 1_790_000_000_000;
    public const double Price = 101.25;
    public const string Name = "instrument";

    /// <summary>Behind the name of a job: the bytes that it allocates, instead of the time.</summary>
    public const string BytesSuffix = "Bytes";

    /// <summary>The jobs, in the order of the table.</summary>
    public static IReadOnlyList<string> Jobs { get; } =
    [
        "WriteStruct", "WriteJson", "WriteProtobuf", "WriteMessagePack", "WriteMemoryPack",
        "ReadStruct", "ReadJson", "ReadProtobuf", "ReadMessagePack", "ReadMemoryPack",
    ];

    public static IReadOnlyList<string> Roles { get; } = [StructRole, JsonRole, ProtobufRole, MessagePackRole, MemoryPackRole];

    public static IReadOnlyList<Samples> Measure(ChildContext context) => context.Task.Role switch
    {
        StructRole => Measure(context, "Struct", path => new StructQuotes(path), Name[9]),
        JsonRole => Measure(
            context,
            "Json",
            path => new SerializedQuotes<JsonQuote>(
                path, new JsonQuote { Time = Time, Price = Price, Name = Name },
                new JsonMessageSerializer<JsonQuote>(JsonQuoteContext.Default.JsonQuote),
                static (quote, number) => quote.Number = number, static quote => quote.Number + quote.Time + quote.Name.Length),
            Name.Length),
        ProtobufRole => Measure(
            context,
            "Protobuf",
            path => new SerializedQuotes<ProtobufQuote>(
                path, new ProtobufQuote { Time = Time, Price = Price, Name = Name },
                new ProtobufMessageSerializer<ProtobufQuote>(ProtobufQuote.Parser),
                static (quote, number) => quote.Number = number, static quote => quote.Number + quote.Time + quote.Name.Length),
            Name.Length),
        MessagePackRole => MeasurePacked(context, "MessagePack", new MessagePackMessageSerializer<PackedQuote>()),
        _ => MeasurePacked(context, "MemoryPack", new MemoryPackMessageSerializer<PackedQuote>()),
    };

    private static IReadOnlyList<Samples> MeasurePacked(
        ChildContext context, string kind, IBufferedMessageSerializer<PackedQuote> serializer) => Measure(
        context,
        kind,
        path => new SerializedQuotes<PackedQuote>(
            path, new PackedQuote { Time = Time, Price = Price, Name = Name }, serializer,
            static (quote, number) => quote.Number = number, static quote => quote.Number + quote.Time + quote.Name.Length),
        Name.Length);

    private static IReadOnlyList<Samples> Measure(
        ChildContext context, string kind, Func<string, HeadlineQueue> open, int name)
    {
        int count = (int)context.Messages;
        long expected = (count * (Time + name)) + ((long)count * (count - 1) / 2);
        Compile(context, open);
        var figures = new double[4][];
        for (int i = 0; i < figures.Length; i++)
            figures[i] = new double[context.Repetitions];
        for (int i = 0; i < context.Repetitions; i++)
        {
            string path = context.Path("store");
            long sum = 0;
            using (HeadlineQueue queue = open(path))
            {
                (figures[0][i], figures[1][i]) = Each(count, () => queue.Write(count));
                (figures[2][i], figures[3][i]) = Each(count, () => sum = queue.Read(count));
            }

            Sums.Check(kind, (ulong)sum, (ulong)expected);
            Queues.BenchStore.Delete(path);
        }

        return
        [
            new Samples($"Write{kind}", "ns", [], figures[0]), new Samples($"Write{kind}{BytesSuffix}", "B", [], figures[1]),
            new Samples($"Read{kind}", "ns", [], figures[2]), new Samples($"Read{kind}{BytesSuffix}", "B", [], figures[3]),
        ];
    }

    private static void Compile(ChildContext context, Func<string, HeadlineQueue> open)
    {
        const int Count = 500;
        string path = context.Path("warm-store");
        using (HeadlineQueue queue = open(path))
        {
            WarmUp.UntilCompiled(() =>
            {
                queue.Write(Count);
                queue.Read(Count);
            });
        }

        Queues.BenchStore.Delete(path);
    }

    /// <summary>Time and bytes for each message; what the queue's own threads allocate counts too.</summary>
    private static (double Nanoseconds, double Bytes) Each(int count, Action job)
    {
        long before = GC.GetTotalAllocatedBytes(precise: true);
        long start = Clock.Now;
        job();
        double nanoseconds = Clock.NanosecondsEach(start, count);
        return (nanoseconds, Math.Round((GC.GetTotalAllocatedBytes(precise: true) - before) / (double)count, 1));
    }
}
