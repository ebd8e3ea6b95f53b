using System.Diagnostics;

namespace MappedFileQueues.Hosting.Consumers;

/// <summary>
/// A consumer as the service sees it, whatever its messages are made of. Used by one thread at a time. A message that was read
/// stays in hand until <see cref="Commit"/>.
/// </summary>
/// <typeparam name="T">What the handler gets.</typeparam>
internal abstract class MessageSource<T> : IDisposable
{
    /// <summary>Waits until <see cref="TryRead"/> would find a message, or something to throw.</summary>
    public abstract ValueTask<bool> WaitAsync(CancellationToken cancellationToken);

    /// <summary>Reads the next message; reading it again is allowed.</summary>
    public abstract bool TryRead(out T message);

    /// <summary>Reads the messages that are there; the reading position is after them then. Call it after a wait.</summary>
    /// <param name="countMax">The most messages.</param>
    /// <param name="cancellationToken">Ends a wait for the first one.</param>
    /// <param name="messages">The messages, valid until the next call.</param>
    /// <param name="links">Takes the traces of the messages, as many as are kept; null when nobody listens.</param>
    public abstract int ReadBatch(
        int countMax, CancellationToken cancellationToken, out ReadOnlyMemory<T> messages, List<ActivityLink>? links);

    /// <summary>A copy of the headers of the message in hand; null when it has none.</summary>
    public abstract MessageHeaders? Headers { get; }

    /// <summary>The bytes of the message in hand, or of the next one.</summary>
    public abstract byte[] CopyBytes();

    /// <summary>The offset of the message in hand, or of the next one.</summary>
    public abstract long Offset { get; }

    /// <summary>The offset after the message in hand.</summary>
    public abstract long NextOffset { get; }

    public abstract long CommittedOffset { get; }

    /// <summary>What was read is done.</summary>
    public abstract void Commit();

    /// <summary>Also on disk.</summary>
    public abstract ValueTask CommitAsync();

    /// <summary>Back to the committed offset.</summary>
    public abstract void Rewind();

    public abstract void Dispose();
}

/// <summary>The traces of a batch's messages.</summary>
internal static class BatchLinks
{
    /// <summary>What OpenTelemetry keeps of an activity's links by default.</summary>
    private const int CountMax = 128;

    public static void Add(List<ActivityLink>? links, MessageHeadersView headers)
    {
        if (links is { Count: < CountMax } && headers.TryGetTraceContext(out ActivityContext trace))
            links.Add(new ActivityLink(trace));
    }
}

/// <summary>The message could not be made of its bytes: no further attempt can change that.</summary>
internal sealed class UnreadableMessageException(Exception cause) : Exception(cause.Message, cause)
{
    /// <summary>Deserializes, and throws this for whatever the deserializer throws.</summary>
    public static T Deserialize<T>(IMessageDeserializer<T> deserializer, ReadOnlySpan<byte> bytes)
    {
        try
        {
            return deserializer.Deserialize(bytes);
        }
        catch (Exception error) when (error is not OutOfMemoryException)
        {
            throw new UnreadableMessageException(error);
        }
    }
}
