using System.Collections;
using System.Text.Json;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Writes the text and the values of a scope. A scope made from a template has its message. Others have their ToString, unless
/// that is only the name of their type; then they are described by their values. If a scope throws, the exception takes its
/// place.
/// </summary>
internal static class ScopeWriter
{
    /// <summary>Writes the scope as text.</summary>
    public static void WriteText(LineWriter writer, object? scope)
    {
        LineBuffer target = writer.Line;
        int start = target.Length;
        try
        {
            if (!TryWriteMessage(target, scope))
                WritePairs(target, ValuePairs.Collect(writer, scope));
        }
        catch (Exception error)
        {
            target.Truncate(start);
            MessageWriter.WriteFailure(target, error);
        }
    }

    /// <summary>
    /// Writes the scope as a string or, if it has names and values, as an object: `message` if there is one, `template`,
    /// `values`.
    /// </summary>
    public static void WriteJson(LineWriter writer, Utf8JsonWriter json, object? scope)
    {
        LineBuffer message = writer.Message;
        List<KeyValuePair<string, object?>> pairs = [];
        bool hasMessage = true;
        message.Clear();
        try
        {
            // Before anything is written, because nothing written here can be taken back.
            pairs = ValuePairs.Collect(writer, scope);
            hasMessage = TryWriteMessage(message, scope);
        }
        catch (Exception error)
        {
            message.Clear();
            MessageWriter.WriteFailure(message, error);
        }

        if (!ValuePairs.AreIn(scope))
        {
            json.WriteStringValue(message.Written);
            return;
        }

        json.WriteStartObject();
        if (hasMessage)
            json.WriteString(JsonLineFormatter.MessageName, message.Written);
        JsonLineFormatter.WritePairs(writer, json, pairs);
        json.WriteEndObject();
    }

    /// <summary>False when the scope has no text besides its names and values.</summary>
    private static bool TryWriteMessage(LineBuffer target, object? scope)
    {
        if (scope is null or string or not IEnumerable)
        {
            MessageWriter.WriteValue(target, scope, null);
            return true;
        }

        if (scope is IReadOnlyList<KeyValuePair<string, object?>> values
            && scope.GetType().Assembly == typeof(Microsoft.Extensions.Logging.ILogger).Assembly
            && MessageWriter.TryRender(target, values))
            return true;
        if (scope.ToString() is { } text && text != scope.GetType().ToString())
        {
            target.Write(text);
            return true;
        }

        if (ValuePairs.AreIn(scope))
            return false;
        MessageWriter.WriteValue(target, scope, null);
        return true;
    }

    private static void WritePairs(LineBuffer target, List<KeyValuePair<string, object?>> pairs)
    {
        bool isFirst = true;
        foreach (KeyValuePair<string, object?> pair in pairs)
        {
            if (!isFirst)
                target.Write(", "u8);
            isFirst = false;
            target.Write(pair.Key);
            target.Write((byte)'=');
            MessageWriter.WriteValue(target, pair.Value, null);
        }
    }
}
