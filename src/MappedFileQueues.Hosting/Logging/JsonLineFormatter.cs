using System.Text.Json;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>See <see cref="LogLineFormat.Json"/>.</summary>
internal sealed class JsonLineFormatter(TimeProvider time) : LineFormatter
{
    private static readonly JsonEncodedText s_time = JsonEncodedText.Encode("time");
    private static readonly JsonEncodedText s_level = JsonEncodedText.Encode("level");
    private static readonly JsonEncodedText s_category = JsonEncodedText.Encode("category");
    private static readonly JsonEncodedText s_id = JsonEncodedText.Encode("id");
    private static readonly JsonEncodedText s_event = JsonEncodedText.Encode("event");
    private static readonly JsonEncodedText s_message = JsonEncodedText.Encode("message");
    private static readonly JsonEncodedText s_template = JsonEncodedText.Encode("template");
    private static readonly JsonEncodedText s_values = JsonEncodedText.Encode("values");
    private static readonly JsonEncodedText s_scopes = JsonEncodedText.Encode("scopes");
    private static readonly JsonEncodedText s_exception = JsonEncodedText.Encode("exception");

    private static readonly JsonEncodedText[] s_levels =
        [.. Enum.GetNames<LogLevel>().Select(name => JsonEncodedText.Encode(name))];

    /// <summary>Writes the line, with its end, from the message that stands in the writer.</summary>
    public void Write<TState>(
        LineWriter writer, in LogEntry entry, StateReader<TState>? reader, ref readonly TState state)
    {
        Utf8JsonWriter json = writer.StartJson();
        json.WriteStartObject();
        json.WriteString(s_time, time.GetUtcNow().UtcDateTime);
        if ((uint)entry.Level < (uint)s_levels.Length)
            json.WriteString(s_level, s_levels[(int)entry.Level]);
        else
            json.WriteString(s_level, entry.Level.ToString("D"));
        json.WriteString(s_category, entry.Category);
        if (entry.Id.Id != 0)
            json.WriteNumber(s_id, entry.Id.Id);
        if (entry.Id.Name is { } name)
            json.WriteString(s_event, name);
        json.WriteString(s_message, writer.Message.Written);
        if (reader is not null)
            WriteState(writer, json, reader, in state);
        WriteScopes(writer, json);
        if (entry.Exception is { } exception)
            json.WriteString(s_exception, exception.ToString());
        json.WriteEndObject();
        json.Flush();
        writer.Line.Write((byte)'\n');
    }

    private static void WriteState<TState>(
        LineWriter writer, Utf8JsonWriter json, StateReader<TState> reader, ref readonly TState state)
    {
        int count = reader.Count(in state);
        if (MessageWriter.TemplateOf(reader, in state, count) is { } template)
        {
            json.WriteString(s_template, template);
            count--;
        }

        if (count == 0)
            return;
        json.WriteStartObject(s_values);
        for (int i = 0; i < count; i++)
        {
            KeyValuePair<string, object?> pair = reader.Get(in state, i);
            json.WritePropertyName(pair.Key);
            WriteValue(writer, json, pair.Value);
        }

        json.WriteEndObject();
    }

    private void WriteScopes(LineWriter writer, Utf8JsonWriter json)
    {
        Scopes?.ForEachScope(
            static (scope, writer) =>
            {
                if (!writer.HasScopes)
                    writer.Json.WriteStartArray(s_scopes);
                writer.HasScopes = true;
                writer.Message.Clear();
                WriteScope(writer.Message, scope);
                writer.Json.WriteStringValue(writer.Message.Written);
            },
            writer);
        if (writer.HasScopes)
            json.WriteEndArray();
    }

    private static void WriteValue(LineWriter writer, Utf8JsonWriter json, object? value)
    {
        switch (value)
        {
            case null:
                json.WriteNullValue();
                break;
            case string text:
                json.WriteStringValue(text);
                break;
            case bool isTrue:
                json.WriteBooleanValue(isTrue);
                break;
            case byte or sbyte or short or ushort or int:
                json.WriteNumberValue(Convert.ToInt32(value, null));
                break;
            case uint number:
                json.WriteNumberValue(number);
                break;
            case long number:
                json.WriteNumberValue(number);
                break;
            case ulong number:
                json.WriteNumberValue(number);
                break;
            case decimal number:
                json.WriteNumberValue(number);
                break;
            case double number when double.IsFinite(number):
                json.WriteNumberValue(number);
                break;
            case float number when float.IsFinite(number):
                json.WriteNumberValue(number);
                break;
            default:
                // The message is in the line already: its buffer is free.
                writer.Message.Clear();
                MessageWriter.WriteValue(writer.Message, value, null);
                json.WriteStringValue(writer.Message.Written);
                break;
        }
    }
}
