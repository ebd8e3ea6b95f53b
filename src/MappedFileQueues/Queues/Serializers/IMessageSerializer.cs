using System.Buffers;

namespace MappedFileQueues;

/// <summary>Turns messages into bytes, as in Stream 1.x.</summary>
/// <typeparam name="T">The message's type.</typeparam>
public interface IMessageSerializer<in T>
{
    /// <summary>Serializes a message. The result is copied before the next call.</summary>
    /// <param name="message">The message.</param>
    /// <returns>The message's bytes.</returns>
    ReadOnlySpan<byte> Serialize(T message);
}

/// <summary>A serializer that writes into the queue's own buffer, so that a message allocates nothing.</summary>
/// <typeparam name="T">The message's type.</typeparam>
public interface IBufferedMessageSerializer<in T> : IMessageSerializer<T>
{
    /// <summary>Serializes into the destination. The default implementation copies the result of the other method.</summary>
    /// <param name="message">The message.</param>
    /// <param name="destination">Receives the bytes.</param>
    void Serialize(T message, IBufferWriter<byte> destination) => destination.Write(Serialize(message));
}

/// <summary>Turns bytes into messages, as in Stream 1.x.</summary>
/// <typeparam name="T">The message's type.</typeparam>
public interface IMessageDeserializer<out T>
{
    /// <summary>Deserializes a message. The buffer is in the mapping and is valid only during the call.</summary>
    /// <param name="buffer">The message's bytes.</param>
    /// <returns>The message.</returns>
    T Deserialize(ReadOnlySpan<byte> buffer);
}
