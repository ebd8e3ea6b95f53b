using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Queues;

/// <summary>Structs, many a call: ProduceBatch; ConsumeBatch and Commit.</summary>
/// <param name="options">The store.</param>
/// <param name="batchLength">How many.</param>
internal sealed class BatchQueue(MappedFileQueueOptions options, int batchLength = 64) : StructQueue(options)
{
    private readonly Message64[] _batch = [.. Enumerable.Repeat(Message64.Create(), batchLength)];

    protected override void AppendChunk(long from, int count) => Append(Producer, _batch, from, count);

    protected override ulong ReadChunk(int count) => Read(Consumer, _batch, count);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Append(MappedFileProducer<Message64> producer, Span<Message64> batch, long from, int count)
    {
        for (int done = 0; done < count; done += batch.Length)
        {
            Span<Message64> part = batch[..Math.Min(batch.Length, count - done)];
            for (int i = 0; i < part.Length; i++)
                part[i].Number = (ulong)(from + done + i);
            producer.ProduceBatch(part);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong Read(MappedFileConsumer<Message64> consumer, Span<Message64> batch, int count)
    {
        ulong sum = 0;
        for (int done = 0; done < count;)
        {
            int read = consumer.ConsumeBatch(batch[..Math.Min(batch.Length, count - done)]);
            for (int i = 0; i < read; i++)
                sum += batch[i].Sum();
            consumer.Commit();
            done += read;
        }

        return sum;
    }
}
