using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Queues;

/// <summary>Structs, one call a message: Produce; Consume and Commit.</summary>
internal class StructQueue : BenchQueue
{
    private readonly MappedFileQueue<Message64> _queue;
    private Message64 _message = Message64.Create();

    public StructQueue(MappedFileQueueOptions options) => _queue = new MappedFileQueue<Message64>(options);

    protected MappedFileQueue<Message64> Queue => _queue;

    protected MappedFileProducer<Message64> Producer => _queue.Producer;

    public MappedFileConsumer<Message64> Consumer => _queue.Consumer;

    public MappedFileConsumer<Message64> OpenConsumer(string name) => _queue.OpenConsumer(name);

    /// <summary>Makes the producer, which is otherwise made by the first append.</summary>
    public void AttachProducer() => _ = Producer;

    public override void Prepare(long bytes) => Producer.Prepare(bytes);

    /// <summary>Appends one message for each place of the array and puts there how long it took, in ticks of the clock.</summary>
    public void AppendTimed(ref Message64 message, long[] took)
    {
        for (int i = 0; i < took.Length; i++)
        {
            long start = Clock.Now;
            AppendOne(Producer, ref message, i);
            took[i] = Clock.Now - start;
        }
    }

    public override void SeekToStart() => Consumer.SeekToStart();

    public override void Dispose() => _queue.Dispose();

    protected override void AppendChunk(long from, int count) => Append(Producer, ref _message, from, count);

    protected override ulong ReadChunk(int count) => Read(Consumer, count);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Append(MappedFileProducer<Message64> producer, ref Message64 message, long from, int count)
    {
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)(from + i);
            producer.Produce(ref message);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void AppendOne(MappedFileProducer<Message64> producer, ref Message64 message, long number)
    {
        message.Number = (ulong)number;
        producer.Produce(ref message);
    }

    /// <summary>Reads that many messages with a consumer, each committed; adds them up.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public static ulong Read(MappedFileConsumer<Message64> consumer, int count)
    {
        ulong sum = 0;
        for (int i = 0; i < count; i++)
        {
            consumer.Consume(out Message64 message);
            sum += message.Sum();
            consumer.Commit();
        }

        return sum;
    }
}
