using System.Buffers;

namespace MappedFileQueues.Hosting;

/// <summary>
/// Characters of a text line that would not appear as themselves to a reader of the line: line ends, which would let foreign text
/// start a line of its own; ESC and others that control a terminal; invisible characters and those that change the direction of
/// text. The tab is not one of them. They are written as a line end with an indentation, or as `\u001B`. Those are
/// the ones that the framework's console escapes, and more that nobody can see: U+00AD, U+061C, U+2060 to U+206F, U+FEFF.
/// </summary>
internal static class ControlCharacters
{
    /// <summary>The first bytes of all of them, and of other characters: those from 0xC2 on also begin harmless ones.</summary>
    private static readonly SearchValues<byte> s_suspects = SearchValues.Create(
        [.. Enumerable.Range(0, 0x20).Where(code => code != '\t').Select(code => (byte)code), 0x7F, 0xC2, 0xD8, 0xE2, 0xEF]);

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
                target.Write("\\u"u8);
                target.Write(code, "X4");
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
        switch (utf8)
        {
            case [< 0x80, ..]:
                code = utf8[0];
                return code is not '\t' and (< ' ' or 0x7F) ? 1 : 0;
            case [0xC2, (>= 0x80 and <= 0x9F) or 0xAD, ..]:
                code = utf8[1];
                return 2;
            case [0xD8, 0x9C, ..]:
                code = 0x061C;
                return 2;
            case [0xEF, 0xBB, 0xBF, ..]:
                code = 0xFEFF;
                return 3;
            case [0xE2, >= 0x80 and <= 0xBF, >= 0x80 and <= 0xBF, ..]:
                code = 0x2000 | ((utf8[1] & 0x3F) << 6) | (utf8[2] & 0x3F);
                return code is (>= 0x200B and <= 0x200F) or (>= 0x2028 and <= 0x202E) or (>= 0x2060 and <= 0x206F) ? 3 : 0;
            default:
                code = 0;
                return 0;
        }
    }
}
