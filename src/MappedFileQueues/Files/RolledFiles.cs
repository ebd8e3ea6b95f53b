using System.Globalization;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Files;

/// <summary>
/// The closed files of a stream: beside `app.log` they are `app.000001.log`, `app.000002.log` and so on, the highest number being
/// the youngest. Numbers are never used again.
/// </summary>
internal sealed class RolledFiles
{
    private const int DigitsMin = 6;

    private readonly StoreDirectory _directory;
    private readonly string _stem;
    private readonly string _extension;
    private readonly List<long> _numbers;

    public RolledFiles(StoreDirectory directory, string name)
    {
        _directory = directory;
        _extension = Path.GetExtension(name);
        _stem = name[..^_extension.Length];
        _numbers = [.. directory.List("").Select(NumberOf).Where(number => number > 0).Order()];
    }

    /// <summary>How many there are.</summary>
    public int Count => _numbers.Count;

    /// <summary>Gives a file the next number; its new name.</summary>
    public string Add(string name)
    {
        long number = _numbers.Count > 0 ? _numbers[^1] : 0;
        string rolled;
        do
            rolled = NameOf(++number);
        while (!_directory.RenameWithoutReplacing(name, rolled));
        _numbers.Add(number);
        return rolled;
    }

    /// <summary>Takes the oldest one from the list; its file stays.</summary>
    public string TakeOldest()
    {
        string name = NameOf(_numbers[0]);
        _numbers.RemoveAt(0);
        return name;
    }

    private string NameOf(long number) =>
        _stem + "." + number.ToString(CultureInfo.InvariantCulture).PadLeft(DigitsMin, '0') + _extension;

    /// <summary>The number of a closed file; 0 for any other name.</summary>
    private long NumberOf(string name)
    {
        int length = name.Length - _stem.Length - 1 - _extension.Length;
        if (length < DigitsMin || !name.StartsWith(_stem + ".", StringComparison.Ordinal)
            || !name.EndsWith(_extension, StringComparison.Ordinal))
            return 0;
        string digits = name.Substring(_stem.Length + 1, length);
        return long.TryParse(digits, NumberStyles.None, CultureInfo.InvariantCulture, out long number) && NameOf(number) == name
            ? number
            : 0;
    }
}
