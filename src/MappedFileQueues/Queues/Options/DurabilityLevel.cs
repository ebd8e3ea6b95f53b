namespace MappedFileQueues;

/// <summary>
/// When an append counts as done. At every level it survives the death of every process from the moment that Produce
/// returns; the levels differ in what a power cut may take.
/// </summary>
public enum DurabilityLevel
{
    /// <summary>Produce returns when the message is published. A power cut takes what the system had not written yet.</summary>
    PageCache,

    /// <summary>
    /// As PageCache, and every attached queue flushes at intervals while there is something to flush, and when it is disposed. A
    /// power cut takes at most the last interval. When nothing can be flushed for two intervals (damage in the log, no descriptor
    /// left; at Group too) Produce throws the reason, a <see cref="QueueCorruptException"/> or <see cref="QueueDiskException"/>,
    /// and appends nothing, until a flush succeeds. It needs a thread of the queue's own: where the system gives none, the
    /// constructor, or the first message that asks for this level, throws a <see cref="MappedFileQueueException"/>.
    /// </summary>
    Interval,

    /// <summary>
    /// Produce returns when a flush that covers the message has ended; all who wait at one time share one, in threads and
    /// processes. A power cut takes nothing that was acknowledged.
    /// </summary>
    Group,
}
