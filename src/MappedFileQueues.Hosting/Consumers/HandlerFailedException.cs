namespace MappedFileQueues.Hosting;

/// <summary>A handler has refused a message at every attempt, and the consumer has stopped there.</summary>
public sealed class HandlerFailedException : Exception
{
    internal HandlerFailedException(string message, Exception cause, long offset)
        : base(message, cause) => Offset = offset;

    /// <summary>The offset of the message.</summary>
    public long Offset { get; }
}
