namespace MappedFileQueues.Tool.Check;

/// <summary>
/// The results in the form of monitoring plug-ins: the first line has the status, what is wrong, and after a bar the values for
/// a system that draws them. No other line has a bar, because such a system would take all that follows it for values.
/// </summary>
internal static class CheckText
{
    public static void Write(CheckResults results)
    {
        if (results.Stores is [var only])
        {
            OutputLine.Write(only.Status == CheckStatus.Unknown
                ? $"{only.Status.Word()}: {only.Problems[0].Text}"
                : $"{Line(only, NameOf(only.StorePath))} | {Values(only, "")}");
            return;
        }

        string[] names = Names([.. results.Stores.Select(store => store.StorePath)]);
        IEnumerable<string> kinds = results.Stores.Zip(names).GroupBy(store => store.First.Status)
            .OrderBy(kind => kind.Key.Rank())
            .Select(kind => $"{kind.Count()} {kind.Key.Word()}" + (kind.Key == CheckStatus.Ok
                ? ""
                : $" ({string.Join(", ", kind.Select(store => store.Second))})"));
        IEnumerable<string> values = results.Stores.Zip(names)
            .Where(store => store.First.Status != CheckStatus.Unknown)
            .Select(store => Values(store.First, $"{store.Second}."));
        string first = $"{results.Status.Word()}: {Report.Count(results.Stores.Count, "store")}: {string.Join(", ", kinds)}";
        OutputLine.Write($"{OneField(first)} | {string.Join(' ', values)}");
        foreach ((CheckResult store, string name) in results.Stores.Zip(names))
            OutputLine.Write(Line(store, name));
    }

    private static string Line(CheckResult result, string name)
    {
        string text = result.Problems.Count > 0
            ? string.Join("; ", result.Problems.OrderBy(problem => problem.Status.Rank()).Select(problem => problem.Text))
            : result.LaggingConsumer is { } consumer
                ? $"{Report.Bytes(result.Lag)} behind at most {ConsumerName.InBrackets(consumer)}"
                : "no consumers";
        return OneField($"{result.Status.Word()}: {name}: {text}");
    }

    private static string OneField(string text) => text.Replace('|', '/').ReplaceLineEndings(" ");

    /// <summary>The values; a label with a blank or the like is quoted, and what would end it is replaced.</summary>
    private static string Values(CheckResult result, string prefix)
    {
        string line = prefix.ReplaceLineEndings(" ");
        string start = string.Concat(line.Select(letter => letter is '\'' or '=' or '|' ? '_' : letter));
        string Label(string what) => start.Contains(' ', StringComparison.Ordinal) ? $"'{start}{what}'" : $"{start}{what}";
        return $"{Label("lag")}={result.Lag}B {Label("age")}={result.AgeSeconds:F0}s {Label("unflushed")}={result.Unflushed}B "
            + $"{Label("free")}={result.FreeBytes}B"
            + (result.Letters is { } letters ? $" {Label("letters")}={letters}" : "");
    }

    /// <summary>The stores' own names where these tell them apart; otherwise their whole paths.</summary>
    private static string[] Names(string[] paths)
    {
        string[] names = [.. paths.Select(NameOf)];
        return names.Distinct().Count() == names.Length ? names : paths;
    }

    private static string NameOf(string path) => Path.GetFileName(Path.TrimEndingDirectorySeparator(path));
}
