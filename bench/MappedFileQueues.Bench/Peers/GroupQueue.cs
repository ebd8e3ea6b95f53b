using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Peers;

/// <summary>
/// Ours at the level Group: an append returns when its message is on the disk.
/// </summary>
/// <param name="path">The store.</param>
/// <param name="commitsDurably">A read commits each message so that the commit survives a power loss too.</param>
internal sealed class GroupQueue(string path, bool commitsDurably = false) : StructQueue(new MappedFileQueueOptions
{
    StorePath = path,
    Durability = DurabilityLevel.Group,
})
{
    /// <summary>A number of messages that one call appends.</summary>
    public const int BatchLength = 1000;

    /// <summary>
    /// Goes to the middle of a segment, whose start is flushed faster where the system caches files in pieces that grow. The next
    /// read begins at the next message.
    /// </summary>
    public void LeaveStart()
    {
        DurableFigure.Fill(Producer, DurableFigure.FilledLength);
        Consumer.SeekToEnd();
    }

    public Task AppendEach(int count)
    {
        DurableFigure.Append(Producer, count);
        return Task.CompletedTask;
    }

    public Task AppendEachAsync(int count) => DurableFigure.AppendAsync(Producer, count);

    public Task AppendBatches(int count)
    {
        Message64[] batch = [.. Enumerable.Repeat(Message64.Create(), BatchLength)];
        for (int done = 0; done < count;)
        {
            Span<Message64> part = batch.AsSpan(0, Math.Min(BatchLength, count - done));
            for (int i = 0; i < part.Length; i++, done++)
                part[i].Number = (ulong)done;
            Producer.ProduceBatch(part);
        }

        return Task.CompletedTask;
    }

    public bool IsConfirmed => Queue.ConfirmedOffset == Producer.Offset;

    protected override ulong ReadChunk(int count)
    {
        if (!commitsDurably)
            return base.ReadChunk(count);
        ulong sum = 0;
        for (int i = 0; i < count; i++)
        {
            Consumer.Consume(out Message64 message);
            sum += message.Sum();
            Consumer.Commit(durable: true);
        }

        return sum;
    }
}
