using System.Buffers.Binary;
using System.Text.Json;
using System.Text.Json.Serialization;

namespace MappedFileQueues;

/// <summary>
/// A message that a handler, or the broker of a bridge, has refused, as it is in a store of dead letters: a length of 4 bytes
/// (little-endian), as many bytes of JSON that tell where it comes from, and the message itself.
/// </summary>
public sealed class DeadLetter
{
    /// <summary>
    /// The most bytes of a letter besides its message: the numbers, two names of at most 100 characters, and the two texts of the
    /// error, each character of which may take six bytes in JSON.
    /// </summary>
    internal const int OverheadMax = 64 * 1024;

    /// <summary>What a letter that is appended again is longer, at most.</summary>
    internal const int RepetitionLengthMax = 64;

    private const int LengthSize = 4;
    private const int ErrorTypeLengthMax = 1024;
    private const int ErrorLengthMax = 8192;

    private ReadOnlyMemory<byte> _message;
    private int _messageLength;

    /// <summary>The store that the message was in.</summary>
    public Guid StoreId { get; init; }

    /// <summary>The recoveries after power losses of that store then. (epoch, offset) identifies the message.</summary>
    public long Epoch { get; init; }

    /// <summary>The message's offset there.</summary>
    public long Offset { get; init; }

    /// <summary>The queue's name in the application; of a bridge, the stream.</summary>
    public string Queue { get; init => field = value ?? ""; } = "";

    /// <summary>The consumer's name; "" for the default consumer.</summary>
    public string Consumer { get; init => field = value ?? ""; } = "";

    /// <summary>When the last attempt had failed, in UTC.</summary>
    public DateTimeOffset Time { get; init; }

    /// <summary>The number of attempts; 0 for a record that was too long to try.</summary>
    public int Attempts { get; init; }

    /// <summary>The type of the last exception, at most 1,024 characters; a longer name is cut and ends with "…".</summary>
    public string ErrorType { get; init => field = value ?? ""; } = "";

    /// <summary>The message of the last exception, at most 8,192 characters; a longer one is cut and ends with "…".</summary>
    public string Error { get; init => field = value ?? ""; } = "";

    /// <summary>
    /// The length of the message, in bytes. No store takes a letter of more than 256 MiB; one that would be longer holds only the
    /// beginning of its message, and the queue has the whole until it is removed there.
    /// </summary>
    public int MessageLength
    {
        get => Math.Max(_messageLength, _message.Length);
        init => _messageLength = value;
    }

    /// <summary>The message, or its beginning.</summary>
    [JsonIgnore]
    public ReadOnlyMemory<byte> Message
    {
        get => _message;
        init => _message = value;
    }

    /// <summary>Where the letter is in its store; -1 for one that <see cref="Parse"/> has made.</summary>
    [JsonIgnore]
    public long LetterOffset { get; internal set; } = -1;

    /// <summary>The headers of the message, which are the letter's too; null without any.</summary>
    [JsonIgnore]
    public MessageHeaders? Headers { get; internal set; }

    /// <summary>The offset of the letter that this one repeats, because it was passed over when others were settled.</summary>
    [JsonInclude]
    [JsonPropertyName("repeats")]
    [JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)]
    internal long? RepeatedOffset { get; set; }

    /// <summary>Reads a message of a store of dead letters. Copies it.</summary>
    /// <param name="bytes">What a consumer of that store has read.</param>
    /// <returns>The dead letter.</returns>
    /// <exception cref="FormatException">It is none.</exception>
    public static DeadLetter Parse(ReadOnlySpan<byte> bytes)
    {
        uint length = bytes.Length < LengthSize ? uint.MaxValue : BinaryPrimitives.ReadUInt32LittleEndian(bytes);
        if (length > bytes.Length - LengthSize)
            throw new FormatException("The message is no dead letter: its head is longer than itself.");
        ReadOnlySpan<byte> head = bytes.Slice(LengthSize, (int)length);
        try
        {
            DeadLetter letter = JsonSerializer.Deserialize(head, DeadLetterJson.Default.DeadLetter)
                ?? throw new FormatException("The message is no dead letter: its head is null.");
            letter._message = bytes[(LengthSize + (int)length)..].ToArray();
            return letter;
        }
        catch (JsonException error)
        {
            throw new FormatException("The message is no dead letter: its head is no JSON.", error);
        }
    }

    /// <summary>The type and the text of an exception, cut to what a letter has room for.</summary>
    internal static (string Type, string Text) Describe(Exception error) =>
        (Cut(error.GetType().FullName, ErrorTypeLengthMax), Cut(ErrorText.Of(error), ErrorLengthMax));

    /// <summary>The text of an error, cut to what a letter has room for.</summary>
    internal static string CutError(string error) => Cut(error, ErrorLengthMax);

    /// <summary>What is appended.</summary>
    /// <param name="lengthMax">The most bytes of a letter; the message is cut to what is left for it.</param>
    internal byte[] ToBytes(int lengthMax = int.MaxValue)
    {
        byte[] head = JsonSerializer.SerializeToUtf8Bytes(this, DeadLetterJson.Default.DeadLetter);
        int start = LengthSize + head.Length;
        ReadOnlyMemory<byte> message = Message[..Math.Min(Message.Length, lengthMax - start)];
        byte[] bytes = new byte[start + message.Length];
        BinaryPrimitives.WriteInt32LittleEndian(bytes, head.Length);
        head.CopyTo(bytes, LengthSize);
        message.CopyTo(bytes.AsMemory(start));
        return bytes;
    }

    private static string Cut(string? text, int lengthMax) => text is null || text.Length <= lengthMax
        ? text ?? ""
        : $"{text.AsSpan(0, lengthMax - (char.IsHighSurrogate(text[lengthMax - 2]) ? 2 : 1))}…";
}

/// <summary>How the head is written.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(DeadLetter))]
internal sealed partial class DeadLetterJson : JsonSerializerContext;
