using System.Collections;

namespace MappedFileQueues.Hosting;

/// <summary>
/// The names and values of a state or a scope of any kind: lists, dictionaries, anything that enumerates pairs of a string and an
/// object, and dictionaries of other types.
/// </summary>
internal static class ValuePairs
{
    /// <summary>Takes the place of a null name.</summary>
    public const string NullKey = "(null)";

    public static bool AreIn(object? source) => source is IEnumerable<KeyValuePair<string, object?>> or IDictionary;

    /// <summary>
    /// Copies the pairs into the thread's list, which the next call reuses: enumerating may throw halfway, and the pairs are read
    /// more than once.
    /// </summary>
    public static List<KeyValuePair<string, object?>> Collect(LineWriter writer, object? source)
    {
        List<KeyValuePair<string, object?>> pairs = writer.Pairs;
        pairs.Clear();
        if (source is IEnumerable<KeyValuePair<string, object?>> known)
        {
            foreach (KeyValuePair<string, object?> pair in known)
                pairs.Add(new KeyValuePair<string, object?>(pair.Key ?? NullKey, pair.Value));
        }
        else if (source is IDictionary other)
        {
            foreach (DictionaryEntry entry in other)
                pairs.Add(new KeyValuePair<string, object?>(entry.Key?.ToString() ?? NullKey, entry.Value));
        }

        return pairs;
    }
}
