using System.Text.Json;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>Reads an export of either form; the first bytes tell which it is.</summary>
internal abstract class ImportSource
{
    /// <summary>A byte of text takes six at most (`\u0001`), and the rest of a line is short.</summary>
    public const int LineLengthMax = (6 * FrameHeader.PayloadLengthMax) + (1 << 20);

    /// <summary>What the export says about its store; null for lines that were written by hand.</summary>
    public StoreHeader? Header { get; protected set; }

    /// <summary>Opens an export.</summary>
    public static ImportSource Open(InputReader input) =>
        input.Peek(BinaryForm.Magic.Length).SequenceEqual(BinaryForm.Magic) ? new BinarySource(input) : new LineSource(input);

    /// <summary>The headers of the message that was read last; null without any.</summary>
    public MessageHeaders? Headers { get; protected set; }

    /// <summary>Reads the next message; false at the end. Throws when a part is missing or damaged.</summary>
    public abstract bool TryRead(out ReadOnlySpan<byte> message);

    private static ToolException Short(long count) => new(
        $"The export ends too early: messages={count}. Those before it were imported; export the store again.");

    private static ToolException Followed(long count) => new(
        $"Something follows the end of the export: messages={count}. Those were imported; import each export by itself.");

    /// <summary>The binary form.</summary>
    private sealed class BinarySource : ImportSource
    {
        private readonly InputReader _input;
        private long _count;

        public BinarySource(InputReader input)
        {
            _input = input;
            Header = BinaryForm.ReadHeader(ReadExactly(BinaryForm.HeaderLength));
        }

        public override bool TryRead(out ReadOnlySpan<byte> message)
        {
            bool isMessage = BinaryForm.TryReadPrefix(
                _input.Peek(BinaryForm.PrefixLength), out int length, out bool hasBlock, out long count);
            ReadOnlySpan<byte> bytes = ReadExactly(BinaryForm.PrefixLength + length + BinaryForm.ChecksumLength);
            message = bytes.Slice(BinaryForm.PrefixLength, length);
            var headers = new MessageHeadersView(hasBlock ? message : default);
            if (BitConverter.ToUInt32(bytes[^BinaryForm.ChecksumLength..]) != BinaryForm.ChecksumOf(bytes, message)
                || hasBlock == headers.IsEmpty)
            {
                throw new ToolException($"The export is damaged: message={_count + 1}. Those before it were imported; export the "
                    + "store again.");
            }

            Headers = hasBlock ? headers.ToHeaders() : null;
            message = message[headers.Block.Length..];
            if (!isMessage && count != _count)
                throw Short(_count);
            if (!isMessage && !_input.Peek(1).IsEmpty)
                throw Followed(_count);
            _count++;
            return isMessage;
        }

        private ReadOnlySpan<byte> ReadExactly(int length) =>
            _input.Read(length) is var bytes && bytes.Length == length ? bytes : throw Short(_count);
    }

    /// <summary>
    /// Lines of JSON, each with `text` or `base64`, and the headers that an export writes; other properties mean nothing.
    /// </summary>
    private sealed class LineSource : ImportSource
    {
        private readonly InputReader _lines;
        private byte[] _text = [];
        private ReadOnlyMemory<byte> _message;
        private bool _hasFirst;
        private bool _isOver;
        private long _count;

        public LineSource(InputReader lines)
        {
            _lines = lines;
            // The first line is the head of an export, or a message.
            _hasFirst = TryReadLine();
        }

        public override bool TryRead(out ReadOnlySpan<byte> message)
        {
            bool found = _hasFirst || (!_isOver && TryReadLine());
            _hasFirst = false;
            message = _message.Span;
            _count += found ? 1 : 0;
            return found;
        }

        private bool TryReadLine()
        {
            while (_lines.TryReadLine(out ReadOnlySpan<byte> line))
            {
                if (line.IsEmpty)
                    continue;
                if (TryTakeMessage(line))
                    return true;
                Utf8JsonReader reader = new(line);
                var json = JsonElement.ParseValue(ref reader);
                if (Header is null && _count == 0 && json.TryGetProperty("export", out _))
                {
                    Header = HeaderOf(json);
                    continue;
                }

                if (!json.TryGetProperty("end", out JsonElement end) || end.ValueKind != JsonValueKind.Number)
                    throw Wrong();
                _isOver = true;
                if (!end.TryGetInt64(out long count) || count != _count)
                    throw Short(_count);
                while (_lines.TryReadLine(out line))
                {
                    if (!line.IsEmpty)
                        throw Followed(_count);
                }

                return false;
            }

            _isOver = true;
            return Header is null ? false : throw Short(_count);
        }

        /// <summary>
        /// Takes the message of a line; false if it has none. Lines of other programs may have properties of any name beside it.
        /// The text goes from the line to its bytes directly: as a string it would need twice the room.
        /// </summary>
        private bool TryTakeMessage(ReadOnlySpan<byte> line)
        {
            Utf8JsonReader reader = new(line);
            bool hasText = false;
            byte[]? base64 = null;
            HeaderText.Fields headers = default;
            try
            {
                if (!reader.Read() || reader.TokenType != JsonTokenType.StartObject)
                    throw Wrong();
                while (reader.Read() && reader.TokenType == JsonTokenType.PropertyName)
                {
                    bool isText = reader.ValueTextEquals("text"u8);
                    bool isBase64 = reader.ValueTextEquals("base64"u8);
                    if (HeaderText.TryTake(ref reader, ref headers))
                        continue;
                    reader.Read();
                    if (isText && reader.TokenType == JsonTokenType.String)
                    {
                        hasText = true;
                        if (_text.Length < reader.ValueSpan.Length)
                            _text = new byte[reader.ValueSpan.Length];
                        _message = _text.AsMemory(0, reader.CopyString(_text));
                    }
                    else if (isBase64 && reader.TokenType == JsonTokenType.String)
                    {
                        reader.TryGetBytesFromBase64(out base64);
                    }
                    else
                    {
                        reader.Skip();
                    }
                }

                // A second object on the line, as a lost newline leaves it, is a message that would be left out in silence.
                if (reader.Read())
                    throw Wrong();
            }
            catch (Exception error) when (error is JsonException or InvalidOperationException)
            {
                // No JSON, or half of a surrogate pair, which is no text.
                throw Wrong();
            }

            Headers = headers.ToHeaders();
            if (!hasText)
                _message = base64;
            return hasText || base64 is not null;
        }

        private static StoreHeader HeaderOf(JsonElement json)
        {
            StoreHeader? header = null;
            try
            {
                header = json.Deserialize(ToolJson.Lines.StoreHeader);
            }
            catch (JsonException)
            {
                // A field is missing, or is something else.
            }

            if (header is { Export: > StoreHeader.Version })
            {
                throw new ToolException($"The export has a newer form: version={header.Export}, newest known="
                    + $"{StoreHeader.Version}. Import it with a newer mfq.");
            }

            return header is { StructSize: >= 0, SegmentSize: > 0 and <= StoreMeta.SegmentLengthMax }
                ? header
                : throw new ToolException("The head of the export is damaged. Export the store again.");
        }

        private ToolException Wrong() => new(
            $"A line is no message: after={_count} messages. Each line is a JSON object with `text` or `base64`; correct it, and "
                + $"continue with --skip {_count}.");
    }
}
