using System.Runtime.CompilerServices;
using MappedFileQueues.Bench.Queues;
using MappedFileQueues.Bench.Raw;

namespace MappedFileQueues.Bench.Groups;

/// <summary>Structs, read by the one member of a group: batches, or one by one, each acknowledged.</summary>
/// <param name="options">The store.</param>
/// <param name="batchLength">How many a call takes; 1: Consume.</param>
internal sealed class GroupQueue(MappedFileQueueOptions options, int batchLength) : StructQueue(options)
{
    private const string Name = "bench";

    private readonly Message64[] _batch = new Message64[batchLength];
    private readonly long[] _offsets = new long[batchLength];
    private MappedFileGroupMember<Message64>? _member;

    public override void SeekToStart()
    {
        _member?.Dispose();
        Queue.ResetGroup(Name, QueueStart.Earliest);
        _member = Queue.OpenGroupMember(Name);
    }

    public override void Dispose()
    {
        _member?.Dispose();
        base.Dispose();
    }

    protected override ulong ReadChunk(int count) =>
        batchLength == 1 ? ReadEach(_member!, count) : ReadBatches(_member!, _batch, _offsets, count);

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong ReadEach(MappedFileGroupMember<Message64> member, int count)
    {
        ulong sum = 0;
        for (int i = 0; i < count; i++)
        {
            member.Consume(out Message64 message);
            sum += message.Sum();
            member.Acknowledge();
        }

        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong ReadBatches(
        MappedFileGroupMember<Message64> member, Span<Message64> batch, Span<long> offsets, int count)
    {
        ulong sum = 0;
        for (int done = 0; done < count;)
        {
            int read = member.ConsumeBatch(batch[..Math.Min(batch.Length, count - done)], offsets);
            for (int i = 0; i < read; i++)
                sum += batch[i].Sum();
            member.Acknowledge();
            done += read;
        }

        return sum;
    }
}
