namespace MappedFileQueues.Tool;

/// <summary>A store below a folder, or a folder that could not be looked into.</summary>
/// <param name="Problem">Why nobody could look into the folder; null for a store.</param>
internal sealed record FoundStore(string Path, string? Problem);

/// <summary>Finds stores below a folder. Links to folders are not followed.</summary>
internal static class StoreSearch
{
    /// <summary>How deep stores are looked for.</summary>
    private const int DepthMax = 6;

    /// <summary>True if a folder is a store itself.</summary>
    public static bool IsStore(string folder) => File.Exists(Path.Combine(folder, StoreNames.Meta));

    /// <summary>The folder itself if it is a store; otherwise the stores below it, in the order of their paths.</summary>
    public static IEnumerable<FoundStore> Below(string folder) => Find(SystemPath.Full(folder), 0);

    private static IEnumerable<FoundStore> Find(string folder, int depth)
    {
        if (IsStore(folder))
            return [new FoundStore(folder, null)];
        if (depth == DepthMax)
            return [];
        try
        {
            return
            [
                .. Directory.GetDirectories(folder).Order(StringComparer.Ordinal)
                    .Where(inner => new DirectoryInfo(inner).LinkTarget is null)
                    .SelectMany(inner => Find(inner, depth + 1)),
            ];
        }
        catch (DirectoryNotFoundException) when (depth > 0)
        {
            // It was removed since its parent was listed.
            return [];
        }
        catch (Exception error) when (error is IOException or UnauthorizedAccessException)
        {
            return [new FoundStore(folder, error.Message)];
        }
    }
}
