using System.Collections.Concurrent;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Hosting;

/// <summary>
/// A message template (`User {Name} has {Count,5:N0} items`), parsed once into UTF-8 text and holes. It is split where the
/// framework splits it, so a name may hold spaces and doubled braces. Templates that the framework refuses do not come here: it
/// throws in the caller, before it calls any provider.
/// </summary>
internal sealed class MessageTemplate
{
    /// <summary>
    /// A program that logs interpolated strings makes a new template with each call; these are not worth keeping.
    /// </summary>
    private const int CachedCountMax = 1024;

    private static readonly ConcurrentDictionary<string, MessageTemplate> s_cache = new(StringComparer.Ordinal);

    private MessageTemplate(string source, Part[] parts) => (Source, Parts) = (source, parts);

    /// <summary>The string that was parsed.</summary>
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
        int at = 0;
        while (at < template.Length)
        {
            int open = FindBrace(template, '{', at);
            int close = FindBrace(template, '}', open);
            int textEnd = close < template.Length ? open : template.Length;
            if (textEnd > at)
                yield return Text(template[at..textEnd]);
            if (close == template.Length)
                yield break;
            yield return Hole(template.AsSpan(open + 1, close - open - 1));
            at = close + 1;
        }
    }

    /// <summary>
    /// The next brace that is not text: one of a run of odd length, the last of opening and the first of closing ones. The
    /// template's length if there is none.
    /// </summary>
    private static int FindBrace(string template, char brace, int from)
    {
        while (true)
        {
            int start = template.IndexOf(brace, from);
            if (start < 0)
                return template.Length;
            int end = start;
            while (end < template.Length && template[end] == brace)
                end++;
            if ((end - start) % 2 == 1)
                return brace == '{' ? end - 1 : start;
            from = end;
        }
    }

    private static Part Text(string text) => new(
        Encoding.UTF8.GetBytes(
            text.Replace("{{", "{", StringComparison.Ordinal).Replace("}}", "}", StringComparison.Ordinal)),
        null, 0, null);

    private static Part Hole(ReadOnlySpan<char> hole)
    {
        int nameEnd = hole.IndexOfAny(',', ':');
        if (nameEnd < 0)
            return new Part([], hole.ToString(), 0, null);
        ReadOnlySpan<char> rest = hole[nameEnd..];
        int colon = rest.IndexOf(':');
        string? format = colon >= 0 && colon + 1 < rest.Length ? rest[(colon + 1)..].ToString() : null;
        int alignment = 0;
        if (rest[0] == ',')
        {
            _ = int.TryParse(
                colon >= 0 ? rest[1..colon] : rest[1..], NumberStyles.Integer, CultureInfo.InvariantCulture, out alignment);
        }

        return new Part([], hole[..nameEnd].ToString(), alignment, format);
    }

    /// <summary>A piece of text, or a hole if it has a name.</summary>
    internal readonly record struct Part(byte[] Text, string? Name, int Alignment, string? Format);
}
