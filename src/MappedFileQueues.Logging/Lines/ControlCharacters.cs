using System.Buffers;
using System.Text;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Characters of a text line that would not appear as themselves to a reader of the line: line ends, which would let foreign text
/// start a line of its own; ESC and others that control a terminal; invisible characters and those that change the direction of
/// text. The tab is not one of them. They are written as a line end with an indentation, or as `\u001B` (`\U000E0041`). Those
/// are the ones that the framework's console escapes, and all that Unicode calls ignorable by default
/// (Default_Ignorable_Code_Point), except the variation selectors of emoji (U+FE00 to U+FE0F); and U+FFF9 to U+FFFB.
/// </summary>
internal static class ControlCharacters
{
    /// <summary>The first bytes of all of them, and of other characters: those from 0xC2 on also begin harmless ones.</summary>
    private static readonly SearchValues<byte> s_suspects = SearchValues.Create(
        [.. Enumerable.Range(0, 0x20).Where(code => code != '\t').Select(code => (byte)code),
            0x7F, 0xC2, 0xCD, 0xD8, 0xE1, 0xE2, 0xE3, 0xEF, 0xF0, 0xF3]);

    /// <summary>True if the text holds any of them.</summary>
    public static bool AreIn(ReadOnlySpan<byte> utf8) => IndexIn(utf8) >= 0;

    /// <summary>Appends the text without them; four spaces follow each line end.</summary>
    public static void WriteEscaped(LineBuffer target, ReadOnlySpan<byte> utf8)
    {
        for (int at = IndexIn(utf8); at >= 0; at = IndexIn(utf8))
        {
            target.Write(utf8[..at]);
            int length = LengthAtStart(utf8 = utf8[at..], out int code);
            if (code == '\r' && length < utf8.Length && utf8[length] == '\n')
            {
                utf8 = utf8[length..];
                code = '\n';
            }

            if (code == '\n')
            {
                target.Write("\n    "u8);
            }
            else
            {
                target.Write(code < 0x10000 ? "\\u"u8 : "\\U"u8);
                target.Write(code, code < 0x10000 ? "X4" : "X8");
            }

            utf8 = utf8[length..];
        }

        target.Write(utf8);
    }

    private static int IndexIn(ReadOnlySpan<byte> utf8)
    {
        for (int at = 0; ; at++)
        {
            int next = utf8[at..].IndexOfAny(s_suspects);
            if (next < 0)
                return -1;
            at += next;
            if (LengthAtStart(utf8[at..], out _) > 0)
                return at;
        }
    }

    /// <summary>The length in bytes of the character at the start, if it is one of them; otherwise 0.</summary>
    private static int LengthAtStart(ReadOnlySpan<byte> utf8, out int code)
    {
        bool isWhole = Rune.DecodeFromUtf8(utf8, out Rune rune, out int length) == OperationStatus.Done;
        code = rune.Value;
        return isWhole && IsHidden(code) ? length : 0;
    }

    private static bool IsHidden(int code) => code is (< ' ' and not '\t') or (>= 0x7F and <= 0x9F) or 0xAD or 0x034F or 0x061C
        or 0x115F or 0x1160 or 0x17B4 or 0x17B5 or (>= 0x180B and <= 0x180F) or (>= 0x200B and <= 0x200F)
        or (>= 0x2028 and <= 0x202E) or (>= 0x2060 and <= 0x206F) or 0x3164 or 0xFEFF or 0xFFA0 or (>= 0xFFF0 and <= 0xFFFB)
        or (>= 0x1BCA0 and <= 0x1BCA3) or (>= 0x1D173 and <= 0x1D17A) or (>= 0xE0000 and <= 0xE0FFF);
}
