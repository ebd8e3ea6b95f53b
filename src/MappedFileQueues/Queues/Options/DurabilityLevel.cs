namespace MappedFileQueues;

/// <summary>
/// When an append counts as done. At every level a message survives the death of every process once Produce has returned; the
/// levels differ in what a power loss may lose.
/// </summary>
public enum DurabilityLevel
{
    /// <summary>Produce returns when the message is published. A power loss loses what the system has not written yet.</summary>
    PageCache,

    /// <summary>
    /// Like PageCache, and every attached queue flushes at intervals while there is something to flush, and when it is disposed.
    /// A power loss loses at most the last interval. When nothing can be flushed for two intervals (damage in the log, no file
    /// descriptor left), Produce appends nothing and throws the cause, a <see cref="QueueCorruptException"/> or
    /// <see cref="QueueDiskException"/>, until a flush succeeds; Group does the same. No flush passes a message that was begun
    /// and is not finished (an open claim, a producer that was stopped in it): what is appended after it is not on disk until
    /// that ends, and after two intervals <see cref="MappedFileQueueInfo.FlushFailingSince"/> tells so. The queue needs a thread
    /// for this level. If the system gives none, the constructor, or the first message that asks for this level, throws a
    /// <see cref="MappedFileQueueException"/>.
    /// </summary>
    Interval,

    /// <summary>
    /// Produce returns when a flush that covers the message has ended. A power loss loses nothing that was acknowledged. Callers
    /// that wait at the same time, in any thread or process, share a flush.
    /// </summary>
    Group,
}
