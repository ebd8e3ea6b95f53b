using System.Buffers;
using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Figures;

/// <summary>
/// Managed bytes for each message that is appended and read, the largest of all paths: structs in both modes, batches, spans, a
/// buffered serializer with its deserializer, and TryConsume. The raw loop allocates nothing.
/// </summary>
internal sealed class AllocationFigure(ChildContext context)
{
    /// <summary>Appended, then read, and so on: the store stays small and the reader stays close behind.</summary>
    private const int Round = 1000;

    private const long CountMax = 1_000_000;
    private const long CountMaxQuick = 200_000;

    private static readonly MessageSerializer s_serializer = new();

    private Message64 _message = Message64.Create();

    public IReadOnlyList<Samples> Measure()
    {
        long count = Math.Min(context.Messages, context.Task.IsQuick ? CountMaxQuick : CountMax);
        double[] raw = [MeasureRaw(count)];
        List<double> ours = [];
        for (int i = 0; i < (context.Task.IsQuick ? 1 : 3); i++)
            ours.Add(LargestOfAllPaths(count));
        return [new Samples(context.Task.Role, "B", raw, [.. ours])];
    }

    private double LargestOfAllPaths(long count) => new[]
    {
        MeasureQueue(count, path => new StructQueue(Options(path, ProducerMode.Shared))),
        MeasureQueue(count, path => new StructQueue(Options(path, ProducerMode.Exclusive))),
        MeasureQueue(count, path => new BatchQueue(Options(path, ProducerMode.Shared))),
        MeasureQueue(count, path => new MessageQueue(Options(path, ProducerMode.Shared))),
        MeasureSerializer(count),
        MeasureTryConsume(count),
    }.Max();

    private static MappedFileQueueOptions Options(string path, ProducerMode mode) =>
        new() { StorePath = path, ProducerMode = mode };

    private unsafe double MeasureRaw(long count)
    {
        using RawFile file = RawFile.Create(context.Path("raw"), RawFile.LengthFor(Round), allocates: true);
        ulong sum = 0;
        return BytesEach(count, () =>
        {
            RawLoops.Copy(file.Start, ref _message, 0, Round);
            sum += RawLoops.Read(file.Start, Round);
        });
    }

    private double MeasureQueue(long count, Func<string, BenchQueue> open)
    {
        string path = context.Path("store");
        double bytes;
        using (BenchQueue queue = open(path))
        {
            ulong sum = 0;
            bytes = BytesEach(count, () =>
            {
                queue.Append(Round);
                sum = queue.Read(Round);
            });
            Sums.Check(context.Task.Role, sum, Message64.ExpectedSum(Round));
        }

        BenchStore.Delete(path);
        return bytes;
    }

    private double MeasureSerializer(long count)
    {
        string path = context.Path("store");
        double bytes;
        using (MappedFileQueue queue = new(Options(path, ProducerMode.Shared)))
        {
            bytes = BytesEach(count, () =>
            {
                for (int i = 0; i < Round; i++)
                    queue.Producer.Produce(_message, s_serializer);
                for (int i = 0; i < Round; i++)
                {
                    Sums.Check(context.Task.Role, queue.Consumer.Consume<Message64>(s_serializer).Sum(), _message.Sum());
                    queue.Consumer.Commit();
                }
            });
        }

        BenchStore.Delete(path);
        return bytes;
    }

    private double MeasureTryConsume(long count)
    {
        string path = context.Path("store");
        double bytes;
        using (MappedFileQueue queue = new(Options(path, ProducerMode.Shared)))
        {
            bytes = BytesEach(count, () =>
            {
                for (int i = 0; i < Round; i++)
                    queue.Producer.Produce(MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>(in _message)));
                int read = 0;
                while (queue.Consumer.TryConsume(out ReadOnlySpan<byte> message))
                {
                    Sums.Check(context.Task.Role, MemoryMarshal.AsRef<Message64>(message).Sum(), _message.Sum());
                    queue.Consumer.Commit();
                    read++;
                }

                Sums.Check(context.Task.Role, (ulong)read, Round);
            });
        }

        BenchStore.Delete(path);
        return bytes;
    }

    /// <summary>
    /// What this thread allocates in rounds, after one that is not counted, in hundredths: below that it is what the runtime
    /// allocates once (24 bytes in 200,000 messages were seen), not something that each message costs.
    /// </summary>
    private static double BytesEach(long count, Action round)
    {
        round();
        long rounds = Math.Max(count / Round, 1);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (long i = 0; i < rounds; i++)
            round();
        return Math.Round((GC.GetAllocatedBytesForCurrentThread() - before) / (double)(rounds * Round), 2);
    }

    private sealed class MessageSerializer : IBufferedMessageSerializer<Message64>, IMessageDeserializer<Message64>
    {
        public ReadOnlySpan<byte> Serialize(Message64 message) => MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>([message]));

        public void Serialize(Message64 message, IBufferWriter<byte> destination) =>
            destination.Write(MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>(in message)));

        public Message64 Deserialize(ReadOnlySpan<byte> buffer) => MemoryMarshal.Read<Message64>(buffer);
    }
}
