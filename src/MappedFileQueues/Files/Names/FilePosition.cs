using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Files;

/// <summary>
/// A place in one of the files that bear a name one after the other (a log that is rolled): which file, by its inode and the time
/// of its birth, and how many bytes into it. <see cref="ToString"/> makes a text of it that can be stored and parsed, so that a
/// reader goes on there after a restart, whatever the file is called by then. The default value is the beginning of the file that
/// bears the name now.
/// </summary>
public readonly record struct FilePosition : IParsable<FilePosition>
{
    internal FilePosition(FileMark file, long offset) => (File, Offset) = (file, offset);

    /// <summary>Bytes from the beginning of the file.</summary>
    public long Offset { get; }

    internal FileMark File { get; }

    /// <summary>Whether both lie in the same file.</summary>
    /// <param name="other">The other place.</param>
    public bool IsInSameFileAs(FilePosition other) => File == other.File;

    /// <summary>As `inode-birth:offset`, the first two in hexadecimal.</summary>
    public override string ToString() =>
        string.Create(CultureInfo.InvariantCulture, $"{File.Inode:x}-{File.Birth:x}:{Offset}");

    /// <summary>Reads what <see cref="ToString"/> made.</summary>
    /// <param name="text">The text.</param>
    /// <exception cref="ArgumentNullException">There is none.</exception>
    /// <exception cref="FormatException">It is not such a text.</exception>
    public static FilePosition Parse(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return TryParse(text, out FilePosition position)
            ? position
            : throw new FormatException($"This is no position in a file: text={text}. Give what FilePosition.ToString made.");
    }

    /// <summary>Reads what <see cref="ToString"/> made; false when the text is something else.</summary>
    /// <param name="text">The text.</param>
    /// <param name="position">The place.</param>
    public static bool TryParse([NotNullWhen(true)] string? text, out FilePosition position)
    {
        position = default;
        ReadOnlySpan<char> rest = text;
        int dash = rest.IndexOf('-');
        int colon = rest.IndexOf(':');
        if (dash < 0 || colon < dash
            || !ulong.TryParse(rest[..dash], NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out ulong inode)
            || !long.TryParse(
                rest[(dash + 1)..colon], NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out long birth)
            || !long.TryParse(rest[(colon + 1)..], NumberStyles.None, CultureInfo.InvariantCulture, out long offset))
            return false;
        position = new FilePosition(new FileMark(inode, birth), offset);
        return true;
    }

    static FilePosition IParsable<FilePosition>.Parse(string s, IFormatProvider? provider) => Parse(s);

    static bool IParsable<FilePosition>.TryParse(string? s, IFormatProvider? provider, out FilePosition result) =>
        TryParse(s, out result);
}
