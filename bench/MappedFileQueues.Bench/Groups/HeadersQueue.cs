using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Groups;

/// <summary>Structs with time and a key of 8 bytes in their headers, 24 bytes each; read without a look at them.</summary>
internal sealed class HeadersQueue(MappedFileQueueOptions options) : StructQueue(options)
{
    private readonly MessageHeaders _headers = new() { Time = DateTimeOffset.UnixEpoch, Key = new byte[8] };
    private Message64 _message = Message64.Create();

    /// <summary>The length of frames that are 24 bytes longer than 72.</summary>
    public static long Longer(long bytes) => bytes * 4 / 3;

    public override void Prepare(long bytes) => base.Prepare(Longer(bytes));

    protected override void AppendChunk(long from, int count) =>
        Append(Producer, ref _message, from, count, new ProduceOptions { Headers = _headers });

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Append(
        MappedFileProducer<Message64> producer, ref Message64 message, long from, int count, in ProduceOptions options)
    {
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)(from + i);
            producer.Produce(in message, options);
        }
    }
}
