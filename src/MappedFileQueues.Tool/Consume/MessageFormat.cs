using System.Buffers;
using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Unicode;

namespace MappedFileQueues.Tool.Consume;

/// <summary>The forms of a message, as `--format` names them.</summary>
internal enum MessageForm { Text, Hex, Json, Struct }

/// <summary>
/// How messages are written; the fields are those of a struct, and of JSON with fields. JSON always has headers, the others have
/// them as columns when that is asked for.
/// </summary>
internal sealed record MessageFormat(MessageForm Form, StructFields? Fields = null, bool HasHeaderColumns = false);

/// <summary>Writes messages to a stream in one of the formats.</summary>
internal sealed class MessageWriter : IDisposable
{
    /// <summary>
    /// A message is written in pieces of this length: JSON takes no text of more than 166,666,666 bytes in one piece.
    /// </summary>
    private const int PieceLength = 1 << 20;

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
    public long Write(ReadOnlySpan<byte> message, MessageHeadersView headers, long offset)
    {
        long length = 0;
        if (_format.HasHeaderColumns && _format.Form != MessageForm.Json)
        {
            HeaderText.WriteColumns(headers, _line);
            length = Send();
        }

        if (_format.Form == MessageForm.Text)
        {
            _output.Write(message);
            _output.WriteByte((byte)'\n');
            return length + message.Length + 1L;
        }

        length += _format.Form switch
        {
            MessageForm.Hex => WriteHex(message),
            MessageForm.Json => WriteJson(message, headers, offset),
            _ => WriteStruct(message),
        };
        _line.Write("\n"u8);
        return length + Send();
    }

    /// <summary>Frees the buffers; the stream stays open.</summary>
    public void Dispose() => _json.Dispose();

    private long WriteHex(ReadOnlySpan<byte> message)
    {
        long length = 0;
        while (!message.IsEmpty)
        {
            ReadOnlySpan<byte> piece = TakePiece(ref message);
            Convert.TryToHexStringLower(piece, _line.GetSpan(piece.Length * 2), out int written);
            _line.Advance(written);
            length += Send();
        }

        return length;
    }

    /// <summary>A message that is shorter than the fields is written as digits.</summary>
    private long WriteStruct(ReadOnlySpan<byte> message)
    {
        if (message.Length < _format.Fields!.Length)
            return WriteHex(message);
        _format.Fields.WriteText(message, _line);
        return 0;
    }

    private long WriteJson(ReadOnlySpan<byte> message, MessageHeadersView headers, long offset)
    {
        long length = 0;
        _json.Reset();
        _json.WriteStartObject();
        _json.WriteNumber("offset"u8, offset);
        _json.WriteNumber("length"u8, message.Length);
        HeaderText.WriteJson(headers, _json);
        if (_format.Fields is { } fields && message.Length >= fields.Length)
        {
            fields.WriteJson(message, _json);
        }
        else
        {
            bool isText = Utf8.IsValid(message);
            _json.WritePropertyName(isText ? "text"u8 : "base64"u8);
            do
            {
                ReadOnlySpan<byte> piece = TakePiece(ref message);
                if (isText)
                    _json.WriteStringValueSegment(piece, message.IsEmpty);
                else
                    _json.WriteBase64StringSegment(piece, message.IsEmpty);
                _json.Flush();
                length += Send();
            }
            while (!message.IsEmpty);
        }

        _json.WriteEndObject();
        _json.Flush();
        return length;
    }

    private static ReadOnlySpan<byte> TakePiece(ref ReadOnlySpan<byte> message)
    {
        ReadOnlySpan<byte> piece = message[..Math.Min(PieceLength, message.Length)];
        message = message[piece.Length..];
        return piece;
    }

    /// <summary>Writes what the buffer holds; returns its length.</summary>
    private int Send()
    {
        int length = _line.WrittenCount;
        _output.Write(_line.WrittenSpan);
        _line.ResetWrittenCount();
        return length;
    }
}
