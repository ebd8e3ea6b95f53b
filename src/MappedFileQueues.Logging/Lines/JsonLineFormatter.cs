using System.Diagnostics;
using System.Text.Json;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Hosting;

/// <summary>See <see cref="LogLineFormat.Json"/>.</summary>
internal sealed class JsonLineFormatter(TimeProvider time, IExternalScopeProvider? scopes) : LineFormatter(scopes)
{
    /// <summary>The name of the message of an entry or a scope.</summary>
    public static readonly JsonEncodedText MessageName = JsonEncodedText.Encode("message");

    private static readonly JsonEncodedText s_time = JsonEncodedText.Encode("time");
    private static readonly JsonEncodedText s_level = JsonEncodedText.Encode("level");
    private static readonly JsonEncodedText s_category = JsonEncodedText.Encode("category");
    private static readonly JsonEncodedText s_id = JsonEncodedText.Encode("id");
    private static readonly JsonEncodedText s_event = JsonEncodedText.Encode("event");
    private static readonly JsonEncodedText s_traceId = JsonEncodedText.Encode("traceId");
    private static readonly JsonEncodedText s_spanId = JsonEncodedText.Encode("spanId");
    private static readonly JsonEncodedText s_template = JsonEncodedText.Encode("template");
    private static readonly JsonEncodedText s_values = JsonEncodedText.Encode("values");
    private static readonly JsonEncodedText s_scopes = JsonEncodedText.Encode("scopes");
    private static readonly JsonEncodedText s_exception = JsonEncodedText.Encode("exception");

    private static readonly JsonEncodedText[] s_levels =
        [.. Enum.GetNames<LogLevel>().Select(name => JsonEncodedText.Encode(name))];

    /// <summary>Writes the line, with its end, around the message that the writer holds.</summary>
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
        WriteTrace(json);
        json.WriteString(MessageName, writer.Message.Written);
        if (reader is not null)
            WriteState(writer, json, reader, in state);
        else if (ValuePairs.AreIn(state))
            WritePairs(writer, json, ValuePairs.Collect(writer, state));
        WriteScopes(writer, json);
        if (entry.Exception is { } exception)
            json.WriteString(s_exception, MessageWriter.TextOf(exception, static exception => exception.ToString()));
        json.WriteEndObject();
        json.Flush();
        writer.Line.Write((byte)'\n');
    }

    /// <summary>Writes `template`, if one is among the pairs, and `values`.</summary>
    public static void WritePairs(LineWriter writer, Utf8JsonWriter json, List<KeyValuePair<string, object?>> pairs)
    {
        int template = pairs.FindIndex(static pair => pair is { Key: MessageWriter.TemplateKey, Value: string });
        if (template >= 0)
            json.WriteString(s_template, (string)pairs[template].Value!);
        if (pairs.Count == (template >= 0 ? 1 : 0))
            return;
        json.WriteStartObject(s_values);
        for (int i = 0; i < pairs.Count; i++)
        {
            if (i != template)
                WritePair(writer, json, pairs[i]);
        }

        json.WriteEndObject();
    }

    /// <summary>
    /// The ids by which a tracing system finds the line. Those of the older, hierarchical format are of no use there. The
    /// activity holds them as strings, so nothing is allocated.
    /// </summary>
    private static void WriteTrace(Utf8JsonWriter json)
    {
        if (Activity.Current is not { IdFormat: ActivityIdFormat.W3C } activity)
            return;
        json.WriteString(s_traceId, activity.TraceId.ToHexString());
        json.WriteString(s_spanId, activity.SpanId.ToHexString());
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
            WritePair(writer, json, reader.Get(in state, i));
        json.WriteEndObject();
    }

    private static void WritePair(LineWriter writer, Utf8JsonWriter json, KeyValuePair<string, object?> pair)
    {
        json.WritePropertyName(pair.Key ?? ValuePairs.NullKey);
        WriteValue(writer, json, pair.Value);
    }

    private void WriteScopes(LineWriter writer, Utf8JsonWriter json)
    {
        Scopes?.ForEachScope(
            static (scope, writer) =>
            {
                if (!writer.HasScopes)
                    writer.Json.WriteStartArray(s_scopes);
                writer.HasScopes = true;
                ScopeWriter.WriteJson(writer, writer.Json, scope);
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
                // The message is already in the line, so its buffer is free.
                writer.Message.Clear();
                MessageWriter.WriteValue(writer.Message, value, null);
                json.WriteStringValue(writer.Message.Written);
                break;
        }
    }
}
