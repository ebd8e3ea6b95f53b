using System.Collections.Concurrent;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Hosting;

/// <summary>A message template (`User {Name} has {Count,5:N0} items`), taken apart once: text in UTF-8, and holes.</summary>
internal sealed class MessageTemplate
{
    /// <summary>Who logs interpolated strings makes a new template with each call; these are not worth keeping.</summary>
    private const int CachedCountMax = 1024;

    private static readonly ConcurrentDictionary<string, MessageTemplate> s_cache = new(StringComparer.Ordinal);

    private MessageTemplate(string source, Part[] parts) => (Source, Parts) = (source, parts);

    /// <summary>What it was made from.</summary>
    public string Source { get; }

    /// <summary>Text and holes in their order.</summary>
    public Part[] Parts { get; }

    public static MessageTemplate Of(string template)
    {
        if (s_cache.TryGetValue(template, out MessageTemplate? known))
            return known;
        MessageTemplate parsed = new(template, [.. Parse(template)]);
        if (s_cache.Count < CachedCountMax)
            s_cache.TryAdd(template, parsed);
        return parsed;
    }

    private static IEnumerable<Part> Parse(string template)
    {
        StringBuilder text = new();
        int at = 0;
        while (at < template.Length)
        {
            char letter = template[at];
            bool isDoubled = letter is '{' or '}' && at + 1 < template.Length && template[at + 1] == letter;
            int end = letter == '{' && !isDoubled ? template.IndexOf('}', at) : -1;
            if (end < 0)
            {
                text.Append(letter);
                at += isDoubled ? 2 : 1;
                continue;
            }

            if (text.Length > 0)
                yield return new Part(Encoding.UTF8.GetBytes(text.ToString()), null, 0, null);
            text.Clear();
            yield return Hole(template.AsSpan(at + 1, end - at - 1));
            at = end + 1;
        }

        if (text.Length > 0)
            yield return new Part(Encoding.UTF8.GetBytes(text.ToString()), null, 0, null);
    }

    private static Part Hole(ReadOnlySpan<char> hole)
    {
        int colon = hole.IndexOf(':');
        string? format = colon >= 0 ? hole[(colon + 1)..].ToString() : null;
        ReadOnlySpan<char> name = colon >= 0 ? hole[..colon] : hole;
        int comma = name.IndexOf(',');
        int alignment = 0;
        if (comma >= 0)
        {
            _ = int.TryParse(name[(comma + 1)..], NumberStyles.AllowLeadingSign | NumberStyles.AllowLeadingWhite,
                CultureInfo.InvariantCulture, out alignment);
            name = name[..comma];
        }

        return new Part([], name.Trim().ToString(), alignment, format);
    }

    /// <summary>A piece of text, or a hole when it has a name.</summary>
    internal readonly record struct Part(byte[] Text, string? Name, int Alignment, string? Format);
}
