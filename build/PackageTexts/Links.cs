using System.Text.RegularExpressions;
using System.Xml.Linq;

namespace MappedFileQueues.PackageTexts;

/// <summary>Names of the repository's files become addresses of them.</summary>
internal static partial class Links
{
    /// <summary>Of a Markdown text in a folder of the repository: what follows `](` and is no address.</summary>
    public static string MakeAbsolute(string markdown, string folder, string repositoryUrl) =>
        MarkdownLink().Replace(
            markdown, link => $"]({AddressOf(RepositoryPaths.Resolve(folder, link.Groups[1].Value), repositoryUrl)})");

    /// <summary>Of a documentation comment: pages that its text names.</summary>
    public static void MakeAbsolute(XElement member, string repositoryUrl)
    {
        foreach (XText text in member.DescendantNodes().OfType<XText>().ToList())
        {
            if (text.Parent!.Name.LocalName is "c" or "code" or "see")
                continue;
            string[] parts = Page().Split(text.Value);
            if (parts.Length > 1)
            {
                text.ReplaceWith(parts.Select(object (part, index) => index % 2 == 0
                    ? new XText(part)
                    : new XElement("see", new XAttribute("href", AddressOf(part, repositoryUrl)), part)));
            }
        }
    }

    private static string AddressOf(string path, string repositoryUrl) => $"{repositoryUrl}/blob/main/{path}";

    [GeneratedRegex(@"\]\((?!https?:|mailto:|#)([^)\s]+)\)")]
    private static partial Regex MarkdownLink();

    [GeneratedRegex(@"(?<![\w/])((?:docs|samples|models)/[\w./-]*\w)")]
    private static partial Regex Page();
}
