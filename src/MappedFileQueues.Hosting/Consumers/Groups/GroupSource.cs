using System.Diagnostics;

namespace MappedFileQueues.Hosting.Consumers.Groups;

/// <summary>
/// A member of a group as the service sees it, whatever its messages are made of. Used by one thread at a time. What was taken
/// stays in hand until it is acknowledged or rejected; at the end it is given back.
/// </summary>
/// <typeparam name="T">What the handler gets.</typeparam>
internal abstract class GroupSource<T> : IDisposable
{
    /// <summary>The offset of the message that was taken last, or of the first one of the batch.</summary>
    public abstract long Offset { get; }

    /// <summary>The offsets of the batch that was taken last.</summary>
    public abstract ReadOnlyMemory<long> Offsets { get; }

    /// <summary>How often what was taken last was handed out. More than one: the message is alone.</summary>
    public abstract int DeliveryCount { get; }

    /// <summary>A copy of the headers of the message that was taken last; null when it has none.</summary>
    public abstract MessageHeaders? Headers { get; }

    /// <summary>Waits until there is a message to take. Another member may be faster.</summary>
    public abstract ValueTask<bool> WaitAsync(CancellationToken cancellationToken);

    /// <summary>Takes the next message, without waiting.</summary>
    /// <exception cref="UnreadableMessageException">It is in hand, but cannot be made of its bytes.</exception>
    public abstract bool TryTake(out T message);

    /// <summary>Takes the messages that are there, without waiting; one that came back comes alone.</summary>
    /// <param name="countMax">The most messages.</param>
    /// <param name="messages">The messages, valid until the next call that takes some.</param>
    /// <param name="links">Takes the traces of the messages; null when nobody listens.</param>
    /// <returns>How many.</returns>
    /// <exception cref="UnreadableMessageException">The first one is in hand, but cannot be made of its bytes.</exception>
    public abstract int TakeBatch(int countMax, out ReadOnlyMemory<T> messages, List<ActivityLink>? links);

    /// <summary>False for a message that was taken, and that a fence has taken away since.</summary>
    public abstract bool IsInHand(long offset);

    /// <summary>They are done.</summary>
    public abstract void Acknowledge(ReadOnlySpan<long> offsets);

    /// <summary>Gives a message back.</summary>
    public abstract void Reject(long offset, TimeSpan delay);

    /// <summary>Moves a message to the dead letters.</summary>
    public abstract void MoveToLetters(long offset, int attempts, string errorType, string error);

    /// <summary>What is acknowledged survives a power loss.</summary>
    public abstract void Flush();

    public abstract void Dispose();
}
