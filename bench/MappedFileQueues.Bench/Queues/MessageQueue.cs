using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Queues;

/// <summary>
/// The same bytes as messages of any length: Produce of a span; Consume, which hands out a span over the mapping, and Commit.
/// </summary>
internal sealed class MessageQueue : BenchQueue
{
    private readonly MappedFileQueue _queue;
    private Message64 _message = Message64.Create();

    public MessageQueue(MappedFileQueueOptions options) => _queue = new MappedFileQueue(options);

    public override void Prepare(long bytes) => _queue.Producer.Prepare(bytes);

    public override void SeekToStart() => _queue.Consumer.SeekToStart();

    public override void Dispose() => _queue.Dispose();

    protected override void AppendChunk(long from, int count) => Append(_queue.Producer, ref _message, from, count);

    protected override ulong ReadChunk(int count) => Read(_queue.Consumer, count);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Append(MappedFileProducer producer, ref Message64 message, long from, int count)
    {
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)(from + i);
            producer.Produce(MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>(in message)));
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Read(MappedFileConsumer consumer, int count)
    {
        ulong sum = 0;
        for (int i = 0; i < count; i++)
        {
            ReadOnlySpan<byte> message = consumer.Consume();
            sum += MemoryMarshal.AsRef<Message64>(message).Sum();
            consumer.Commit();
        }

        return sum;
    }
}
