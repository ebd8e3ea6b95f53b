using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using MemoryPack;

namespace MappedFileQueues;

/// <summary>
/// Messages in the MemoryPack format. Writing allocates nothing; reading reads the bytes where they are, and allocates the
/// message alone. Any threads may use one instance at a time.
/// </summary>
/// <remarks>
/// In trimmed programs and native code, give <typeparamref name="T"/> <c>[MemoryPackable]</c>: the generator then registers what
/// its members need, which MemoryPack otherwise looks for by reflection. MemoryPack limits no depth when it reads. Where a type
/// contains itself, bytes that nest deep enough overflow the stack, which ends the process.
/// </remarks>
/// <typeparam name="T">A type with <c>[MemoryPackable]</c>, or one that MemoryPack knows by itself.</typeparam>
/// <param name="options">How strings are written; null for MemoryPack's default, UTF-8.</param>
public sealed class MemoryPackMessageSerializer<
    [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.All)] T>(MemoryPackSerializerOptions? options = null)
    : IBufferedMessageSerializer<T>, IMessageDeserializer<T>
{
    /// <inheritdoc/>
    /// <exception cref="ArgumentNullException"><paramref name="message"/> or <paramref name="destination"/> is null.</exception>
    /// <exception cref="MemoryPackSerializationException">The message cannot be written: for example, its type is not known, or
    /// it is a cycle.</exception>
    public void Serialize(T message, IBufferWriter<byte> destination)
    {
        ThrowIfNull(message);
        ArgumentNullException.ThrowIfNull(destination);
        MemoryPackSerializer.Serialize(in destination, in message, options);
    }

    /// <inheritdoc/>
    /// <remarks>Allocates the bytes. A producer calls the other method.</remarks>
    /// <exception cref="ArgumentNullException"><paramref name="message"/> is null.</exception>
    /// <exception cref="MemoryPackSerializationException">The message cannot be written.</exception>
    public ReadOnlySpan<byte> Serialize(T message)
    {
        ThrowIfNull(message);
        return MemoryPackSerializer.Serialize(in message, options);
    }

    /// <inheritdoc/>
    /// <exception cref="MemoryPackSerializationException">The bytes are not such a message, are more than one, or are
    /// null.</exception>
    public T Deserialize(ReadOnlySpan<byte> buffer)
    {
        T? message = default;
        int length;
        try
        {
            length = MemoryPackSerializer.Deserialize(buffer, ref message, options);
        }
        catch (Exception error) when (error is not (MemoryPackSerializationException or OutOfMemoryException))
        {
            // A negative length, a key that comes twice, a date out of range: MemoryPack lets through what the framework says.
            throw new MemoryPackSerializationException($"The bytes are no message: {Type}.", error);
        }

        if (length != buffer.Length)
        {
            throw new MemoryPackSerializationException(
                $"Bytes follow the message: read={length}, length={buffer.Length}, {Type}.");
        }

        return message ?? throw new MemoryPackSerializationException($"The message is null: {Type}.");
    }

    private static string Type => $"type={typeof(T)}";

    private static void ThrowIfNull(T message)
    {
        if (message is null)
            throw new ArgumentNullException(nameof(message));
    }
}
