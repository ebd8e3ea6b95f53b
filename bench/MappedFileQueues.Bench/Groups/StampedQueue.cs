using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Groups;

/// <summary>Structs with the time of their append in their headers, 16 bytes each.</summary>
internal sealed class StampedQueue(MappedFileQueueOptions options) : StructQueue(Stamped(options))
{
    public override void Prepare(long bytes) => base.Prepare(HeadersQueue.Longer(bytes));

    private static MappedFileQueueOptions Stamped(MappedFileQueueOptions options)
    {
        options.StampTime = true;
        return options;
    }
}
