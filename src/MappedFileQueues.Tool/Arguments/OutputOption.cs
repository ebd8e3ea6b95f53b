namespace MappedFileQueues.Tool.Arguments;

/// <summary>`--output text|json`, an option of the root command, which all commands inherit.</summary>
internal static class OutputOption
{
    public static readonly Option<string> Option = Create();

    /// <summary>True if the result is wanted as JSON.</summary>
    public static bool IsJson(ParseResult parsed) => parsed.GetRequiredValue(Option) == "json";

    private static Option<string> Create()
    {
        Option<string> option = ToolOptions.OneOf(
            "--output", "text: results to read; json: one JSON value, lengths and offsets in bytes.", "text", "json");
        option.Recursive = true;
        return option;
    }
}
