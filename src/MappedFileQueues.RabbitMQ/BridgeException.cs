namespace MappedFileQueues.RabbitMQ;

/// <summary>The bridge cannot continue without a decision of a person or a policy. The message says what is ambiguous.</summary>
/// <param name="fault">What kind of fault it is.</param>
/// <param name="message">What failed, with the values, and the remedy.</param>
/// <param name="inner">The cause.</param>
public sealed class BridgeException(BridgeFault fault, string message, Exception? inner = null)
    : MappedFileQueueException(message, inner)
{
    /// <summary>What kind of fault it is.</summary>
    public BridgeFault Fault { get; } = fault;
}

/// <summary>Why a bridge stops.</summary>
public enum BridgeFault
{
    /// <summary>The source is not the one that the stream knows, or not as it was: replaced, cut back, restored.</summary>
    SourceChanged = 1,

    /// <summary>The stream lacks what is between two envelopes, because its retention removed it or it was replaced.</summary>
    Gap = 2,

    /// <summary>The target store holds something other than what the fetcher appended.</summary>
    TargetChanged = 3,

    /// <summary>The broker refuses a message again and again, and no dead letters are kept.</summary>
    Refused = 4,

    /// <summary>The queue of the stream's name is of another kind.</summary>
    NoStream = 5,

    /// <summary>A record is longer than a message of the target store may be.</summary>
    TargetTooSmall = 6,

    /// <summary>The store of dead letters cannot take a record: it is too small, of another kind, damaged or in use.</summary>
    DeadLetters = 7,

    /// <summary>
    /// The broker refuses the account, its virtual host or a right. Only <see cref="StreamForwarder.RunOnceAsync"/> ends at that:
    /// a bridge that runs for ever tries again until somebody has granted it.
    /// </summary>
    Denied = 8,
}
