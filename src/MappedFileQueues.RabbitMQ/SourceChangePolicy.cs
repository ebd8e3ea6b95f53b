namespace MappedFileQueues.RabbitMQ;

/// <summary>What a bridge does when it is not certain that the source continues where the stream ends.</summary>
public enum SourceChangePolicy
{
    /// <summary>Stops with a <see cref="BridgeException"/> that says what is ambiguous.</summary>
    Stop = 0,

    /// <summary>Logs what is ambiguous, and continues with the source as it is now.</summary>
    Continue = 1,
}
