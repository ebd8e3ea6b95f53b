using System.Collections;
using System.Text;

namespace MappedFileQueues.Hosting;

/// <summary>Makes a message from template and values, as Microsoft.Extensions.Logging does, but without a string.</summary>
internal static class MessageWriter
{
    private const string TemplateKey = "{OriginalFormat}";

    private static readonly ListStateReader<IReadOnlyList<KeyValuePair<string, object?>>> s_scopeReader = new();

    /// <summary>
    /// Writes the message; false when nobody can know that the caller's formatter would say the same: then it must be asked.
    /// </summary>
    public static bool TryRender<TState>(
        LineBuffer target, StateReader<TState>? reader, ref readonly TState state, Func<TState, Exception?, string> formatter) =>
        reader is not null && reader.Knows(formatter) && TryRender(target, reader, in state);

    /// <summary>Writes what a scope says; false when it has no template.</summary>
    public static bool TryRender(LineBuffer target, IReadOnlyList<KeyValuePair<string, object?>> scope) =>
        TryRender(target, s_scopeReader, in scope);

    /// <summary>The template, which stands last in the list; null when there is none.</summary>
    public static string? TemplateOf<TState>(StateReader<TState> reader, ref readonly TState state, int count)
    {
        if (count == 0)
            return null;
        KeyValuePair<string, object?> last = reader.Get(in state, count - 1);
        return last.Key == TemplateKey ? last.Value as string : null;
    }

    /// <summary>A value as text.</summary>
    public static void WriteValue(LineBuffer target, object? value, string? format)
    {
        switch (value)
        {
            case null:
                target.Write("(null)"u8);
                break;
            case string text:
                target.Write(text);
                break;
            case IUtf8SpanFormattable utf8:
                target.Write(utf8, format);
                break;
            case ISpanFormattable chars:
                target.WriteChars(chars, format);
                break;
            case IFormattable formattable:
                target.Write(formattable.ToString(format, System.Globalization.CultureInfo.InvariantCulture));
                break;
            case IEnumerable items:
                WriteItems(target, items);
                break;
            default:
                target.Write(value.ToString());
                break;
        }
    }

    private static bool TryRender<TState>(LineBuffer target, StateReader<TState> reader, ref readonly TState state)
    {
        int count = reader.Count(in state);
        if (TemplateOf(reader, in state, count) is not { } template)
            return false;
        if (count == 1)
        {
            // Without arguments braces are text.
            target.Write(template);
            return true;
        }

        int hole = 0;
        foreach (ref readonly MessageTemplate.Part part in reader.Parse(template).Parts.AsSpan())
        {
            if (part.Name is null)
                target.Write(part.Text);
            else
                WriteHole(target, reader, in state, count - 1, in part, hole++);
        }

        return true;
    }

    private static void WriteItems(LineBuffer target, IEnumerable items)
    {
        bool isFirst = true;
        foreach (object? item in items)
        {
            if (!isFirst)
                target.Write(", "u8);
            isFirst = false;
            target.Write(item is null ? "(null)" : item.ToString());
        }
    }

    private static void WriteHole<TState>(
        LineBuffer target,
        StateReader<TState> reader,
        ref readonly TState state,
        int count,
        ref readonly MessageTemplate.Part part,
        int hole)
    {
        if (!TryFind(reader, in state, count, part.Name!, hole, out object? value))
        {
            target.Write((byte)'{');
            target.Write(part.Name);
            target.Write((byte)'}');
            return;
        }

        int start = target.Length;
        WriteValue(target, value, part.Format);
        if (part.Alignment == 0)
            return;
        int missing = Math.Abs(part.Alignment) - Encoding.UTF8.GetCharCount(target.Written[start..]);
        if (missing > 0)
            target.Pad(part.Alignment > 0 ? start : target.Length, missing);
    }

    /// <summary>
    /// Values stand in the order of the holes, or, from some generated code, in another: then the name finds them.
    /// </summary>
    private static bool TryFind<TState>(
        StateReader<TState> reader, ref readonly TState state, int count, string name, int hole, out object? value)
    {
        for (int i = 0, at = hole; i < count; i++, at++)
        {
            KeyValuePair<string, object?> pair = reader.Get(in state, at < count ? at : at % count);
            value = pair.Value;
            if (string.Equals(pair.Key, name) || string.Equals(pair.Key, name, StringComparison.OrdinalIgnoreCase))
                return true;
        }

        value = null;
        return false;
    }
}
