using System.Text.RegularExpressions;

namespace MappedFileQueues.PackageTexts;

/// <summary>What a page holds for the repository's own tools, and what only the repository can show.</summary>
internal static partial class Comments
{
    /// <summary>Without HTML comments, which some readers of packages show, and without pictures from the repository.</summary>
    public static string Remove(string markdown) => Comment().Replace(Picture().Replace(markdown, ""), "");

    [GeneratedRegex(@"^<!--[^>]*-->\n|<!--.*?-->", RegexOptions.Singleline | RegexOptions.Multiline)]
    private static partial Regex Comment();

    [GeneratedRegex(@"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", RegexOptions.Multiline)]
    private static partial Regex Picture();
}
