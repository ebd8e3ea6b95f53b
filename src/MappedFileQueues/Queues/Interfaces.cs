namespace MappedFileQueues;

/// <summary>The producer's side of a struct queue, as in 1.x.</summary>
/// <typeparam name="T">The message.</typeparam>
public interface IMappedFileProducer<T>
    where T : struct
{
    /// <summary>The offset at which the next message will be written.</summary>
    long Offset { get; }

    /// <summary>Everything before it is on disk, whichever process flushed it.</summary>
    long ConfirmedOffset { get; }

    /// <summary>
    /// Does nothing when the producer is at that offset. A producer appends at the log's end, where <see cref="Offset"/> is; the
    /// member is here so that code written for 1.x compiles.
    /// </summary>
    /// <param name="offset">The value of <see cref="Offset"/>.</param>
    /// <exception cref="NotSupportedException">The producer is at another offset.</exception>
    void AdjustOffset(long offset);

    /// <summary>Appends a message.</summary>
    /// <param name="message">The message.</param>
    void Produce(ref T message);
}

/// <summary>The consumer's side of a struct queue, as in 1.x.</summary>
/// <typeparam name="T">The message.</typeparam>
public interface IMappedFileConsumer<T>
    where T : struct
{
    /// <summary>The offset of the next message to read.</summary>
    long Offset { get; }

    /// <summary>Moves the consumer to an offset.</summary>
    /// <param name="offset">A frame's start or the tail.</param>
    /// <exception cref="InvalidOperationException">A message was consumed and not committed.</exception>
    void AdjustOffset(long offset);

    /// <summary>Waits for the next message. Until <see cref="Commit"/>, every call gives the same message.</summary>
    /// <param name="message">The message.</param>
    void Consume(out T message);

    /// <summary>Marks the current message as done.</summary>
    void Commit();
}

/// <summary>The producer's side of a message queue, as in Stream 1.x.</summary>
public interface IMappedFileProducer
{
    /// <summary>The offset at which the next message will be written.</summary>
    long Offset { get; }

    /// <summary>Appends a message.</summary>
    /// <param name="buffer">The message; may be empty.</param>
    void Produce(ReadOnlySpan<byte> buffer);

    /// <summary>Serializes and appends a message.</summary>
    /// <typeparam name="T">The message's type.</typeparam>
    /// <param name="message">The message.</param>
    /// <param name="serializer">Turns the message into bytes.</param>
    void Produce<T>(T message, IMessageSerializer<T> serializer);
}

/// <summary>The consumer's side of a message queue, as in Stream 1.x.</summary>
public interface IMappedFileConsumer
{
    /// <summary>The offset of the next message to read.</summary>
    long Offset { get; }

    /// <summary>Moves the consumer to an offset.</summary>
    /// <param name="offset">A frame's start or the tail.</param>
    /// <exception cref="InvalidOperationException">A message was consumed and not committed.</exception>
    void AdjustOffset(long offset);

    /// <summary>Waits for the next message, which is valid until the next call on this consumer.</summary>
    /// <returns>The message, in the mapping.</returns>
    ReadOnlySpan<byte> Consume();

    /// <summary>Waits for the next message and deserializes it.</summary>
    /// <typeparam name="T">The message's type.</typeparam>
    /// <param name="deserializer">Creates the message from bytes.</param>
    /// <returns>The message.</returns>
    T Consume<T>(IMessageDeserializer<T> deserializer);

    /// <summary>Marks the current message as done.</summary>
    void Commit();
}
