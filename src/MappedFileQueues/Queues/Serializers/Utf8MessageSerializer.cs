using System.Buffers;
using System.Text;

namespace MappedFileQueues;

/// <summary>
/// Strings as UTF-8, for example lines of text. Writing allocates nothing; reading allocates the string alone. Any threads may
/// use <see cref="Instance"/> at a time.
/// </summary>
public sealed class Utf8MessageSerializer : IBufferedMessageSerializer<string>, IMessageDeserializer<string>
{
    /// <summary>Throws instead of writing or returning other text than it was given.</summary>
    private static readonly UTF8Encoding s_encoding = new(encoderShouldEmitUTF8Identifier: false, throwOnInvalidBytes: true);

    private Utf8MessageSerializer()
    {
    }

    /// <summary>The one instance.</summary>
    public static Utf8MessageSerializer Instance { get; } = new();

    /// <inheritdoc/>
    /// <exception cref="EncoderFallbackException">The string has half of a surrogate pair.</exception>
    public void Serialize(string message, IBufferWriter<byte> destination)
    {
        ArgumentNullException.ThrowIfNull(message);
        ArgumentNullException.ThrowIfNull(destination);
        s_encoding.GetBytes(message, destination);
    }

    /// <inheritdoc/>
    /// <exception cref="EncoderFallbackException">The string has half of a surrogate pair.</exception>
    /// <remarks>Allocates the bytes. A producer calls the other method.</remarks>
    public ReadOnlySpan<byte> Serialize(string message) => s_encoding.GetBytes(message);

    /// <inheritdoc/>
    /// <exception cref="DecoderFallbackException">The bytes are not UTF-8.</exception>
    public string Deserialize(ReadOnlySpan<byte> buffer) => s_encoding.GetString(buffer);
}
