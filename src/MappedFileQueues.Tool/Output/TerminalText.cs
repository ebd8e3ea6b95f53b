using System.Buffers;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tool.Output;

/// <summary>
/// Text from outside for a terminal. A terminal obeys control characters: a message, a key or the name of a folder could set the
/// window's title, clear the screen, or type into the shell. They are shown as `\x1B` or `\u009B`, as are characters that are
/// invisible or turn the direction of the text, and bytes that are no UTF-8. Tabs and line ends stay, and so do the two invisible
/// characters that join letters or keep them apart, which some scripts cannot do without.
/// </summary>
internal static class TerminalText
{
    /// <summary>Text for standard output: as it is when that is no terminal.</summary>
    public static string ForOutput(string text) => ToolConsole.IsOutputRedirected ? text : Neutralise(text);

    /// <summary>Text for standard error: as it is when that is no terminal.</summary>
    public static string ForError(string text) => ToolConsole.IsErrorRedirected ? text : Neutralise(text);

    /// <summary>The text with control characters shown instead of obeyed.</summary>
    public static string Neutralise(string text)
    {
        ArrayBufferWriter<byte> output = new();
        Write(output, Encoding.UTF8.GetBytes(text), isEnd: true);
        return Encoding.UTF8.GetString(output.WrittenSpan);
    }

    /// <summary>Writes UTF-8 the same way; returns how many bytes were taken.</summary>
    /// <param name="utf8">The bytes, of which nothing is certain.</param>
    /// <param name="isEnd">False when more may come, so that an unfinished character or line end is left.</param>
    public static int Write(IBufferWriter<byte> output, ReadOnlySpan<byte> utf8, bool isEnd)
    {
        int at = 0;
        int begun = 0;
        while (at < utf8.Length)
        {
            // Before a line feed it moves the cursor to where the line feed does.
            if (utf8[at] == '\r' && (at + 1 < utf8.Length ? utf8[at + 1] == '\n' : !isEnd))
            {
                if (at + 1 == utf8.Length)
                    break;
                at += 2;
                continue;
            }

            OperationStatus status = Rune.DecodeFromUtf8(utf8[at..], out Rune rune, out int length);
            if (status == OperationStatus.NeedMoreData && !isEnd)
                break;
            if (status == OperationStatus.Done && !IsControl(rune))
            {
                at += length;
                continue;
            }

            output.Write(utf8[begun..at]);
            if (status != OperationStatus.Done || rune.IsAscii)
            {
                foreach (byte one in utf8.Slice(at, length))
                    Write(output, $"\\x{one:X2}");
            }
            else
            {
                Write(output, $"\\u{rune.Value:X4}");
            }

            begun = at += length;
        }

        output.Write(utf8[begun..at]);
        return at;
    }

    private static bool IsControl(Rune rune) => rune.Value is not ('\t' or '\n' or 0x200C or 0x200D)
        && Rune.GetUnicodeCategory(rune) is UnicodeCategory.Control or UnicodeCategory.Format
            or UnicodeCategory.LineSeparator or UnicodeCategory.ParagraphSeparator;

    private static void Write(IBufferWriter<byte> output, string ascii) => Encoding.ASCII.GetBytes(ascii, output);
}

/// <summary>
/// Bytes for a terminal, written as <see cref="TerminalText"/> shows them. It holds what is no whole character yet.
/// </summary>
internal sealed class TerminalStream(Stream terminal) : MemoryStream
{
    private readonly ArrayBufferWriter<byte> _shown = new();

    /// <summary>All other writes come here too, but for single bytes, which are held until the next one.</summary>
    public override void Write(byte[] buffer, int offset, int count)
    {
        base.Write(buffer, offset, count);
        Send(isEnd: false);
    }

    public override void Flush()
    {
        Send(isEnd: true);
        terminal.Flush();
    }

    protected override void Dispose(bool disposing)
    {
        if (disposing)
        {
            Flush();
            terminal.Dispose();
        }

        base.Dispose(disposing);
    }

    private void Send(bool isEnd)
    {
        Span<byte> held = GetBuffer().AsSpan(0, (int)Length);
        int taken = TerminalText.Write(_shown, held, isEnd);
        held[taken..].CopyTo(held);
        SetLength(held.Length - taken);
        Position = Length;
        terminal.Write(_shown.WrittenSpan);
        _shown.ResetWrittenCount();
    }
}
