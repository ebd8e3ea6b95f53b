using System.Collections;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Hosting;

/// <summary>Makes a message from template and values, as Microsoft.Extensions.Logging does, but without a string.</summary>
internal static class MessageWriter
{
    /// <summary>The name of the template among the values.</summary>
    public const string TemplateKey = "{OriginalFormat}";

    private static readonly ListStateReader<IReadOnlyList<KeyValuePair<string, object?>>> s_scopeReader = new();

    /// <summary>
    /// Writes the message. False when it is unknown whether the caller's formatter would produce the same text: then the
    /// formatter must be called.
    /// </summary>
    public static bool TryRender<TState>(
        LineBuffer target, StateReader<TState>? reader, ref readonly TState state, Func<TState, Exception?, string> formatter) =>
        reader is not null && reader.Knows(formatter) && TryRender(target, reader, in state);

    /// <summary>Writes the message of a scope of the framework's own kinds; false when it has no template.</summary>
    public static bool TryRender(LineBuffer target, IReadOnlyList<KeyValuePair<string, object?>> scope) =>
        TryRender(target, s_scopeReader, in scope);

    /// <summary>The template, which is the last in the list; null when there is none.</summary>
    public static string? TemplateOf<TState>(StateReader<TState> reader, ref readonly TState state, int count)
    {
        if (count == 0)
            return null;
        KeyValuePair<string, object?> last = reader.Get(in state, count - 1);
        return last.Key == TemplateKey ? last.Value as string : null;
    }

    /// <summary>
    /// Writes a value as text, as the framework does for a hole of a template. If a value throws, the exception's name and
    /// message take its place; the exception never leaves this method.
    /// </summary>
    public static void WriteValue(LineBuffer target, object? value, string? format)
    {
        int start = target.Length;
        try
        {
            switch (value)
            {
                case null:
                    target.Write("(null)"u8);
                    break;
                case string text:
                    target.Write(text);
                    break;

                // Recognized here, without a search among the many interfaces of a number.
                case int number:
                    target.Write(number, format);
                    break;
                case long number:
                    target.Write(number, format);
                    break;
                case IEnumerable items:
                    WriteItems(target, items);
                    break;
                default:
                    WriteItem(target, value, format);
                    break;
            }
        }
        catch (Exception error)
        {
            target.Truncate(start);
            WriteFailure(target, error);
        }
    }

    /// <summary>
    /// Writes values one after the other, as the framework writes an array; an item that has items itself is not opened.
    /// </summary>
    public static void WriteItems(LineBuffer target, IEnumerable items)
    {
        bool isFirst = true;
        foreach (object? item in items)
        {
            if (!isFirst)
                target.Write(", "u8);
            isFirst = false;
            if (item is null)
                target.Write("(null)"u8);
            else
                WriteItem(target, item, null);
        }
    }

    /// <summary>Writes the text that replaces a value that could not be written.</summary>
    public static void WriteFailure(LineBuffer target, Exception error)
    {
        target.Write((byte)'(');
        target.Write(error.GetType().Name);
        target.Write(": "u8);
        target.Write(TextOf(error, static error => error.Message));
        target.Write((byte)')');
    }

    /// <summary>A text of an exception; asking for it may throw, too.</summary>
    public static string TextOf(Exception error, Func<Exception, string?> text)
    {
        try
        {
            return text(error) ?? "";
        }
        catch (Exception)
        {
            return error.GetType().ToString();
        }
    }

    private static void WriteItem(LineBuffer target, object value, string? format)
    {
        switch (value)
        {
            case string text:
                target.Write(text);
                break;

            // A single surrogate has no UTF-8 form, and would throw.
            case char letter:
                target.Write([letter]);
                break;
            case IFormattable formattable:
                WriteFormattable(target, formattable, format);
                break;
            default:
                target.Write(value.ToString());
                break;
        }
    }

    private static void WriteFormattable(LineBuffer target, IFormattable value, string? format)
    {
        if (value is IUtf8SpanFormattable utf8 && target.TryWrite(utf8, format))
            return;
        if (value is ISpanFormattable chars)
            target.WriteChars(chars, format);
        else
            target.Write(value.ToString(format, CultureInfo.InvariantCulture));
    }

    private static bool TryRender<TState>(LineBuffer target, StateReader<TState> reader, ref readonly TState state)
    {
        int count = reader.Count(in state);
        if (TemplateOf(reader, in state, count) is not { } template)
            return false;
        if (count == 1)
        {
            // Braces may or may not be text here: the state does not tell whether the call had arguments.
            if (template.AsSpan().IndexOfAny('{', '}') >= 0)
                return false;
            target.Write(template);
            return true;
        }

        int start = target.Length;
        int hole = 0;
        foreach (ref readonly MessageTemplate.Part part in reader.Parse(template).Parts.AsSpan())
        {
            if (part.Name is null)
            {
                target.Write(part.Text);
            }
            else if (!TryWriteHole(target, reader, in state, count - 1, in part, hole++))
            {
                target.Truncate(start);
                return false;
            }
        }

        return true;
    }

    /// <summary>False for a value that generated code may write differently from the framework.</summary>
    private static bool TryWriteHole<TState>(
        LineBuffer target,
        StateReader<TState> reader,
        ref readonly TState state,
        int count,
        ref readonly MessageTemplate.Part part,
        int hole)
    {
        if (!TryFind(reader, in state, count, part.Name!, hole, out object? value)
            || (reader.IsGenerated && value is not string and (null or IEnumerable)))
            return false;
        int start = target.Length;
        WriteValue(target, value, part.Format);
        if (part.Alignment == 0)
            return true;
        int missing = Math.Abs(part.Alignment) - Encoding.UTF8.GetCharCount(target.Written[start..]);
        if (missing > 0)
            target.Pad(part.Alignment > 0 ? start : target.Length, missing);
        return true;
    }

    /// <summary>
    /// Finds the value of a hole. Values are in the order of the holes; some generated code uses another order, and then the name
    /// decides.
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
