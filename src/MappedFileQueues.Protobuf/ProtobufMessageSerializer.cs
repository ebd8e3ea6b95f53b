using System.Buffers;
using Google.Protobuf;

namespace MappedFileQueues;

/// <summary>
/// Messages in the binary format of Protocol Buffers, by Google.Protobuf. Writing allocates nothing; reading allocates the
/// message alone. Any threads may use one instance at a time.
/// </summary>
/// <typeparam name="T">A type that protoc generated.</typeparam>
/// <param name="parser">The type's parser: its static property <c>Parser</c>.</param>
/// <exception cref="ArgumentNullException"><paramref name="parser"/> is null.</exception>
public sealed class ProtobufMessageSerializer<T>(MessageParser<T> parser)
    : IBufferedMessageSerializer<T>, IMessageDeserializer<T>
    where T : IMessage<T>
{
    private readonly MessageParser<T> _parser = parser ?? throw new ArgumentNullException(nameof(parser));

    /// <inheritdoc/>
    public void Serialize(T message, IBufferWriter<byte> destination)
    {
        ArgumentNullException.ThrowIfNull(message);
        ArgumentNullException.ThrowIfNull(destination);
        // Into one span of the right length: writing to the destination itself would ask it for room again and again.
        int length = message.CalculateSize();
        message.WriteTo(destination.GetSpan(length)[..length]);
        destination.Advance(length);
    }

    /// <inheritdoc/>
    /// <remarks>Allocates the bytes. A producer calls the other method.</remarks>
    public ReadOnlySpan<byte> Serialize(T message) => message.ToByteArray();

    /// <inheritdoc/>
    /// <exception cref="InvalidProtocolBufferException">The bytes are not such a message.</exception>
    public T Deserialize(ReadOnlySpan<byte> buffer) => _parser.ParseFrom(buffer);
}
