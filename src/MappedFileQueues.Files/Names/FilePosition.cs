using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Files;

/// <summary>
/// A position in one of the files that have a name one after the other (a log that is rolled): the file, by its inode and its
/// time of creation, and the bytes before the position. <see cref="ToString"/> makes a text that can be stored and parsed, so
/// that a reader continues there after a restart, whatever the file is called then. The default value is the beginning of the
/// file that has the name now.
/// </summary>
public readonly record struct FilePosition : IParsable<FilePosition>
{
    /// <summary>How many bytes before a position tell whether the file still holds what was read.</summary>
    internal const int CheckedMax = 64;

    /// <summary>No file is so long, and no read may begin there.</summary>
    private const long OffsetMax = 1L << 62;

    internal FilePosition(FileMark file, long offset, uint? check) => (File, Offset, Check) = (file, offset, check);

    /// <summary>Bytes from the beginning of the file.</summary>
    public long Offset { get; }

    internal FileMark File { get; }

    /// <summary>
    /// The CRC-32C of the bytes before the position, <see cref="CheckedMax"/> at most; null when they are not known.
    /// </summary>
    internal uint? Check { get; }

    /// <summary>Whether both are in the same file.</summary>
    /// <param name="other">The other place.</param>
    public bool IsInSameFileAs(FilePosition other) => File == other.File;

    /// <summary>Whether both are the same place in the same file.</summary>
    /// <param name="other">The other place.</param>
    public bool Equals(FilePosition other) => File == other.File && Offset == other.Offset;

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(File, Offset);

    /// <summary>
    /// As `inode-birth:offset`, the first two in hexadecimal; and `:checksum` of the bytes before the position, where the reader
    /// has them: a file that was truncated and has grown beyond the position since is recognised by it.
    /// </summary>
    public override string ToString() => string.Create(
        CultureInfo.InvariantCulture, $"{File.Inode:x}-{File.Birth:x}:{Offset}{(Check is { } check ? $":{check:x8}" : "")}");

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
        uint? check = null;
        int last = rest.LastIndexOf(':');
        if (last > colon)
        {
            if (!uint.TryParse(rest[(last + 1)..], NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out uint read))
                return false;
            check = read;
            rest = rest[..last];
        }

        if (dash < 0 || colon < dash
            || !ulong.TryParse(rest[..dash], NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out ulong inode)
            || !long.TryParse(
                rest[(dash + 1)..colon], NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out long birth)
            || !long.TryParse(rest[(colon + 1)..], NumberStyles.None, CultureInfo.InvariantCulture, out long offset)
            || offset > OffsetMax)
            return false;
        position = new FilePosition(new FileMark(inode, birth), offset, check);
        return true;
    }

    /// <summary>The checksum of what is before an offset, of which the last bytes are given; null if too few are.</summary>
    internal static uint? CheckOf(ReadOnlySpan<byte> before, long offset)
    {
        int length = (int)Math.Min(offset, CheckedMax);
        return length > 0 && before.Length >= length ? Crc32C.Compute(before[^length..]) : null;
    }

    static FilePosition IParsable<FilePosition>.Parse(string s, IFormatProvider? provider) => Parse(s);

    static bool IParsable<FilePosition>.TryParse(string? s, IFormatProvider? provider, out FilePosition result) =>
        TryParse(s, out result);
}
