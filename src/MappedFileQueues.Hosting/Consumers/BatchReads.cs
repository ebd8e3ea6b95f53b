namespace MappedFileQueues.Hosting.Consumers;

/// <summary>
/// The end of a batch before a message that cannot be read: the ones before it are handled, and it is met again as the first one
/// of the next batch.
/// </summary>
internal static class BatchReads
{
    /// <param name="consumer">The consumer.</param>
    /// <param name="count">How many messages the batch has.</param>
    /// <param name="message">The next message.</param>
    public static bool TryConsumeNext(this MappedFileConsumer consumer, int count, out ReadOnlySpan<byte> message)
    {
        try
        {
            return consumer.TryConsume(out message);
        }
        catch (MappedFileQueueException) when (count > 0)
        {
            message = default;
            return false;
        }
    }

    /// <inheritdoc cref="TryConsumeNext"/>
    public static bool TryConsumeNext<T>(this MappedFileConsumer<T> consumer, int count, out T message)
        where T : unmanaged
    {
        try
        {
            return consumer.TryConsume(out message);
        }
        catch (MappedFileQueueException) when (count > 0)
        {
            message = default;
            return false;
        }
    }
}
