using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Reflection;
using MappedFileQueues.Platform;
using Microsoft.Extensions.Configuration;

namespace MappedFileQueues.Hosting.Settings;

/// <summary>
/// Reads options from their section of the configuration: of queues, consumers, health and the log. Not the framework's binder,
/// which takes 640 of a mode as decimal and 5 of a time as days, knows no units, and ignores a key that no option has. Properties
/// are set by reflection, which also reaches those that only an initializer may set; it works in trimmed programs.
/// </summary>
internal static class SectionReader
{
    /// <summary>Sets each property whose key is there, and tells what cannot be used.</summary>
    /// <typeparam name="T">The options.</typeparam>
    /// <param name="section">Their section; null for none.</param>
    /// <param name="path">Its full path, for the sentences.</param>
    /// <param name="options">The options that are set; a property whose value cannot be used stays as it is.</param>
    /// <param name="sections">Keys in it that are sections of their own, which the caller reads.</param>
    /// <returns>A sentence for each key that is wrong.</returns>
    public static IReadOnlyList<string> Read<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicProperties)] T>(
        IConfiguration? section, string path, T options, params string[] sections)
        where T : class
    {
        List<string> failures = [];
        if (section is null)
            return failures;
        PropertyInfo[] properties =
            [.. typeof(T).GetProperties().Where(property => !sections.Contains(property.Name) && !IsSetByCode(property))];
        string[] known = [.. properties.Select(property => property.Name), .. sections];
        foreach (IConfigurationSection child in section.GetChildren())
        {
            string key = $"{path}:{child.Key}";
            PropertyInfo? property = properties.FirstOrDefault(one => Same(one.Name, child.Key));
            bool isSection = sections.Any(one => Same(one, child.Key));
            if (property is null && !isSection)
            {
                failures.Add(
                    $"{key} is no option.{NearestName.DidYouMean(child.Key, known)} The options are "
                    + $"{string.Join(", ", known.Order(StringComparer.Ordinal))}.");
            }
            else if (isSection && child.Value is { Length: > 0 } word)
            {
                failures.Add($"{key} is a section with keys of its own, not '{word}'.");
            }
            else if (property is not null && child.GetChildren().FirstOrDefault() is { } below)
            {
                failures.Add($"{key}:{below.Key} is no option: {key} is a value.");
            }
            else if (property is not null && child.Value is null)
            {
                // The null of a JSON file, where an option may be that; anywhere else it says nothing.
                if (Nullable.GetUnderlyingType(property.PropertyType) is not null)
                    property.SetValue(options, null);
            }
            else if (property is not null && child.Value is { } text && !TrySet(property, options, text, out string expected))
            {
                failures.Add($"{key} is {expected}, not '{text}'.");
            }
        }

        return failures;
    }

    private static bool Same(string name, string key) => name.Equals(key, StringComparison.OrdinalIgnoreCase);

    /// <summary>Clocks and handlers are no text.</summary>
    private static bool IsSetByCode(PropertyInfo property) =>
        property.PropertyType == typeof(TimeProvider) || typeof(Delegate).IsAssignableFrom(property.PropertyType);

    private static bool TrySet(PropertyInfo property, object options, string text, out string expected)
    {
        expected = "";
        if (property.PropertyType == typeof(string))
        {
            property.SetValue(options, text);
            return true;
        }

        // A file of variables with the line ends of Windows leaves one at the end of each value.
        text = text.Trim();
        // As an environment variable that is there and empty: it says nothing.
        if (text.Length == 0)
            return true;
        Type? underlying = Nullable.GetUnderlyingType(property.PropertyType);
        bool isRead = TryParse(
            property.Name, underlying ?? property.PropertyType, underlying is not null, text, out object? value, out expected);
        if (isRead)
            property.SetValue(options, value);
        return isRead;
    }

    private static bool TryParse(
        string name, Type type, bool mayBeNull, string text, out object? value, out string expected)
    {
        bool isRead;
        if (type == typeof(bool))
        {
            expected = "true or false";
            isRead = bool.TryParse(text, out bool flag);
            value = flag;
        }
        else if (type == typeof(TimeSpan))
        {
            expected = $"a time such as {Quantities.TimeForms}, or {Quantities.Infinite}";
            isRead = Quantities.TryParseTime(text, out TimeSpan time);
            // No limit is null where an option may be that.
            value = mayBeNull && time == Timeout.InfiniteTimeSpan ? null : time;
        }
        else if (type == typeof(UnixFileMode))
        {
            expected = CreateModes.Expected;
            isRead = TryParseMode(text, out UnixFileMode mode);
            value = mode;
        }
        else if (type.IsEnum)
        {
            // Names only: a number that corresponds to no member would pass otherwise.
            string[] names = Enum.GetNames(type);
            expected = $"one of {string.Join(", ", names)}";
            isRead = names.Any(one => Same(one, text));
            value = isRead ? Enum.Parse(type, text, ignoreCase: true) : null;
        }
        else
        {
            isRead = TryParseNumber(name, type, mayBeNull, text, out value, out expected);
        }

        return isRead;
    }

    /// <summary>Reads a mode that is usable, of three octal digits, with or without zeros before them.</summary>
    private static bool TryParseMode(string text, out UnixFileMode mode)
    {
        const int OctalBase = 8;
        mode = 0;
        int number = 0;
        foreach (char digit in text)
        {
            if (digit is < '0' or > '7' || (number = (number * OctalBase) + digit - '0') > (int)CreateModes.DirectoryBits)
                return false;
        }

        mode = (UnixFileMode)number;
        return CreateModes.IsUsable(mode);
    }

    private static bool TryParseNumber(
        string name, Type type, bool mayBeNull, string text, out object? value, out string expected)
    {
        value = null;
        bool isCount = IsCount(name);
        expected = isCount ? $"a whole number{(mayBeNull ? ", or all" : "")}" : $"a length such as {Quantities.LengthForms}";
        if (isCount && mayBeNull && Same("all", text))
            return true;
        bool isRead = isCount
            ? long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long number)
            : Quantities.TryParseLength(text, out number);
        if (type != typeof(int))
            value = number;
        else if (isRead = isRead && number <= int.MaxValue)
            value = (int)number;
        return isRead;
    }

    /// <summary>A number of things; every other number is one of bytes.</summary>
    private static bool IsCount(string name) =>
        name is "BatchLengthMax" or "AttemptsMax" or "DeadLettersInRowMax" or "Concurrency"
        || name.EndsWith("Count", StringComparison.Ordinal);
}
