namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>Another forwarder of the same store has the lock; the channel ended with the attempt.</summary>
/// <param name="queue">The queue that is the lock.</param>
internal sealed class LockHeldException(string queue)
    : Exception($"Another forwarder of this store has the lock: queue={queue}.");
