namespace MappedFileQueues.Hosting.Settings;

/// <summary>Finds the known name that somebody meant who wrote another one.</summary>
internal static class NearestName
{
    /// <summary>The known name that needs the fewest changes; null if none is near.</summary>
    /// <param name="word">What was written, in any case.</param>
    /// <param name="known">What there is.</param>
    public static string? Of(string word, IEnumerable<string> known)
    {
        (string? nearest, int least) = (null, int.MaxValue);
        foreach (string name in known)
        {
            int changes = ChangesBetween(word.ToUpperInvariant(), name.ToUpperInvariant());
            // The beginning of a name is near, however long the rest.
            bool isNear = changes <= Math.Max(1, Math.Max(word.Length, name.Length) / 3)
                || (word.Length > 3 && name.StartsWith(word, StringComparison.OrdinalIgnoreCase));
            if (isNear && changes < least)
                (nearest, least) = (name, changes);
        }

        return nearest;
    }

    /// <summary>The end of a sentence that refuses a name; empty where no known name is near.</summary>
    public static string DidYouMean(string name, IEnumerable<string> known) =>
        Of(name, known) is { } nearest ? $" Did you mean {nearest}?" : "";

    /// <summary>How many letters to insert, remove, replace, or swap with the next one (optimal string alignment).</summary>
    private static int ChangesBetween(string first, string second)
    {
        int[,] changes = new int[first.Length + 1, second.Length + 1];
        for (int i = 0; i <= first.Length; i++)
        {
            for (int j = 0; j <= second.Length; j++)
            {
                if (i == 0 || j == 0)
                {
                    changes[i, j] = i + j;
                    continue;
                }

                int replaced = changes[i - 1, j - 1] + (first[i - 1] == second[j - 1] ? 0 : 1);
                changes[i, j] = Math.Min(replaced, Math.Min(changes[i - 1, j], changes[i, j - 1]) + 1);
                if (i > 1 && j > 1 && first[i - 1] == second[j - 2] && first[i - 2] == second[j - 1])
                    changes[i, j] = Math.Min(changes[i, j], changes[i - 2, j - 2] + 1);
            }
        }

        return changes[first.Length, second.Length];
    }
}
