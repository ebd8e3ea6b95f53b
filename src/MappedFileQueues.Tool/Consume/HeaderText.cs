using System.Buffers;
using System.Diagnostics;
using System.Globalization;
using System.Text;
using System.Text.Json;
using System.Text.Unicode;

namespace MappedFileQueues.Tool.Consume;

/// <summary>The headers of a message as properties of JSON and as columns of text.</summary>
internal static class HeaderText
{
    private const int ProducerDigits = 16;

    /// <summary>
    /// Writes `time`, `key` or `keyBase64`, `traceparent`, `tracestate`, `producer` and `sequence`, those that are there.
    /// </summary>
    public static void WriteJson(MessageHeadersView headers, Utf8JsonWriter json)
    {
        if (headers.IsEmpty)
            return;
        if (headers.Time is { } time)
            json.WriteString("time"u8, TextOf(time));
        if (Utf8.IsValid(headers.Key) && headers.Key.Length > 0)
            json.WriteString("key"u8, headers.Key);
        else if (headers.Key.Length > 0)
            json.WriteBase64String("keyBase64"u8, headers.Key);
        if (headers.TryGetTraceContext(out ActivityContext trace))
        {
            json.WriteString("traceparent"u8, TextOf(trace));
            if (trace.TraceState is { Length: > 0 } state)
                json.WriteString("tracestate"u8, state);
        }

        if (headers.ProducerId == 0)
            return;
        json.WriteString("producer"u8, headers.ProducerId.ToString("x16", CultureInfo.InvariantCulture));
        json.WriteNumber("sequence"u8, headers.Sequence);
    }

    /// <summary>Writes time, key and trace, each with a tab after it; `-` where there is none.</summary>
    public static void WriteColumns(MessageHeadersView headers, IBufferWriter<byte> output)
    {
        Write(headers.Time is { } time ? TextOf(time) : "-", output);
        Write(headers.Key.IsEmpty ? "-" : KeyOf(headers.Key), output);
        Write(headers.TryGetTraceContext(out ActivityContext trace) ? TextOf(trace) : "-", output);
    }

    /// <summary>Takes a property of a line that <see cref="WriteJson"/> has written; false when it is none of those.</summary>
    public static bool TryTake(ref Utf8JsonReader property, ref Fields fields)
    {
        string name = property.GetString()!;
        if (name is not ("time" or "key" or "keyBase64" or "traceparent" or "tracestate" or "producer" or "sequence"))
            return false;
        property.Read();
        // Lines of other programs may use these names for something else.
        if (property.TokenType != (name == "sequence" ? JsonTokenType.Number : JsonTokenType.String))
        {
            property.Skip();
            return true;
        }

        switch (name)
        {
            case "time" when property.TryGetDateTimeOffset(out DateTimeOffset time):
                fields.Time = time;
                break;
            case "key":
                fields.Key = Encoding.UTF8.GetBytes(property.GetString()!);
                break;
            case "keyBase64" when property.TryGetBytesFromBase64(out byte[]? key):
                fields.Key = key;
                break;
            case "traceparent":
                fields.TraceParent = property.GetString();
                break;
            case "tracestate":
                fields.TraceState = property.GetString();
                break;
            case "producer" when property.GetString() is { Length: ProducerDigits } digits
                && ulong.TryParse(digits, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out ulong id):
                fields.ProducerId = id;
                break;
            case "sequence" when property.TryGetUInt64(out ulong sequence):
                fields.Sequence = sequence;
                break;
        }

        return true;
    }

    private static string TextOf(DateTimeOffset time) => time.UtcDateTime.ToString("O", CultureInfo.InvariantCulture);

    /// <summary>The form of W3C Trace Context.</summary>
    private static string TextOf(ActivityContext trace) =>
        $"00-{trace.TraceId}-{trace.SpanId}-{(byte)trace.TraceFlags:x2}";

    /// <summary>Text as it is; with a control character, or no text, its digits.</summary>
    private static string KeyOf(ReadOnlySpan<byte> key) =>
        Utf8.IsValid(key) && Encoding.UTF8.GetString(key) is var text && !text.Any(char.IsControl)
            ? text
            : $"0x{Convert.ToHexStringLower(key)}";

    private static void Write(string column, IBufferWriter<byte> output)
    {
        Encoding.UTF8.GetBytes(column, output);
        output.Write("\t"u8);
    }

    /// <summary>The properties of a line.</summary>
    internal struct Fields
    {
        public DateTimeOffset? Time;
        public byte[]? Key;
        public string? TraceParent;
        public string? TraceState;
        public ulong ProducerId;
        public ulong Sequence;

        /// <summary>The headers; null without any.</summary>
        public readonly MessageHeaders? ToHeaders()
        {
            ActivityContext trace = default;
            if (TraceParent is not null)
                ActivityContext.TryParse(TraceParent, TraceState, out trace);
            bool hasKey = Key is { Length: > 0 and <= MessageHeaders.KeyLengthMax };
            return Time is null && !hasKey && trace == default && ProducerId == 0
                ? null
                : new MessageHeaders
                {
                    Time = Time,
                    Key = hasKey ? Key : default,
                    TraceContext = trace,
                    ProducerId = ProducerId,
                    Sequence = Sequence,
                };
        }
    }
}
