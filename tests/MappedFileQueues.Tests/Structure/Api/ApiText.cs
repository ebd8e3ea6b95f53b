using System.Text;
using System.Text.RegularExpressions;
using System.Xml.Linq;

namespace MappedFileQueues.Tests.Structure.Api;

/// <summary>Makes Markdown of the elements of a comment, in lines as long as those of the other pages.</summary>
internal static partial class ApiText
{
    private const int LineLengthMax = 118;

    /// <summary>The paragraphs of an element; blocks of code stay as they are.</summary>
    public static string Of(XElement element)
    {
        StringBuilder text = new();
        StringBuilder paragraph = new();
        foreach (XNode node in element.Nodes())
        {
            if (node is XElement { Name.LocalName: "para" } inner)
            {
                End(paragraph, text);
                text.Append(Of(inner));
            }
            else if (node is XElement { Name.LocalName: "code" } code)
            {
                End(paragraph, text);
                text.Append($"```text\n{Dedent(code.Value)}\n```\n\n");
            }
            else
            {
                paragraph.Append(Inline(node));
            }
        }

        End(paragraph, text);
        return text.ToString();
    }

    /// <summary>An element on one line, for lists and tables.</summary>
    public static string LineOf(XElement element) =>
        Spaces().Replace(string.Concat(element.Nodes().Select(Inline)), " ").Trim();

    /// <summary>Breaks a line of words; those behind the first are indented.</summary>
    public static string Wrap(string line, string indent = "")
    {
        StringBuilder text = new();
        int column = 0;
        foreach (string word in line.Split(' ', StringSplitOptions.RemoveEmptyEntries))
        {
            if (column > 0 && column + 1 + word.Length > LineLengthMax)
            {
                text.Append('\n').Append(indent);
                column = indent.Length;
            }
            else if (text.Length > 0)
            {
                text.Append(' ');
                column++;
            }

            text.Append(word);
            column += word.Length;
        }

        return text.ToString();
    }

    private static string Inline(XNode node) => node switch
    {
        XText text => Escape(text.Value),
        XElement { Name.LocalName: "see" or "seealso" } see => $"`{NameOf(see)}`",
        XElement { Name.LocalName: "paramref" or "typeparamref" } reference => $"`{reference.Attribute("name")!.Value}`",
        XElement { Name.LocalName: "c" } code => $"`{code.Value}`",
        XElement other => string.Concat(other.Nodes().Select(Inline)),
        _ => "",
    };

    /// <summary>Brackets, but for those between backquotes, which show what is between them as it is.</summary>
    private static string Escape(string text) => string.Join('`', text.Split('`').Select(
        (part, index) => index % 2 == 0 ? part.Replace("<", "&lt;", StringComparison.Ordinal) : part));

    /// <summary>`M:Space.Type`1.Member(Parameter)` is `Type{T}.Member`, with the usual brackets.</summary>
    private static string NameOf(XElement see)
    {
        if (see.Attribute("langword") is { } word)
            return word.Value;
        string id = see.Attribute("cref")?.Value ?? see.Value;
        string path = id[(id.IndexOf(':', StringComparison.Ordinal) + 1)..];
        int parameters = path.IndexOf('(', StringComparison.Ordinal);
        path = ArityOfMethod().Replace(parameters < 0 ? path : path[..parameters], "");
        string[] parts = path.Replace("`1", "<T>", StringComparison.Ordinal).Split('.');
        return id.StartsWith("T:", StringComparison.Ordinal) || parts.Length < 2 ? parts[^1] : $"{parts[^2]}.{parts[^1]}";
    }

    private static void End(StringBuilder paragraph, StringBuilder text)
    {
        string words = Spaces().Replace(paragraph.ToString(), " ").Trim();
        if (words.Length > 0)
            text.Append(Wrap(words)).Append("\n\n");
        paragraph.Clear();
    }

    private static string Dedent(string code)
    {
        string[] lines = code.Trim('\n').TrimEnd().Split('\n');
        int indent = lines.Where(line => line.Trim().Length > 0).Min(line => line.Length - line.TrimStart().Length);
        return string.Join('\n', lines.Select(line => line.Length < indent ? "" : line[indent..].TrimEnd()));
    }

    [GeneratedRegex(@"\s+")]
    private static partial Regex Spaces();

    [GeneratedRegex(@"``\d+")]
    private static partial Regex ArityOfMethod();
}
