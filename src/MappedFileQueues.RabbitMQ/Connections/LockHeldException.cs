namespace MappedFileQueues.RabbitMQ.Connections;

/// <summary>Another forwarder of the same store has the lock; the channel ended with the attempt.</summary>
internal sealed class LockHeldException() : Exception("Another forwarder of this store has the lock.");
