using System.Globalization;

namespace MappedFileQueues.Hosting.Settings;

/// <summary>
/// Lengths and times as text. Configuration and the command line read them here, so a value that is right in one of them is right
/// in the other, and means the same.
/// </summary>
internal static class Quantities
{
    /// <summary>The forms of a length, for messages.</summary>
    public const string LengthForms = "4096, 64MiB or 10GiB";

    /// <summary>The forms of a time, for messages.</summary>
    public const string TimeForms = "500ms, 10s, 5m, 72h or 00:00:05";

    /// <summary>What stands for a time without an end.</summary>
    public const string Infinite = "infinite";

    /// <summary>At most a number of days that every clock and timer accepts.</summary>
    private const double SecondsMax = 1e9;

    private static readonly (string Suffix, long Factor)[] s_lengthUnits =
    [
        ("KiB", 1L << 10), ("MiB", 1L << 20), ("GiB", 1L << 30), ("K", 1L << 10), ("M", 1L << 20), ("G", 1L << 30), ("B", 1),
    ];

    private static readonly (string Suffix, double Seconds)[] s_timeUnits = [("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600)];

    /// <summary>Reads a number of bytes: digits, and a unit of powers of 1,024 (64MiB is 64M).</summary>
    public static bool TryParseLength(string text, out long length)
    {
        (string suffix, long factor) = s_lengthUnits.FirstOrDefault(
            unit => text.EndsWith(unit.Suffix, StringComparison.OrdinalIgnoreCase), ("", 1));
        bool isLength = long.TryParse(
            text.AsSpan(0, text.Length - suffix.Length), NumberStyles.None, CultureInfo.InvariantCulture, out length)
            && length <= long.MaxValue / factor;
        length = isLength ? length * factor : 0;
        return isLength;
    }

    /// <summary>
    /// Reads a time of zero or more: a number with a unit, hours, minutes and seconds with colons, or `infinite`. A number alone
    /// is none, because .NET reads days and most programs seconds. Zero needs no unit.
    /// </summary>
    public static bool TryParseTime(string text, out TimeSpan time)
    {
        time = Timeout.InfiniteTimeSpan;
        if (text.Equals(Infinite, StringComparison.OrdinalIgnoreCase))
            return true;
        if (text.Contains(':', StringComparison.Ordinal))
        {
            return TimeSpan.TryParseExact(text, "c", CultureInfo.InvariantCulture, out time)
                && (time >= TimeSpan.Zero || time == Timeout.InfiniteTimeSpan);
        }

        (string suffix, double factor) =
            s_timeUnits.FirstOrDefault(unit => text.EndsWith(unit.Suffix, StringComparison.Ordinal), ("", 0));
        // The style does not keep "-Infinity" out.
        bool isTime = double.TryParse(
            text.AsSpan(0, text.Length - suffix.Length), NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture,
            out double number)
            && number >= 0 && number * factor <= SecondsMax && (suffix.Length > 0 || number == 0);
        time = isTime ? TimeSpan.FromSeconds(number * factor) : default;
        return isTime;
    }
}
