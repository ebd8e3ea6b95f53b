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
    /// power cut takes at most the last interval.
    /// </summary>
    Interval,

    /// <summary>
    /// Produce returns when a flush that covers the message has ended; all who wait at one time share one, in threads and
    /// processes. A power cut takes nothing that was acknowledged.
    /// </summary>
    Group,
}
