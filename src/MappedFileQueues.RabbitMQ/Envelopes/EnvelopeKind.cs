namespace MappedFileQueues.RabbitMQ;

/// <summary>What an envelope is for.</summary>
public enum EnvelopeKind
{
    /// <summary>Carries records of a store; without any it says only that a range of the store holds none.</summary>
    Records = 1,

    /// <summary>The mark of a forwarder that has just got the lock. It carries nothing.</summary>
    Marker = 2,
}
