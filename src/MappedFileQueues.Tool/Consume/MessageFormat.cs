using System.Buffers;
using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Unicode;

namespace MappedFileQueues.Tool.Consume;

/// <summary>The forms of a message.</summary>
internal enum MessageForm
{
    /// <summary>The bytes as they are, and a newline.</summary>
    Text,

    /// <summary>Two hexadecimal digits per byte, and a newline.</summary>
    Hex,

    /// <summary>
    /// One JSON object per line, with offset, length, and the message as `text` or, if it is not UTF-8, as `base64`.
    /// </summary>
    Json,

    /// <summary>The fields of a struct by name, on one line.</summary>
    Struct,
}

/// <summary>How messages are written.</summary>
/// <param name="Form">The form.</param>
/// <param name="Fields">The fields of each message, for <see cref="MessageForm.Struct"/> and for JSON with fields.</param>
internal sealed record MessageFormat(MessageForm Form, StructFields? Fields = null);

/// <summary>Writes messages to a stream in one of the formats.</summary>
internal sealed class MessageWriter : IDisposable
{
    private readonly Stream _output;
    private readonly MessageFormat _format;
    private readonly ArrayBufferWriter<byte> _line = new();
    private readonly Utf8JsonWriter _json;

    /// <summary>Writes to <paramref name="output"/>, which stays the caller's.</summary>
    public MessageWriter(Stream output, MessageFormat format)
    {
        (_output, _format) = (output, format);

        // The output is for terminals and programs, never part of a web page, so only what JSON itself requires is escaped.
        _json = new Utf8JsonWriter(_line, new JsonWriterOptions { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping });
    }

    /// <summary>Writes a message, and returns the number of bytes written.</summary>
    public int Write(ReadOnlySpan<byte> message, long offset)
    {
        switch (_format.Form)
        {
            case MessageForm.Hex:
                WriteHex(message);
                break;
            case MessageForm.Json:
                WriteJson(message, offset);
                break;
            case MessageForm.Struct:
                WriteStruct(message);
                break;
            default:
                _output.Write(message);
                _output.WriteByte((byte)'\n');
                return message.Length + 1;
        }

        _line.Write("\n"u8);
        int length = _line.WrittenCount;
        _output.Write(_line.WrittenSpan);
        _line.ResetWrittenCount();
        return length;
    }

    /// <summary>Frees the buffers; the stream stays open.</summary>
    public void Dispose() => _json.Dispose();

    private void WriteHex(ReadOnlySpan<byte> message)
    {
        const int ChunkLength = 4096;
        while (!message.IsEmpty)
        {
            ReadOnlySpan<byte> chunk = message[..Math.Min(ChunkLength, message.Length)];
            Convert.TryToHexStringLower(chunk, _line.GetSpan(chunk.Length * 2), out int written);
            _line.Advance(written);
            message = message[chunk.Length..];
        }
    }

    /// <summary>A message that is shorter than the fields is written as digits.</summary>
    private void WriteStruct(ReadOnlySpan<byte> message)
    {
        if (message.Length < _format.Fields!.Length)
            WriteHex(message);
        else
            _format.Fields.WriteText(message, _line);
    }

    private void WriteJson(ReadOnlySpan<byte> message, long offset)
    {
        _json.Reset();
        _json.WriteStartObject();
        _json.WriteNumber("offset"u8, offset);
        _json.WriteNumber("length"u8, message.Length);
        if (_format.Fields is { } fields && message.Length >= fields.Length)
            fields.WriteJson(message, _json);
        else if (Utf8.IsValid(message))
            _json.WriteString("text"u8, message);
        else
            _json.WriteBase64String("base64"u8, message);
        _json.WriteEndObject();
        _json.Flush();
    }
}
