using System.Buffers;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;

namespace MappedFileQueues;

/// <summary>
/// Messages as UTF-8 JSON, by `System.Text.Json` and its source generator: safe to trim and to compile to native code. Writing
/// allocates nothing; reading allocates the message alone. Any threads may use one instance at a time.
/// </summary>
/// <typeparam name="T">The message's type.</typeparam>
/// <param name="typeInfo">How the type is written and read: a property of a JsonSerializerContext, for example
/// <c>MyContext.Default.Order</c>.</param>
/// <exception cref="ArgumentNullException"><paramref name="typeInfo"/> is null.</exception>
public sealed class JsonMessageSerializer<T>(JsonTypeInfo<T> typeInfo) : IBufferedMessageSerializer<T>, IMessageDeserializer<T>
{
    private readonly JsonTypeInfo<T> _typeInfo = typeInfo ?? throw new ArgumentNullException(nameof(typeInfo));

    private readonly JsonWriterOptions _writerOptions = new()
    {
        Encoder = typeInfo.Options.Encoder,
        Indented = typeInfo.Options.WriteIndented,
        IndentCharacter = typeInfo.Options.IndentCharacter,
        IndentSize = typeInfo.Options.IndentSize,
        NewLine = typeInfo.Options.NewLine,
        MaxDepth = typeInfo.Options.MaxDepth,
        // The source generator writes what is valid; the checks cost a tenth.
        SkipValidation = true,
    };

    /// <summary>The writer between two calls; a call that finds none makes its own.</summary>
    private Utf8JsonWriter? _writer;

    /// <inheritdoc/>
    /// <exception cref="JsonException">The message cannot be written: for example, a cycle.</exception>
    /// <exception cref="NotSupportedException">The options have no way to write the type.</exception>
    public void Serialize(T message, IBufferWriter<byte> destination)
    {
        ArgumentNullException.ThrowIfNull(destination);
        // A converter that writes a message of its own through this instance, and other threads, find no writer.
        Utf8JsonWriter? writer = Interlocked.Exchange(ref _writer, null);
        if (writer is null)
            writer = new Utf8JsonWriter(destination, _writerOptions);
        else
            writer.Reset(destination);
        // A writer that an exception has left in the middle of a message is not kept.
        JsonSerializer.Serialize(writer, message, _typeInfo);
        writer.Flush();
        Volatile.Write(ref _writer, writer);
    }

    /// <inheritdoc/>
    /// <remarks>Allocates the bytes. A producer calls the other method.</remarks>
    public ReadOnlySpan<byte> Serialize(T message) => JsonSerializer.SerializeToUtf8Bytes(message, _typeInfo);

    /// <inheritdoc/>
    /// <exception cref="JsonException">The bytes are not JSON, are not of this type, or are the JSON null.</exception>
    public T Deserialize(ReadOnlySpan<byte> buffer) => JsonSerializer.Deserialize(buffer, _typeInfo)
        ?? throw new JsonException($"The message is the JSON null: type={typeof(T)}.");
}
