using System.Globalization;

namespace MappedFileQueues.Files.Names;

/// <summary>
/// The names that belong to `app.log`: its closed files are `app.roll-000001.log` and so on, the highest number being the
/// youngest, and the next one is created as `app.roll-next.log`. Files of such names are deleted and overwritten, so no other
/// program may use them: a date, a month or a plain number between the dots is what other programs choose.
/// </summary>
internal sealed class RolledNames
{
    /// <summary>The highest number: a higher one is another program's, and the one after it would be none.</summary>
    public const long NumberMax = 999_999_999_999_999;

    private const string Mark = ".roll-";
    private const int DigitsMin = 6;

    private readonly string _start;
    private readonly string _extension;

    public RolledNames(string name)
    {
        _extension = Path.GetExtension(name);
        _start = name[..^_extension.Length] + Mark;
        Next = _start + "next" + _extension;
    }

    /// <summary>The name of the next file while it is prepared.</summary>
    public string Next { get; }

    /// <summary>The name of a closed file.</summary>
    public string NameOf(long number) =>
        _start + number.ToString(CultureInfo.InvariantCulture).PadLeft(DigitsMin, '0') + _extension;

    /// <summary>The number of a closed file; 0 for any other name.</summary>
    public long NumberOf(string name)
    {
        int length = name.Length - _start.Length - _extension.Length;
        if (length < DigitsMin || !name.StartsWith(_start, StringComparison.Ordinal))
            return 0;
        ReadOnlySpan<char> digits = name.AsSpan(_start.Length, length);
        return long.TryParse(digits, NumberStyles.None, CultureInfo.InvariantCulture, out long number)
            && number <= NumberMax && NameOf(number) == name
            ? number
            : 0;
    }
}
