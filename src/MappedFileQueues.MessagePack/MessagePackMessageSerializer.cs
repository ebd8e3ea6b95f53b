using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using MessagePack;

namespace MappedFileQueues;

/// <summary>
/// Messages in the MessagePack format, by MessagePack for C#. Writing allocates nothing; reading allocates the message alone. Any
/// threads may use one instance at a time.
/// </summary>
/// <typeparam name="T">A type that the options' resolver knows.</typeparam>
public sealed class MessagePackMessageSerializer<T> : IBufferedMessageSerializer<T>, IMessageDeserializer<T>
{
    private readonly MessagePackSerializerOptions _options;

    /// <summary>
    /// Uses the standard resolver, which emits code for types with <c>[MessagePackObject]</c> at run time. It limits what hostile
    /// bytes can do (<see cref="MessagePackSecurity.UntrustedData"/>): whoever may write to the store may write anything.
    /// </summary>
    [RequiresDynamicCode("The standard resolver emits code at run time. Pass options with a resolver that was generated.")]
    [RequiresUnreferencedCode(
        "The standard resolver looks at types by reflection. Pass options with a resolver that was generated.")]
    public MessagePackMessageSerializer()
        : this(MessagePackSerializerOptions.Standard.WithSecurity(MessagePackSecurity.UntrustedData))
    {
    }

    /// <summary>
    /// Uses these options as they are. Trimmed programs and native code need a resolver that was generated at compile time.
    /// </summary>
    /// <param name="options">
    /// The resolver, the compression and the security. With <see cref="MessagePackSecurity.TrustedData"/>, the default of options
    /// that say nothing else, bytes that nest deep enough overflow the stack, which ends the process.
    /// </param>
    /// <exception cref="ArgumentNullException"><paramref name="options"/> is null.</exception>
    public MessagePackMessageSerializer(MessagePackSerializerOptions options) =>
        _options = options ?? throw new ArgumentNullException(nameof(options));

    /// <inheritdoc/>
    /// <exception cref="ArgumentNullException"><paramref name="message"/> or <paramref name="destination"/> is null.</exception>
    /// <exception cref="MessagePackSerializationException">The message cannot be written: for example, the resolver does not know
    /// its type.</exception>
    public void Serialize(T message, IBufferWriter<byte> destination)
    {
        ThrowIfNull(message);
        ArgumentNullException.ThrowIfNull(destination);
        MessagePackSerializer.Serialize(destination, message, _options);
    }

    /// <inheritdoc/>
    /// <remarks>Allocates the bytes. A producer calls the other method.</remarks>
    /// <exception cref="ArgumentNullException"><paramref name="message"/> is null.</exception>
    /// <exception cref="MessagePackSerializationException">The message cannot be written.</exception>
    public ReadOnlySpan<byte> Serialize(T message)
    {
        ThrowIfNull(message);
        return MessagePackSerializer.Serialize(message, _options);
    }

    /// <inheritdoc/>
    /// <exception cref="MessagePackSerializationException">The bytes are not such a message, are more than one, or are
    /// nil.</exception>
    public T Deserialize(ReadOnlySpan<byte> buffer)
    {
        // MessagePack reads memory and no span. It gets a copy: memory made of the mapping itself would be a dangling pointer in
        // whatever keeps a piece of it.
        byte[] copy = ArrayPool<byte>.Shared.Rent(buffer.Length);
        try
        {
            buffer.CopyTo(copy);
            T message = MessagePackSerializer.Deserialize<T>(copy.AsMemory(0, buffer.Length), _options, out int length);
            if (length != buffer.Length)
            {
                throw new MessagePackSerializationException(
                    $"Bytes follow the message: read={length}, length={buffer.Length}, {Type}.");
            }

            return message ?? throw new MessagePackSerializationException($"The message is nil: {Type}.");
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(copy);
        }
    }

    private static string Type => $"type={typeof(T)}";

    private static void ThrowIfNull(T message)
    {
        if (message is null)
            throw new ArgumentNullException(nameof(message));
    }
}
