using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Groups;

/// <summary>Structs by a producer with an id: TryProduce with a sequence.</summary>
internal sealed class NumberedQueue : StructQueue
{
    private readonly MappedFileIdempotentProducer<Message64> _producer;
    private Message64 _message = Message64.Create();
    private ulong _sequence;

    public NumberedQueue(MappedFileQueueOptions options)
        : base(options) => _producer = Queue.OpenProducer("bench");

    public override void Prepare(long bytes) => base.Prepare(HeadersQueue.Longer(bytes));

    public override void Dispose()
    {
        _producer.Dispose();
        base.Dispose();
    }

    protected override void AppendChunk(long from, int count) => Append(_producer, ref _message, from, count, ref _sequence);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Append(
        MappedFileIdempotentProducer<Message64> producer, ref Message64 message, long from, int count, ref ulong sequence)
    {
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)(from + i);
            producer.TryProduce(in message, ++sequence);
        }
    }
}
